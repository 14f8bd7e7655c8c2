/*
 * hello.h - HELLO: the protocol version and the reply, shared by both programs.
 */
#pragma once

#include "shared/error.h"
#include "shared/reply.h"

/* Reads the protocol version in argument 1; leaves *resp unchanged without one. OK, ERR_PROTOCOL_VERSION, or
 * ERR_NOPROTO. */
enum error hello_version(const struct bytes *argv, uint32_t argc, uint8_t *resp);
/* `mode`: "standalone" or "cluster". */
void hello_reply(struct reply *reply, uint8_t resp, uint64_t id, const char *mode);

/* Is the client's name or library description free of bytes that would break CLIENT LIST? */
bool client_text_is_fine(struct bytes text);
