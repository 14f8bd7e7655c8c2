/*
 * zone.h - the zone of a process: machines of one zone are near to each other, and may be lost together.
 *
 *   zone = z1             ──► "z1"
 *   zone = $SCREE_ZONE    ──► what this variable of the environment has; "": none
 */
#pragma once

#include "shared/bytes.h"

enum { ZONE_NAME_MAX = 63 }; /* as of labels in Kubernetes */

/* 1 to ZONE_NAME_MAX letters, digits, '.', '_' and '-'? */
bool zone_name_valid(struct bytes name);
/* The name of the option's text; "": none. False: it is not a valid name, and to is "". */
bool zone_expand(struct bytes text, char to[ZONE_NAME_MAX + 1]);
