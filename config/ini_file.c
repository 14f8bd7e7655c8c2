/*
 * ini_file.c - runs inih's stream parser over a text in memory.
 *
 * inih reads one line at a time (read_line), and reports a value before it reads the next line. So the number of lines
 * read so far is the line number of the reported value. inih does not report sections without values: read_line reports
 * sections itself.
 */
#include "config/ini_file.h"

#include "shared/check.h"

#include <errno.h>
#include <ini.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct ini_parse {
    struct bytes rest; /* text that inih has not read yet */
    const struct ini_events *events;
    void *owner;
    int line;
    bool indented;   /* the current line is indented */
    bool in_section; /* a section line was read */
    bool failed;
    int failed_line;
    char last_name[64]; /* name of the value before; an indented line continues it */
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

static void parse_fail(struct ini_parse *parse, int line)
{
    if (parse->failed)
        return;
    parse->failed = true;
    parse->failed_line = line;
}

/* Reports the section of a line "[name] …". inih itself reports a missing ']'. */
static void parse_section(struct ini_parse *parse, const char *start, const char *end)
{
    const char *close = memchr(start, ']', (size_t)(end - start));
    if (!close)
        return;
    parse->in_section = true;
    parse->last_name[0] = '\0';
    struct bytes name = {start + 1, (size_t)(close - start - 1)};
    if (!parse->events->on_section(parse->owner, parse->line, name, parse->reason))
        parse_fail(parse, parse->line);
}

/* inih's ini_reader: copies the next line with its newline to `to`; NULL: end of the text, or an error. */
static char *read_line(char *to, int room, void *stream)
{
    struct ini_parse *parse = stream;
    if (parse->failed || parse->rest.len == 0)
        return NULL;
    parse->line++;
    const char *newline = memchr(parse->rest.data, '\n', parse->rest.len);
    size_t len = newline ? (size_t)(newline - parse->rest.data) + 1 : parse->rest.len;
    if (len + 1 > (size_t)room || memchr(parse->rest.data, '\0', len)) {
        (void)snprintf(parse->reason, sizeof parse->reason,
                       len + 1 > (size_t)room
                           ? "expected a shorter line: a list can continue on indented lines"
                           : "expected text, found a zero byte");
        parse_fail(parse, parse->line);
        return NULL;
    }
    memcpy(to, parse->rest.data, len);
    to[len] = '\0';
    parse->rest.data += len;
    parse->rest.len -= len;

    const char *start = to + strspn(to, " \t\r\v\f");
    parse->indented = start > to;
    bool is_continued = parse->indented && parse->last_name[0];
    if (*start == '[' && !is_continued)
        parse_section(parse, start, to + len);
    return parse->failed ? NULL : to;
}

static int on_ini_value(void *owner, const char *section, const char *name, const char *value)
{
    (void)section; /* cut to 50 characters; on_section has received the whole name */
    struct ini_parse *parse = owner;
    if (parse->failed)
        return 0;
    if (!parse->in_section) {
        (void)snprintf(parse->reason, sizeof parse->reason, "expected a [section] before %s", name);
        parse_fail(parse, parse->line);
        return 0;
    }
    struct ini_value found = {parse->line, name, value,
                              parse->indented && strcmp(parse->last_name, name) == 0};
    if (!parse->events->on_value(parse->owner, &found, parse->reason))
        parse_fail(parse, parse->line);
    (void)snprintf(parse->last_name, sizeof parse->last_name, "%s", name);
    return !parse->failed;
}

/* inih has this limit in a variable of the whole process, and files are read by several threads. */
static void set_line_max(void)
{
    ini_max_line = INI_LINE_MAX;
}

bool ini_each(const char *path, struct bytes text, const struct ini_events *events, void *owner,
              char *error, size_t size)
{
    CHECK(events->on_section);
    CHECK(events->on_value);
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    static pthread_once_t line_max_is_set = PTHREAD_ONCE_INIT;
    struct ini_parse parse = {.rest = text, .events = events, .owner = owner};
    if (text.len >= 3 && memcmp(text.data, byte_order_mark, 3) == 0)
        parse.rest = (struct bytes){text.data + 3, text.len - 3};
    CHECK(pthread_once(&line_max_is_set, set_line_max) == 0);
    int bad_line = ini_parse_stream(read_line, &parse, on_ini_value, &parse);
    if (bad_line > 0 && (!parse.failed || bad_line < parse.failed_line)) {
        parse.failed = true;
        parse.failed_line = bad_line;
        (void)snprintf(parse.reason, sizeof parse.reason, "expected name = value, or [section]");
    }
    if (parse.failed)
        (void)snprintf(error, size, "%s:%d: %s", path, parse.failed_line, parse.reason);
    return !parse.failed;
}
