/*
 * http.h - the admin port: a small HTTP server on a thread of its own (libmicrohttpd) for GET and HEAD.
 *
 * Handlers run on that thread: they read atomics and immutable snapshots only.
 */
#pragma once

#include "shared/out.h"

struct http_server;

/* Valid while the handler runs. */
struct http_request {
    const char *path;  /* without the query string */
    const char *host;  /* header Host; NULL: none */
    const char *token; /* from "Authorization: Bearer", or the password from "Basic"; NULL: none */
};

struct http_header {
    const char *name;
    const char *value;
};

struct http_reply {
    int status;               /* initially 200 */
    const char *content_type; /* static text; initially plain text */
    /* additional headers, static, terminated by a NULL name; NULL: none */
    const struct http_header *headers;
    struct out body; /* filled by the handler */
};

/* Fills in the reply to one request. */
typedef void http_fn(void *owner, const struct http_request *request, struct http_reply *reply);

#define HTTP_TEXT    "text/plain; charset=utf-8"
#define HTTP_JSON    "application/json"
#define HTTP_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* `address` is "host:port". NULL: the server cannot listen, error[size] has the reason. */
struct http_server *http_start(const char *address, http_fn *on_request, void *owner, char *error,
                               size_t size);
int http_port(const struct http_server *server);
void http_stop(struct http_server *server); /* NULL is allowed */
