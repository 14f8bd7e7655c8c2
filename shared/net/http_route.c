#include "shared/net/http_route.h"

#include "shared/check.h"
#include "shared/namespace.h"
#include "shared/net/http_host.h"

enum { HTTP_UNAUTHORIZED = 401, HTTP_MISDIRECTED = 421 };

static const struct http_route *route_find(const struct http_route *routes, size_t count,
                                           const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

static bool has_token(struct http_gate gate, const struct http_request *request)
{
    return request->token && secret_equal(bytes_of(gate.token), bytes_of(request->token));
}

/* With a token configured, Host: is not checked, so Prometheus may use any name: a foreign web page has no token. */
static int refusal(const struct http_route *route, struct http_gate gate,
                   const struct http_request *request)
{
    if (route && route->access == HTTP_HEALTH)
        return 0;
    if (!*gate.token)
        return http_host_is_ours(request->host, gate.hosts) ? 0 : HTTP_MISDIRECTED;
    if ((route && route->access == HTTP_PAGE) || has_token(gate, request))
        return 0;
    return HTTP_UNAUTHORIZED;
}

void http_route(const struct http_route *routes, size_t count, struct http_gate gate,
                const struct http_request *request, void *visit, struct http_reply *reply)
{
    CHECK(gate.token && gate.hosts);
    const struct http_route *route = route_find(routes, count, request->path);
    int status = refusal(route, gate, request);
    if (status == HTTP_UNAUTHORIZED) {
        reply->status = status;
        out_printf(&reply->body,
                   "a token is required (option admin-token): send Authorization: Bearer TOKEN\n");
    } else if (status == HTTP_MISDIRECTED) {
        reply->status = status;
        out_printf(&reply->body,
                   "this host name is not served: use an IP address or localhost, list the name in "
                   "admin-hosts, or set admin-token\n");
    } else if (!route) {
        reply->status = 404;
        out_printf(&reply->body, "not found\n");
    } else {
        reply->content_type = route->content_type;
        route->answer(visit, reply);
    }
}
