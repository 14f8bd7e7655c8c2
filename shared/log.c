/*
 * Threads share the level and one descriptor number. The number is never closed while a thread may write to it: a
 * reopened file replaces the old one under the same number (dup3).
 */
#include "shared/log.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, FILE_MODE = 0640, EVENT_MAX = 48, KINDS = 128 };

static _Atomic int threshold = LOG_INFO;
static _Atomic int target = STDERR_FILENO;
static _Atomic bool is_journal; /* standard error is the journal */
static pthread_mutex_t file_mutex = PTHREAD_MUTEX_INITIALIZER;
static int file_fd = -1; /* never closed once opened; guarded by file_mutex */

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

bool log_on(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

int log_descriptor(void)
{
    return atomic_load(&target);
}

/* Opens the file under the number file_fd; false when it cannot be opened. */
static bool open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return false;
    if (file_fd < 0) {
        file_fd = fd;
        return true;
    }
    bool moved = dup3(fd, file_fd, O_CLOEXEC) >= 0;
    (void)close(fd);
    return moved;
}

bool log_set_file(const char *path)
{
    (void)pthread_mutex_lock(&file_mutex);
    bool ok = !path || open_file(path);
    if (ok)
        atomic_store(&target, path ? file_fd : STDERR_FILENO);
    (void)pthread_mutex_unlock(&file_mutex);
    return ok;
}

void log_detect_journal(void)
{
    const char *stream =
        getenv("JOURNAL_STREAM"); /* device:inode of the standard error that systemd gave us */
    struct stat found;
    char text[64] = "";
    if (fstat(STDERR_FILENO, &found) == 0)
        (void)snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)found.st_dev,
                       (unsigned long long)found.st_ino);
    atomic_store(&is_journal, stream && strcmp(stream, text) == 0);
}

static size_t write_priority(char *line, enum log_level level)
{
    static const char priorities[] = "7643"; /* of syslog(3): debug, info, warning, error */
    if (!atomic_load(&is_journal) || atomic_load(&target) != STDERR_FILENO)
        return 0;
    line[0] = '<';
    line[1] = priorities[level];
    line[2] = '>';
    return 3;
}

static size_t write_line_head(char *line, size_t max, enum log_level level, const char *event)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    size_t start = write_priority(line, level);
    uint64_t now_ms = clock_wall_us() / 1000;
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    CHECK(gmtime_r(&seconds, &utc));
    size_t len = start + strftime(line + start, max - start, "%Y-%m-%dT%H:%M:%S", &utc);
    int more = snprintf(line + len, max - len, ".%03uZ %s %.64s ", (unsigned)(now_ms % 1000),
                        names[level], event);
    CHECK(more > 0);
    return len + (size_t)more;
}

/* Copies text, escapes control characters, and stops at `max` bytes. Returns the number of bytes written. */
static size_t write_escaped(char *to, size_t max, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "tnvfr"; /* escapes of \t \n \v \f \r */
    size_t len = 0;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = c >= ' ' && c != 0x7f;
        if (len + (plain ? 1 : 4) > max)
            break;
        if (plain) {
            to[len++] = (char)c;
        } else if (c >= '\t' && c <= '\r') {
            to[len++] = '\\';
            to[len++] = letters[c - '\t'];
        } else {
            to[len++] = '\\';
            to[len++] = 'x';
            to[len++] = hex[c >> 4];
            to[len++] = hex[c & 15];
        }
    }
    return len;
}

/* ---- writing --------------------------------------------------------------------------------- */

static pthread_mutex_t write_mutex = PTHREAD_MUTEX_INITIALIZER;
/* Lines for which a pipe had no room, and that are not reported yet. */
static _Atomic uint32_t unwritten;

/* Would a line be written at once? A pipe that has room takes a whole line, since a line is not longer than PIPE_BUF. */
static bool pipe_has_room(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLOUT};
    return poll(&asked, 1, 0) != 0;
}

/* Standard error may be a pipe whose reader has stopped: the line is left out, because a thread that waited would serve no client. */
static bool write_if_room(const char *line, size_t len)
{
    int fd = atomic_load(&target);
    (void)pthread_mutex_lock(&write_mutex); /* so that no other thread takes the room */
    bool is_written = pipe_has_room(fd) && write(fd, line, len) >= 0;
    (void)pthread_mutex_unlock(&write_mutex);
    return is_written;
}

static bool print_line(enum log_level level, const char *event, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t len = write_line_head(line, sizeof(line), level, event);
    len += write_escaped(line + len, sizeof(line) - len - 1, text);
    while (line[len - 1] == ' ')
        len--;
    line[len++] = '\n';
    return write_if_room(line, len);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Warnings and errors of one event: what clients do can cause many. */
struct kind {
    char event[EVENT_MAX];
    uint64_t second; /* of the last line; monotonic */
    uint32_t lines;  /* in that second, with dropped ones */
};

static struct kind kinds[KINDS]; /* guarded by kinds_mutex; an empty name ends the used ones */
static pthread_mutex_t kinds_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct kind *kind_of(const char *event)
{
    for (struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        if (!*kind->event)
            (void)snprintf(kind->event, sizeof kind->event, "%s", event);
        if (strncmp(kind->event, event, sizeof kind->event - 1) == 0)
            return kind;
    }
    return NULL;
}

/* Takes the number of lines of one event that were dropped in a second that is over; 0: none. */
static uint32_t take_dropped(char event[EVENT_MAX])
{
    uint64_t second = clock_mono_us() / 1000000;
    uint32_t dropped = 0;
    (void)pthread_mutex_lock(&kinds_mutex);
    for (struct kind *kind = kinds; kind < kinds + KINDS && *kind->event && !dropped; kind++) {
        if (kind->second == second || kind->lines <= LOG_LINES_MAX)
            continue;
        memcpy(event, kind->event, EVENT_MAX);
        dropped = kind->lines - LOG_LINES_MAX;
        kind->lines = 0;
    }
    (void)pthread_mutex_unlock(&kinds_mutex);
    return dropped;
}

/* Reports the lines that were left out because nothing read the log, as soon as there is room again. */
static void report_unwritten(void)
{
    char text[EVENT_MAX];
    uint32_t lines = pipe_has_room(atomic_load(&target)) ? atomic_exchange(&unwritten, 0) : 0;
    if (!lines)
        return;
    (void)snprintf(text, sizeof text, "event=all lines=%" PRIu32, lines);
    if (!print_line(LOG_WARN, "log_dropped",
                    text)) /* the disk is full, or another thread has taken the room */
        unwritten += lines;
}

/* May one more warning or error of this event be written? It is counted. */
static bool passes(const char *event)
{
    uint64_t second = clock_mono_us() / 1000000;
    bool is_over = false;
    (void)pthread_mutex_lock(&kinds_mutex);
    struct kind *kind = kind_of(event);
    if (kind && (kind->second == second || kind->lines > LOG_LINES_MAX)) {
        kind->lines++; /* those that were dropped before are reported first */
        is_over = kind->lines > LOG_LINES_MAX;
    } else if (kind) {
        kind->second = second;
        kind->lines = 1;
    }
    (void)pthread_mutex_unlock(&kinds_mutex);
    return !is_over;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char flood[EVENT_MAX];
    if (!log_on(level))
        return;
    int saved_errno = errno;
    if (atomic_load(&unwritten))
        report_unwritten();
    for (uint32_t dropped; (dropped = take_dropped(flood));)
        log_event(LOG_WARN, "log_dropped", "event=%s lines=%" PRIu32, flood, dropped);
    if (level < LOG_WARN || passes(event)) {
        char text[LINE_MAX_BYTES];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        unwritten += !print_line(level, event, text);
    }
    errno = saved_errno;
}
