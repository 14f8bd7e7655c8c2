/*
 * line_fields.h - reads the fields of a line "name=value name=value …", as backends reply them. Pure.
 *
 *   move=3 role=source state=copying reason=the disk is full          "reason" is the last field and may have spaces
 */
#pragma once

#include "shared/bytes.h"

/* The value of the field; empty: there is none. Borrowed from the line. */
struct bytes field_text(struct bytes line, const char *name);
/* 0: there is no such field, or it is no number. */
uint64_t field_number(struct bytes line, const char *name);
/* Is its value `text`? */
bool field_is(struct bytes line, const char *name, const char *text);
/* The two numbers of "slots=0-63". False: they are no range of slots. */
bool field_slots(struct bytes line, const char *name, unsigned *first, unsigned *last);
