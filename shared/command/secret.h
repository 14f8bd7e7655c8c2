/*
 * secret.h - which arguments of a request are passwords: SLOWLOG and MONITOR show (redacted) instead.
 */
#pragma once

#include "shared/command/command.h"

bool secret_argument(const struct command *command, const struct bytes *argv, uint32_t index);
