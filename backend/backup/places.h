/*
 * places.h - maps storage namespaces to namespace and database, after SWAPDB (encoding.h: 'd' rows).
 */
#pragma once

#include "backend/store/store.h"

struct table;

/* Adds a row of CF_SYSTEM to the table if it is a database map. */
void places_note(struct table *places, struct bytes key, struct bytes value);
/* The namespace's name, borrowed from `space`, and the number of its database for clients. */
struct bytes places_find(const struct table *places, struct bytes space, uint8_t *database);
