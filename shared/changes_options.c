#include "shared/changes_options.h"

#include "shared/error.h"
#include "shared/glob.h"
#include "shared/number.h"
#include "shared/slot_ranges.h"

enum {
    COUNT_DEFAULT = 1000,
    COUNT_MAX = 100000,
    BYTES_DEFAULT = 1024 * 1024,
    BYTES_MAX = 64 * 1024 * 1024,
    BLOCK_MS_MAX = 3600 * 1000,
    DATABASE_MAX = 15,
};

static const int64_t TIME_MS_MAX = (int64_t)1 << 50;

static bool read_bounded(struct bytes text, int64_t least, int64_t most, int64_t *number)
{
    return number_parse_int64(text, number) && *number >= least && *number <= most;
}

static const char *read_changes_option(struct bytes name, struct bytes value,
                                       struct changes_options *options)
{
    int64_t number = -1;
    if (bytes_is(name, "count")) {
        if (!read_bounded(value, 1, COUNT_MAX, &number))
            return "ERR COUNT must be a number from 1 to 100000";
        options->count = (uint32_t)number;
    } else if (bytes_is(name, "bytes")) {
        if (!read_bounded(value, 1, BYTES_MAX, &number))
            return "ERR BYTES must be a number from 1 to 67108864";
        options->bytes = (size_t)number;
    } else if (bytes_is(name, "block")) {
        if (!read_bounded(value, 0, BLOCK_MS_MAX, &number))
            return "ERR BLOCK must be a number of milliseconds from 0 to 3600000";
        options->block_ms = (uint64_t)number;
    } else if (bytes_is(name, "db")) {
        if (!bytes_is(value, "*") && !read_bounded(value, 0, DATABASE_MAX, &number))
            return "ERR DB must be a number from 0 to 15, or *";
        options->database = (int)number;
    } else if (bytes_is(name, "slots")) {
        if (!slot_ranges_read(value, options->is_in))
            return "ERR SLOTS must be ranges of slots, such as 0-4095,8192";
        options->slots = value;
    } else if (bytes_is(name, "match")) {
        if (!glob_is_bounded(value))
            return "ERR the pattern of MATCH is too long";
        options->pattern = value;
    } else if (bytes_is(name, "past")) {
        if (!number_parse_uint64(value, &options->past_us))
            return "ERR PAST must be a time in microseconds";
        options->has_past = true;
    } else if (bytes_is(name, "lost") && (bytes_is(value, "copy") || bytes_is(value, "error"))) {
        options->copies_lost = bytes_is(value, "copy");
    } else {
        return error_text(ERR_SYNTAX);
    }
    return NULL;
}

const char *changes_options_read(const struct bytes *argv, uint32_t argc,
                                 struct changes_options *options)
{
    *options =
        (struct changes_options){.count = COUNT_DEFAULT, .bytes = BYTES_DEFAULT, .database = -1};
    if (argc % 2)
        return error_text(ERR_SYNTAX);
    for (uint32_t i = 0; i < argc; i += 2) {
        const char *error = read_changes_option(argv[i], argv[i + 1], options);
        if (error)
            return error;
    }
    return NULL;
}

const char *changes_time_read(struct bytes text, uint64_t *time_us)
{
    int64_t ms;
    if (!read_bounded(text, 1, TIME_MS_MAX, &ms))
        return "ERR AT must be a Unix time in milliseconds";
    *time_us = (uint64_t)ms * 1000;
    return NULL;
}
