/* last_claim.c - a proxy believes the last copy that says that it leads, whatever its generation and term. */
#include "proxy/core/routes.h"

bool __real_routes_lead(struct routes *routes, const struct route_leader *leader);
bool __wrap_routes_lead(struct routes *routes, const struct route_leader *leader);

bool __wrap_routes_lead(struct routes *routes, const struct route_leader *leader)
{
    static uint32_t generation;
    struct route_leader newest = *leader;
    newest.generation = ++generation;
    return __real_routes_lead(routes, &newest);
}
