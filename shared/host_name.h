/*
 * host_name.h - names of hosts with the placeholder %h, which stands for the name of this machine.
 *
 *   "%h.scree-backend"  ──►  "scree-backend-0.scree-backend"
 */
#pragma once

#include "shared/bytes.h"

/* So that the host fits into an address of 255 characters: "[" host "]:65535". */
enum { HOST_NAME_BYTES_MAX = 247 };

/* Replaces every %h. False: the result has more than HOST_NAME_BYTES_MAX bytes, or the machine's name is not known. */
bool host_name_expand(struct bytes text, char to[HOST_NAME_BYTES_MAX + 1]);
