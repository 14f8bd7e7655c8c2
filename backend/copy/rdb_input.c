#include "backend/copy/rdb_input.h"

#include "backend/copy/kvrocks.h"
#include "shared/byte_order.h"
#include "shared/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_MIN = 1024 * 1024,
    CHECKSUM_BYTES = 8,
    /* Longest text that any server writes is 4 GB: a longer one is a damaged length. */
    ELEMENT_MAX_GB = 5,
};

static enum input_result input_bad(struct rdb_input *input, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum input_result input_bad(struct rdb_input *input, const char *format, ...)
{
    char reason[INPUT_ERROR_MAX / 2];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    if (input->bytes)
        (void)snprintf(input->error, sizeof input->error, "%s: %s", input->path, reason);
    else
        (void)snprintf(input->error, sizeof input->error, "%s, at byte %" PRIu64 ": %s",
                       input->path, input->offset, reason);
    return INPUT_BAD;
}

/* ---- opening ---- */

static bool open_failed(struct rdb_input *input, const char *reason)
{
    (void)snprintf(input->error, sizeof input->error, "%s: %s", input->path, reason);
    return false;
}

static bool open_path(struct rdb_input *input)
{
    struct stat stat;
    input->fd =
        strcmp(input->path, "-") == 0 ? dup(STDIN_FILENO) : open(input->path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 || fstat(input->fd, &stat) != 0)
        return open_failed(input, strerror(errno));
    if (S_ISDIR(stat.st_mode))
        return open_failed(input, "is a directory; expected an RDB file");
    if (S_ISREG(stat.st_mode))
        input->size = (uint64_t)stat.st_size;
    return true;
}

static void init_input(struct rdb_input *input, const char *path, size_t part_max)
{
    *input = (struct rdb_input){.fd = -1, .path = path, .cap = BUFFER_MIN + part_max};
    arena_init(&input->arena);
    input->buffer = malloc(input->cap);
    CHECK(input->buffer);
    rdb_file_init(&input->file, &input->arena, part_max);
}

bool rdb_input_open(struct rdb_input *input, const char *path, size_t part_max)
{
    init_input(input, path, part_max);
    return open_path(input);
}

void rdb_input_open_bytes(struct rdb_input *input, const char *path,
                          const struct input_bytes *bytes, void *owner, size_t part_max)
{
    init_input(input, path, part_max);
    input->bytes = bytes;
    input->owner = owner;
}

static void close_kvrocks(void *owner)
{
    kvrocks_close(owner);
}

static bool open_kvrocks(struct rdb_input *input, const char *path, const char *space,
                         size_t part_max)
{
    static const struct input_bytes bytes = {kvrocks_read, kvrocks_error, close_kvrocks};
    char error[KVROCKS_ERROR_MAX];
    struct kvrocks *kvrocks = kvrocks_open(path, space, error);
    rdb_input_open_bytes(input, path, kvrocks ? &bytes : NULL, kvrocks, part_max);
    if (!kvrocks)
        (void)snprintf(input->error, sizeof input->error, "%s", error);
    return kvrocks;
}

bool rdb_input_open_source(struct rdb_input *input, const struct copy_options *options,
                           size_t part_max)
{
    return options->origin == ORIGIN_KVROCKS
               ? open_kvrocks(input, options->file, options->space, part_max)
               : rdb_input_open(input, options->file, part_max);
}

void rdb_input_close(struct rdb_input *input)
{
    if (input->fd >= 0)
        (void)close(input->fd);
    if (input->bytes && input->bytes->close)
        input->bytes->close(input->owner);
    arena_fini(&input->arena);
    free(input->buffer);
}

/* ---- the buffer ---- */

static void consume(struct rdb_input *input, size_t size)
{
    if (!input->bytes) /* RocksDB has checksums of its own */
        input->crc = crc64(input->crc, (struct bytes){input->buffer + input->start, size});
    input->start += size;
    input->offset += size;
}

/* Makes room for more bytes: moves the rest to the front, and doubles a full buffer. */
static bool make_buffer_room(struct rdb_input *input)
{
    size_t held = input->end - input->start;
    if (held && input->start)
        memmove(input->buffer, input->buffer + input->start, held);
    input->start = 0;
    input->end = held;
    if (held < input->cap / 2)
        return true;
    char *bigger = realloc(input->buffer, input->cap * 2);
    if (!bigger)
        return false;
    input->buffer = bigger;
    input->cap *= 2;
    return true;
}

static ssize_t read_source(struct rdb_input *input, char *to, size_t size)
{
    return input->bytes ? input->bytes->read(input->owner, to, size) : read(input->fd, to, size);
}

static bool read_more(struct rdb_input *input)
{
    ssize_t got;
    do
        got = read_source(input, input->buffer + input->end, input->cap - input->end);
    while (got < 0 && errno == EINTR && !input->bytes);
    if (got > 0)
        input->end += (size_t)got;
    input->is_at_end = got == 0;
    return got >= 0;
}

/* Can the missing bytes follow at all? */
static bool may_still_come(const struct rdb_input *input, uint64_t missing)
{
    uint64_t held = input->end - input->start;
    return missing <= (uint64_t)ELEMENT_MAX_GB << 30 &&
           (input->size == 0 || missing <= input->size - input->offset - held);
}

static enum input_result read_missing(struct rdb_input *input, uint64_t missing)
{
    if (input->is_at_end || !may_still_come(input, missing))
        return input_bad(input,
                         "the file ends in the middle, or a length in it is damaged: "
                         "at least %" PRIu64 " bytes are missing",
                         missing);
    if (!make_buffer_room(input))
        return input_bad(input, "no memory for an element of over %zu bytes", input->cap);
    if (!read_more(input))
        return input_bad(input, "cannot be read: %s",
                         input->bytes ? input->bytes->error(input->owner) : strerror(errno));
    return INPUT_ITEM;
}

static struct bytes held_bytes(const struct rdb_input *input)
{
    return (struct bytes){input->buffer + input->start, input->end - input->start};
}

/* ---- the end ---- */

static enum input_result check_sum(struct rdb_input *input)
{
    uint64_t written = get_le64(input->buffer + input->start);
    if (written && written != input->crc)
        return input_bad(input, "the checksum is wrong: the file is damaged somewhere");
    return INPUT_END;
}

/* Nothing may follow the checksum. */
static enum input_result check_last(struct rdb_input *input)
{
    while (!input->is_at_end && input->end - input->start <= CHECKSUM_BYTES)
        if (read_missing(input, 0) == INPUT_BAD)
            return INPUT_BAD;
    if (input->end - input->start > CHECKSUM_BYTES)
        return input_bad(
            input, "more bytes follow the end; if this is an append-only file, let the server "
                   "write an RDB file: BGSAVE");
    return check_sum(input);
}

static enum input_result read_checksum(struct rdb_input *input)
{
    consume(input, input->item_size);
    input->item_size = 0;
    while (input->end - input->start < CHECKSUM_BYTES)
        if (read_missing(input, CHECKSUM_BYTES - (input->end - input->start)) == INPUT_BAD)
            return INPUT_BAD;
    return check_last(input);
}

enum input_result rdb_input_next(struct rdb_input *input, struct rdb_item *item)
{
    consume(input, input->item_size);
    input->item_size = 0;
    for (;;) {
        arena_reset(&input->arena);
        enum rdb_result found = rdb_file_next(&input->file, held_bytes(input), item);
        if (found == RDB_BAD)
            return input_bad(input, "%s", input->file.error);
        if (found == RDB_ITEM)
            break;
        if (read_missing(input, input->file.missing) == INPUT_BAD)
            return INPUT_BAD;
    }
    input->item_size = item->size;
    if (item->kind == RDB_AUX && bytes_is(item->key, "aof-base") && bytes_is(item->value, "1"))
        return input_bad(input, "this is the base of an append-only file, and later changes are in "
                                "other files; let the server write an RDB file: BGSAVE");
    return item->kind == RDB_END ? read_checksum(input) : INPUT_ITEM;
}
