/*
 * http_route.h - the paths of an admin port as a table, and the access check of each.
 *
 *   GET /metrics ─► a health check? or the right token? or no token configured and an allowed Host:? ─► row->answer
 *                       └ 401: the token is missing    └ 421: see http_host.h
 *
 * A row is one line, so that each page lives in a file of its own.
 */
#pragma once

#include "shared/net/http.h"

enum http_access {
    HTTP_HEALTH, /* always answered: small and without secrets */
    HTTP_PAGE,   /* needs no token: static files of the status page, without data */
    HTTP_DATA,   /* needs the token if one is configured */
};

struct http_route {
    const char *path; /* the complete path */
    enum http_access access;
    const char *content_type;
    void (*answer)(void *visit, struct http_reply *reply);
};

/* Access rules from the configuration. */
struct http_gate {
    const char *token; /* admin-token; empty: no token is needed */
    const char *hosts; /* admin-hosts */
};

/* Calls the answer function of the row for request->path. A client without access cannot find out which paths exist.
 * `visit` is passed on to the row. */
void http_route(const struct http_route *routes, size_t count, struct http_gate gate,
                const struct http_request *request, void *visit, struct http_reply *reply);
