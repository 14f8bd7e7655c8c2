/*
 * http.h - the admin port: a small HTTP server on a thread of its own (libmicrohttpd) for GET and HEAD.
 *
 * Handlers run on that thread: they read atomics and immutable snapshots only.
 */
#pragma once

#include "shared/out.h"

struct http_server;

/* Borrowed while the handler runs. */
struct http_request {
    const char *path;  /* without what follows a '?' */
    const char *host;  /* the header Host; NULL: none */
    const char *token; /* of "Authorization: Bearer", or the password of "Basic"; NULL: none */
};

struct http_header {
    const char *name;
    const char *value;
};

struct http_reply {
    int status;                        /* 200 at first; 404, 503 ... */
    const char *content_type;          /* static text; plain text at first */
    const struct http_header *headers; /* more, static, ended by a NULL name; NULL: none */
    struct out body;                   /* filled by the handler */
};

/* Answers one request. */
typedef void http_fn(void *owner, const struct http_request *request, struct http_reply *reply);

#define HTTP_TEXT    "text/plain; charset=utf-8"
#define HTTP_JSON    "application/json"
#define HTTP_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* `address` "host:port". NULL and a reason in error[size] when it cannot listen. */
struct http_server *http_start(const char *address, http_fn *on_request, void *owner, char *error,
                               size_t size);
int http_port(const struct http_server *server);
void http_stop(struct http_server *server); /* NULL is allowed */
