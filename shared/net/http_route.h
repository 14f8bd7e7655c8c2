/*
 * http_route.h - the paths of an admin port as a table, and what a request must show for each.
 *
 *   GET /metrics ─► a health check? or the right token? or, where no token is set, a Host: of ours? ─► row->answer
 *                       └ 401: the token is missing    └ 421: see http_host.h
 *
 * A row is one line, so that each page lives in a file of its own.
 */
#pragma once

#include "shared/net/http.h"

enum http_access {
    HTTP_HEALTH, /* always answered: small and without secrets */
    HTTP_PAGE,   /* needs no token: the status page's own files, without data */
    HTTP_DATA,   /* needs the token if there is one */
};

struct http_route {
    const char *path; /* the whole of it */
    enum http_access access;
    const char *content_type;
    void (*answer)(void *visit, struct http_reply *reply);
};

/* What the configuration says about access. */
struct http_gate {
    const char *token; /* admin-token; empty: none is needed */
    const char *hosts; /* admin-hosts */
};

/* Answers with the row of request->path. Without access a client does not learn which paths there are. `visit` is handed
 * to the row. */
void http_route(const struct http_route *routes, size_t count, struct http_gate gate,
                const struct http_request *request, void *visit, struct http_reply *reply);
