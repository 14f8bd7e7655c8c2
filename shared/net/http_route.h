/*
 * http_route.h - the paths of an admin port as a table, and the token that opens them.
 *
 *   GET /metrics ─► row found? ─► row open, no token set, or the right token? ─► row->answer
 *                       └ 404             └ 401
 *
 * A row is one line, so that each page lives in a file of its own.
 */
#pragma once

#include "shared/net/http.h"

struct http_route {
    const char *path; /* the whole of it */
    bool is_open;     /* needs no token */
    const char *content_type;
    void (*answer)(void *visit, struct http_reply *reply);
};

/* Answers with the row of request->path; `token` empty: none is needed. Who lacks it does not learn which paths there
 * are. `visit` is handed to the row. */
void http_route(const struct http_route *routes, size_t count, const char *token,
                const struct http_request *request, void *visit, struct http_reply *reply);
