/*
 * http.h - the admin port: a small HTTP server on a thread of its own (libmicrohttpd) for GET and HEAD.
 *
 * Handlers run on that thread: they read atomics and immutable snapshots only.
 */
#pragma once

#include "shared/out.h"

struct http_server;

struct http_reply {
    int status;               /* 200, 404, 503 ... */
    const char *content_type; /* static text */
    struct out body;          /* filled by the handler */
};

/* Answers one path; false: 404. */
typedef bool http_fn(void *owner, const char *path, struct http_reply *reply);

/* `address` "host:port". NULL and a reason in error[size] when it cannot listen. */
struct http_server *http_start(const char *address, http_fn *on_request, void *owner, char *error,
                               size_t size);
int http_port(const struct http_server *server);
void http_stop(struct http_server *server); /* NULL is allowed */
