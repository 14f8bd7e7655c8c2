/*
 * shebang.h - words of the first line of a script or library: #!lua name="my lib" flags=no-writes
 */
#pragma once

#include "shared/bytes.h"

enum { SHEBANG_WORD_MAX = 512 };
enum shebang_word { SHEBANG_WORD, SHEBANG_END, SHEBANG_BAD };

/* Reads the next word of the line into word[size], without its quotes. BAD: a quote does not end with the word, or the word
 * is too long. */
enum shebang_word shebang_next(struct bytes *line, char *word, size_t size);
/* Has every word of the line its closing quote? */
bool shebang_is_whole(struct bytes line);
