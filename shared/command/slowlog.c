#include "shared/command/slowlog.h"

#include "shared/check.h"
#include "shared/command/secret.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    /* arguments kept; if a command has more, the last kept argument is a note with the number of missing arguments */
    ARGS_MAX = 32,
    ARG_BYTES_MAX = 128, /* bytes kept of an argument, followed by a note */
    NOTE_MAX = 64,
    GET_DEFAULT = 10,
};

/* ---- pushing ---- */

/* Arguments as an entry shows them. */
struct shown {
    struct bytes argv[ARGS_MAX];
    uint32_t argc;
    size_t bytes;
    char notes[ARGS_MAX]
              [ARG_BYTES_MAX + NOTE_MAX]; /* texts of arguments that are not shown as they are */
};

/* Writes how many arguments or bytes are not shown; returns the note's length. */
static size_t print_more(char note[NOTE_MAX], size_t number, const char *what)
{
    return (size_t)snprintf(note, NOTE_MAX, "... (%zu more %s)", number, what);
}

/* The whole argument, its beginning with a note, or (redacted). */
static struct bytes show_argument(const struct slow_command *slow, uint32_t i,
                                  char note[ARG_BYTES_MAX + NOTE_MAX])
{
    if (slow->command && secret_argument(slow->command, slow->argv, i))
        return BYTES("(redacted)");
    struct bytes arg = slow->argv[i];
    size_t cut = i + 1 == slow->argc ? slow->last_cut : 0;
    size_t kept = arg.len < ARG_BYTES_MAX ? arg.len : ARG_BYTES_MAX;
    if (kept == arg.len && cut == 0)
        return arg;
    memcpy(note, arg.data, kept);
    size_t len = print_more(note + kept, arg.len - kept + cut, "bytes");
    return (struct bytes){note, kept + len};
}

static void show_arguments(const struct slow_command *slow, struct shown *shown)
{
    uint32_t known = slow->argc + (slow->missing > 0);
    shown->argc = known < ARGS_MAX ? known : ARGS_MAX;
    shown->bytes = 0;
    for (uint32_t i = 0; i < shown->argc; i++) {
        char *note = shown->notes[i];
        uint32_t left = slow->argc + slow->missing - i;
        bool is_missing = i >= slow->argc || (i + 1 == shown->argc && left > 1);
        shown->argv[i] = is_missing ? (struct bytes){note, print_more(note, left, "arguments")}
                                    : show_argument(slow, i, note);
        shown->bytes += shown->argv[i].len;
    }
}

static struct bytes put_text(char **at, struct bytes text)
{
    struct bytes kept = {*at, text.len};
    if (text.len)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return kept;
}

static void add_entry(struct slowlog *log, struct slow_entry *entry)
{
    entry->next = log->newest;
    *(log->newest ? &log->newest->newer : &log->oldest) = entry;
    log->newest = entry;
    log->count++;
}

static void drop_entry(struct slowlog *log, struct slow_entry *entry)
{
    *(entry->newer ? &entry->newer->next : &log->newest) = entry->next;
    *(entry->next ? &entry->next->newer : &log->oldest) = entry->newer;
    log->count--;
    free(entry);
}

static void cut_entries(struct slowlog *log, uint64_t len_max)
{
    while (log->count > len_max)
        drop_entry(log, log->oldest);
}

void slowlog_push(struct slowlog *log, const struct slow_command *slow, uint64_t len_max)
{
    char on_shards[NOTE_MAX];
    struct shown shown;
    show_arguments(slow, &shown);
    uint32_t argc = shown.argc + (slow->shards > 1);
    size_t bytes =
        slow->peer.len + slow->name.len + slow->space.len + slow->shard.len + shown.bytes;
    if (slow->shards > 1)
        bytes += (size_t)snprintf(on_shards, sizeof on_shards, "(on %u shards)", slow->shards);
    struct slow_entry *entry = malloc(sizeof *entry + argc * sizeof *entry->argv + bytes);
    CHECK(entry);
    *entry = (struct slow_entry){.id = log->next_id++,
                                 .at_s = slow->at_s,
                                 .usec = slow->usec,
                                 .shard_usec = slow->shard_usec,
                                 .argc = argc};
    char *at = (char *)&entry->argv[argc];
    entry->peer = put_text(&at, slow->peer);
    entry->name = put_text(&at, slow->name);
    entry->space = put_text(&at, slow->space);
    entry->shard = put_text(&at, slow->shard);
    for (uint32_t i = 0; i < shown.argc; i++)
        entry->argv[i] = put_text(&at, shown.argv[i]);
    if (slow->shards > 1)
        entry->argv[shown.argc] = put_text(&at, bytes_of(on_shards));
    add_entry(log, entry);
    cut_entries(log, len_max);
}

void slowlog_take(struct slowlog *log, struct slowlog *from, uint64_t len_max)
{
    struct slow_entry *next;
    log->next_id += from->next_id - from->count; /* those that `from` has no more */
    for (struct slow_entry *entry = from->oldest; entry; entry = next) {
        next = entry->newer;
        entry->id = log->next_id++;
        entry->newer = NULL;
        add_entry(log, entry);
    }
    *from = (struct slowlog){.count = 0};
    cut_entries(log, len_max);
}

/* ---- reading ---- */

const struct slow_entry *slowlog_next(const struct slow_entry *entry, slowlog_space space)
{
    while (entry && space && !bytes_equal(entry->space, *space))
        entry = entry->next;
    return entry;
}

uint64_t slowlog_count(const struct slowlog *log, slowlog_space space)
{
    uint64_t count = 0;
    if (!space)
        return log->count;
    for (const struct slow_entry *entry = log->newest; (entry = slowlog_next(entry, space));
         entry = entry->next)
        count++;
    return count;
}

void slowlog_reset(struct slowlog *log, slowlog_space space)
{
    struct slow_entry *next;
    for (struct slow_entry *entry = log->newest; entry; entry = next) {
        next = entry->next;
        if (slowlog_next(entry, space) == entry)
            drop_entry(log, entry);
    }
}

bool slowlog_parse_get(const struct bytes *argv, uint32_t argc, int64_t *count,
                       char error[SLOWLOG_ERROR_MAX])
{
    *count = GET_DEFAULT;
    if (argc > 3) {
        (void)snprintf(
            error, SLOWLOG_ERROR_MAX,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try SLOWLOG HELP.",
            (int)(argv[1].len < 128 ? argv[1].len : 128), argv[1].data);
        return false;
    }
    if (argc == 3 && (!number_parse_int64(argv[2], count) || *count < -1)) {
        (void)snprintf(error, SLOWLOG_ERROR_MAX, "ERR count should be greater than or equal to -1");
        return false;
    }
    return true;
}

bool commandlog_parse(const struct bytes *argv, uint32_t at, enum slowlog_kind *kind,
                      int64_t *count, char error[SLOWLOG_ERROR_MAX])
{
    static const char *const words[SLOWLOG_KINDS] = {"slow", "large-request", "large-reply"};
    bool is_get = at > 2;
    unsigned found = 0;
    while (found < SLOWLOG_KINDS && !bytes_is(argv[at], words[found]))
        found++;
    *kind = (enum slowlog_kind)found;
    *count = -1;
    if (is_get && (!number_parse_int64(argv[at - 1], count) || *count < -1))
        (void)snprintf(error, SLOWLOG_ERROR_MAX, "ERR count should be greater than or equal to -1");
    else if (found == SLOWLOG_KINDS)
        (void)snprintf(error, SLOWLOG_ERROR_MAX,
                       "ERR type should be one of the following: slow, large-request, large-reply");
    else
        return true;
    return false;
}

void slowlog_reply_entry(const struct slow_entry *entry, struct reply *reply)
{
    reply_int(reply, (int64_t)entry->id);
    reply_int(reply, (int64_t)entry->at_s);
    reply_int(reply, (int64_t)entry->usec);
    reply_array(reply, entry->argc);
    for (uint32_t i = 0; i < entry->argc; i++)
        reply_bulk(reply, entry->argv[i]);
    reply_bulk(reply, entry->peer);
    reply_bulk(reply, entry->name);
}

void slowlog_reply(const struct slowlog *log, slowlog_space space, int64_t count,
                   struct reply *reply)
{
    int64_t all = (int64_t)slowlog_count(log, space);
    if (count < 0 || count > all)
        count = all;
    reply_array(reply, count);
    for (const struct slow_entry *entry = log->newest;
         count > 0 && (entry = slowlog_next(entry, space)); entry = entry->next, count--) {
        reply_array(reply, 6);
        slowlog_reply_entry(entry, reply);
    }
}
