/*
 * places.h - which namespace and database a storage namespace stands for, as SWAPDB left it (encoding.h: 'd' rows).
 */
#pragma once

#include "backend/store/store.h"

struct table;

/* A row of CF_SYSTEM: remembers it in the table when it is a database map. */
void places_note(struct table *places, struct bytes key, struct bytes value);
/* The namespace's name, borrowed from `space`, and the database its clients know it by. */
struct bytes places_find(const struct table *places, struct bytes space, uint8_t *database);
