#include "backend/backup/pushed.h"

#include "backend/backup/disk_file.h"
#include "shared/number.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PUSHED_BYTES_MAX = 256 };

/* The value in `until-s VALUE`, which begins the file. */
static uint64_t read_until(struct bytes text)
{
    static const char name[] = "until-s ";
    const size_t skip = sizeof name - 1;
    uint64_t until_s = 0;
    const char *end = memchr(text.data, '\n', text.len);
    if (!end || (size_t)(end - text.data) < skip || memcmp(text.data, name, skip) != 0)
        return 0;
    struct bytes value = {text.data + skip, (size_t)(end - text.data) - skip};
    return number_parse_uint64(value, &until_s) ? until_s : 0;
}

uint64_t pushed_until_s(const char *dir)
{
    char path[PATH_MAX], reason[512];
    struct bytes text;
    if (!*dir || !disk_path(path, dir, "PUSHED", reason, sizeof reason) ||
        !disk_read(path, PUSHED_BYTES_MAX, &text, reason, sizeof reason))
        return 0;
    uint64_t until_s = read_until(text);
    free((void *)text.data);
    return until_s;
}

bool pushed_is_own(const char *name)
{
    return strcmp(name, "PUSHED") == 0 || strcmp(name, "PUSHED.new") == 0;
}
