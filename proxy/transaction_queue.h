/*
 * transaction_queue.h - iterates over the commands that a transaction has queued.
 */
#pragma once

#include "shared/command.h"

struct client_transaction;

/* False: it has seen enough. */
typedef bool transaction_queue_fn(void *owner, const struct command *command,
                                  const struct bytes *argv, uint32_t argc);
void transaction_queue_each(const struct client_transaction *transaction,
                            transaction_queue_fn *each, void *owner);
