/*
 * http_get.h - one small GET, blocking, for threads that may wait: peers ask each other's admin port with it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* GET `path` from an address, within `timeout_ms` in all; `token` is sent as bearer token unless it is empty. True: it
 * was 200, and body[size] has the answer's text. False: body has the reason. */
bool http_get(const struct sockaddr *address, socklen_t len, const char *path, const char *token,
              uint64_t timeout_ms, char *body, size_t size);
