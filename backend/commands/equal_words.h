/*
 * equal_words.h - finds equal arguments, so that a command reads a key that is given several times once.
 */
#pragma once

#include "shared/arena.h"

/* For each word the index of the first word that is equal to it, in the arena. */
const uint32_t *first_of_equal(struct arena *arena, const struct bytes *words, uint32_t count);
