/*
 * scan_cursor.c - parses SCAN cursors.
 */
#include "shared/scan_cursor.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

bool cursor_parse(struct bytes text, uint64_t *cursor)
{
    char digits[32]; /* longer texts could only be valid with many leading zeros */
    if (text.len >= sizeof digits || (text.len && isspace((unsigned char)text.data[0])))
        return false;
    if (text.len)
        memcpy(digits, text.data, text.len);
    digits[text.len] = 0;
    char *end;
    errno = 0;
    *cursor = strtoul(digits, &end, 10);
    return errno == 0 && *end == 0; /* a NUL ends the number, as in Redis */
}
