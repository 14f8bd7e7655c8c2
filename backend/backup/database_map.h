/*
 * database_map.h - finds namespace and database number of a storage namespace, from the 'd' rows of CF_SYSTEM (encoding.h).
 *
 * After SWAPDB the storage namespace of a key is not that of its database.
 */
#pragma once

#include "backend/store/store.h"

struct table;

/* Adds a row of CF_SYSTEM to the table if it is a database map. */
void database_map_note(struct table *maps, struct bytes key, struct bytes value);
/* The namespace's name, borrowed from `space`, and the number of its database for clients. */
struct bytes database_map_find(const struct table *maps, struct bytes space, uint8_t *database);
