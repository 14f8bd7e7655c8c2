/*
 * expiry.h - deletes keys whose time has come.
 *
 * Active expiry walks the expiry index from its beginning: rows are ordered by time, so nothing that is not
 * due is ever looked at. Each due row is compared with the metadata row, which wins: a row of the index that
 * the metadata does not confirm is dropped.
 */
#pragma once

#include <stdbool.h>

struct call;

/* Deletes due keys, a bounded number of them, in a call without a session. Returns true when more are due. */
bool expiry_cycle(struct call *call);
