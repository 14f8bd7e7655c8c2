/*
 * error.h - every error of errors.def as a code, and its text as clients see it.
 */
#pragma once

enum error {
    OK = 0,
#define ERROR(name, text) name,
#include "shared/errors.def"
#undef ERROR
    ERROR_COUNT,
};

/* The text after the '-', e.g. "ERR syntax error". */
const char *error_text(enum error error);
