/*
 * ini_file.c - inih's stream parser over memory.
 *
 * inih asks for one line at a time and reports values at once, so the number of lines handed out is
 * the line of the value being reported. The same place sees every section line.
 */
#include "config/ini_file.h"

#include "shared/check.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>

struct walk {
    struct bytes rest; /* not yet handed to inih */
    const struct ini_events *events;
    void *owner;
    int line;
    bool indented;   /* the line in hand */
    bool in_section; /* a section line was seen */
    bool failed;
    int failed_line;
    char last_name[64]; /* of the value before, to tell a continued line */
    char reason[INI_REASON_MAX];
};

char *file_read(const char *path, size_t *len, char *error, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        (void)snprintf(error, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    size_t room = 64 * 1024;
    char *text = NULL;
    *len = 0;
    do {
        room *= 2;
        char *bigger = realloc(text, room);
        CHECK(bigger);
        text = bigger;
        errno = 0;
        *len += fread(text + *len, 1, room - *len, file);
    } while (*len == room && room <= INI_FILE_MAX);
    bool broken = ferror(file);
    int reason = errno;
    (void)fclose(file);
    if (!broken && *len <= INI_FILE_MAX)
        return text;
    (void)snprintf(error, size, "%s: %s", path,
                   broken ? strerror(reason) : "expected a file of at most 16mb");
    free(text);
    return NULL;
}

char *path_beside(const char *file, const char *path)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    char *whole = NULL;
    int len = *path == '/' || !slash ? asprintf(&whole, "%s", path)
                                     : asprintf(&whole, "%.*s/%s", (int)(slash - file), file, path);
    CHECK(len >= 0);
    return whole;
}

static void walk_fail(struct walk *walk, int line)
{
    if (walk->failed)
        return;
    walk->failed = true;
    walk->failed_line = line;
}

/* "[name]" with anything after it; inih finds the missing ']' itself. */
static void walk_section(struct walk *walk, const char *start, const char *end)
{
    const char *close = memchr(start, ']', (size_t)(end - start));
    if (!close)
        return;
    walk->in_section = true;
    walk->last_name[0] = '\0';
    struct bytes name = {start + 1, (size_t)(close - start - 1)};
    if (!walk->events->on_section(walk->owner, walk->line, name, walk->reason))
        walk_fail(walk, walk->line);
}

/* inih's reader: the next line with its newline; NULL ends the walk. */
static char *read_line(char *to, int room, void *stream)
{
    struct walk *walk = stream;
    if (walk->failed || walk->rest.len == 0)
        return NULL;
    walk->line++;
    const char *newline = memchr(walk->rest.data, '\n', walk->rest.len);
    size_t len = newline ? (size_t)(newline - walk->rest.data) + 1 : walk->rest.len;
    if (len + 1 > (size_t)room || memchr(walk->rest.data, '\0', len)) {
        (void)snprintf(walk->reason, sizeof walk->reason,
                       len + 1 > (size_t)room
                           ? "expected a shorter line; continue a list on the next line, indented"
                           : "expected text, found a zero byte");
        walk_fail(walk, walk->line);
        return NULL;
    }
    memcpy(to, walk->rest.data, len);
    to[len] = '\0';
    walk->rest.data += len;
    walk->rest.len -= len;

    const char *start = to + strspn(to, " \t\r\v\f");
    walk->indented = start > to;
    bool is_continued = walk->indented && walk->last_name[0];
    if (*start == '[' && !is_continued)
        walk_section(walk, start, to + len);
    return walk->failed ? NULL : to;
}

static int on_ini_value(void *owner, const char *section, const char *name, const char *value)
{
    (void)section; /* cut to 50 characters by inih; on_section has the whole */
    struct walk *walk = owner;
    if (walk->failed)
        return 0;
    if (!walk->in_section) {
        (void)snprintf(walk->reason, sizeof walk->reason, "expected a [section] before %s", name);
        walk_fail(walk, walk->line);
        return 0;
    }
    struct ini_value found = {walk->line, name, value,
                              walk->indented && strcmp(walk->last_name, name) == 0};
    if (!walk->events->on_value(walk->owner, &found, walk->reason))
        walk_fail(walk, walk->line);
    (void)snprintf(walk->last_name, sizeof walk->last_name, "%s", name);
    return !walk->failed;
}

bool ini_walk(const char *path, struct bytes text, const struct ini_events *events, void *owner,
              char *error, size_t size)
{
    CHECK(events->on_section);
    CHECK(events->on_value);
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct walk walk = {.rest = text, .events = events, .owner = owner};
    if (text.len >= 3 && memcmp(text.data, byte_order_mark, 3) == 0)
        walk.rest = (struct bytes){text.data + 3, text.len - 3};
    ini_max_line = INI_LINE_MAX;
    int bad_line = ini_parse_stream(read_line, &walk, on_ini_value, &walk);
    if (bad_line > 0 && (!walk.failed || bad_line < walk.failed_line)) {
        walk.failed = true;
        walk.failed_line = bad_line;
        (void)snprintf(walk.reason, sizeof walk.reason, "expected name = value, or [section]");
    }
    if (walk.failed)
        (void)snprintf(error, size, "%s:%d: %s", path, walk.failed_line, walk.reason);
    return !walk.failed;
}
