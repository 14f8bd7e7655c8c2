/*
 * queued.h - walks the commands that a transaction has queued.
 */
#pragma once

#include "shared/command.h"

struct client_transaction;

/* False: it has seen enough. */
typedef bool queued_fn(void *owner, const struct command *command, const struct bytes *argv,
                       uint32_t argc);
void queued_walk(const struct client_transaction *transaction, queued_fn *each, void *owner);
