#include "shared/net/http_route.h"

#include "shared/check.h"
#include "shared/namespace.h"

static const struct http_route *route_find(const struct http_route *routes, size_t count,
                                           const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

static bool is_allowed(const struct http_route *route, const char *token,
                       const struct http_request *request)
{
    if (!*token || (route && route->is_open))
        return true;
    return request->token && secret_equal(bytes_of(token), bytes_of(request->token));
}

void http_route(const struct http_route *routes, size_t count, const char *token,
                const struct http_request *request, void *visit, struct http_reply *reply)
{
    CHECK(token);
    const struct http_route *route = route_find(routes, count, request->path);
    if (!is_allowed(route, token, request)) {
        reply->status = 401;
        out_printf(&reply->body, "a token is needed: see admin-token in the documentation\n");
    } else if (!route) {
        reply->status = 404;
        out_printf(&reply->body, "not found\n");
    } else {
        reply->content_type = route->content_type;
        route->answer(visit, reply);
    }
}
