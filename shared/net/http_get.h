/*
 * http_get.h - one small blocking GET, for threads that may wait; used for requests to the admin ports of peers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* GETs `path` from `address`, within `timeout_ms` in total; sends `token` as bearer token unless it is empty. True:
 * the status was 200, and body[size] has the reply's text. False: body has the reason. */
bool http_get(const struct sockaddr *address, socklen_t len, const char *path, const char *token,
              uint64_t timeout_ms, char *body, size_t size);
