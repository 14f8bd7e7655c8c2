/*
 * bounced_slots.h - the slots that have bounced on a proxy's connection until the proxy has seen that (bounce.h). Requests for
 * them bounce too, also if the slots are here.
 */
#pragma once

#include "backend/keyspace/slot_set.h"

struct bounced_slots; /* NULL: none */
struct partition;

void bounced_slots_add(struct bounced_slots **bounced, uint16_t slot);
bool bounced_slots_has(const struct bounced_slots *bounced, uint16_t slot);
/* Forgets all slots. */
void bounced_slots_clear(struct bounced_slots **bounced);
/* The slots of the partition without these; `bounced` is not NULL. */
const struct slot_set *bounced_slots_here(struct bounced_slots *bounced,
                                          const struct partition *partition);
