/*
 * string.c - string commands.
 *
 * text.h handles the two forms of a string. Commands that change a value keep its TTL, commands that replace it remove
 * the TTL.
 */
#include "backend/keyspace/text.h"
#include "backend/partition/handlers.h"
#include "backend/partition/notify.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

/* Replies the value, or null when the key does not exist. False: the store failed. */
static bool reply_string(struct call *call, struct entry *entry)
{
    if (entry->exists)
        return text_reply(call, entry);
    reply_null(&call->reply);
    return true;
}

/* Sets the key and notifies; expire_ms 0 = no TTL. */
static void string_set(struct call *call, struct entry *entry, struct bytes value,
                       uint64_t expire_ms)
{
    entry_set_payload(call, entry, TYPE_STRING, value, expire_ms);
    notify(call, NOTIFY_STRING, "set", entry->key);
}

/* ---- options of SET and GETEX ---- */

enum set_flag {
    SET_NX = 1 << 0,
    SET_XX = 1 << 1,
    SET_GET = 1 << 2,
    SET_KEEPTTL = 1 << 3,
    SET_PERSIST = 1 << 4,
    SET_EX = 1 << 5,
    SET_PX = 1 << 6,
    SET_EXAT = 1 << 7,
    SET_PXAT = 1 << 8,
    SET_EXPIRES = SET_EX | SET_PX | SET_EXAT | SET_PXAT,
};

struct set_options {
    unsigned flags;
    uint32_t expire_at; /* argument of EX, PX, EXAT, PXAT; 0 = none */
};

/* An option word: its flag, the flags that it excludes, and the commands that have it. */
struct set_word {
    const char *word;
    unsigned flag;
    unsigned excludes;
    bool of_set;
    bool of_getex;
};

static const struct set_word SET_WORDS[] = {
    {"nx", SET_NX, SET_XX, true, false},
    {"xx", SET_XX, SET_NX, true, false},
    {"get", SET_GET, 0, true, false},
    {"keepttl", SET_KEEPTTL, SET_PERSIST | SET_EXPIRES, true, false},
    {"persist", SET_PERSIST, SET_KEEPTTL | SET_EXPIRES, false, true},
    {"ex", SET_EX, SET_KEEPTTL | SET_PERSIST | (SET_EXPIRES & ~SET_EX), true, true},
    {"px", SET_PX, SET_KEEPTTL | SET_PERSIST | (SET_EXPIRES & ~SET_PX), true, true},
    {"exat", SET_EXAT, SET_KEEPTTL | SET_PERSIST | (SET_EXPIRES & ~SET_EXAT), true, true},
    {"pxat", SET_PXAT, SET_KEEPTTL | SET_PERSIST | (SET_EXPIRES & ~SET_PXAT), true, true},
};

static const struct set_word *set_word_find(struct bytes text, bool is_set)
{
    for (size_t i = 0; i < sizeof SET_WORDS / sizeof SET_WORDS[0]; i++)
        if ((is_set ? SET_WORDS[i].of_set : SET_WORDS[i].of_getex) &&
            bytes_is(text, SET_WORDS[i].word))
            return &SET_WORDS[i];
    return NULL;
}

/* Parses options from argument `from` on; false: a syntax error was replied. */
static bool set_options_parse(struct call *call, uint32_t from, bool is_set,
                              struct set_options *options)
{
    *options = (struct set_options){0};
    for (uint32_t i = from; i < call->argc; i++) {
        const struct set_word *word = set_word_find(call->argv[i], is_set);
        bool takes_value = word && (word->flag & SET_EXPIRES);
        if (!word || (options->flags & word->excludes) || (takes_value && i + 1 == call->argc)) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        options->flags |= word->flag;
        if (takes_value)
            options->expire_at = ++i;
    }
    return true;
}

/* Converts the argument to an absolute time in ms. Replies Redis' error for an invalid time. */
static bool expire_argument(struct call *call, uint32_t index, unsigned flag, uint64_t *expire_ms)
{
    int64_t value;
    if (!call_int64(call, index, &value))
        return false;
    bool seconds = flag & (SET_EX | SET_EXAT);
    bool relative = flag & (SET_EX | SET_PX);
    bool fine = value > 0 && !(seconds && value > INT64_MAX / 1000);
    if (fine && seconds)
        value *= 1000;
    if (fine && relative)
        fine = !__builtin_add_overflow(value, (int64_t)call->now_ms, &value);
    if (!fine) {
        call_errorf(call, "ERR invalid expire time in '%s' command",
                    command_full_name(call->command));
        return false;
    }
    *expire_ms = (uint64_t)value;
    return true;
}

/* ---- setting ---- */

void cmd_set(struct call *call)
{
    struct set_options options;
    struct entry entry;
    uint64_t expire_ms = 0;
    if (!set_options_parse(call, 3, true, &options))
        return;
    if (options.expire_at && !expire_argument(call, options.expire_at, options.flags, &expire_ms))
        return;
    bool get = options.flags & SET_GET;
    if (get ? !keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry)
            : !keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    bool skip =
        ((options.flags & SET_NX) && entry.exists) || ((options.flags & SET_XX) && !entry.exists);
    if (get && !reply_string(call, &entry))
        return;
    if (!get && skip)
        reply_null(&call->reply);
    else if (!get)
        reply_ok(&call->reply);
    if (skip)
        return;
    if (options.flags & SET_KEEPTTL)
        expire_ms = entry.meta.expire_ms;
    string_set(call, &entry, call->argv[2], expire_ms);
    if (options.expire_at)
        notify(call, NOTIFY_GENERIC, "expire", entry.key);
}

void cmd_setnx(struct call *call)
{
    struct entry entry;
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    bool set = !entry.exists;
    if (set)
        string_set(call, &entry, call->argv[2], 0);
    reply_int(&call->reply, set);
}

static void set_with_ttl(struct call *call, unsigned flag)
{
    struct entry entry;
    uint64_t expire_ms;
    if (!expire_argument(call, 2, flag, &expire_ms) ||
        !keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    string_set(call, &entry, call->argv[3], expire_ms);
    notify(call, NOTIFY_GENERIC, "expire", entry.key);
    reply_ok(&call->reply);
}

void cmd_setex(struct call *call)
{
    set_with_ttl(call, SET_EX);
}

void cmd_psetex(struct call *call)
{
    set_with_ttl(call, SET_PX);
}

static bool set_all_keys(struct call *call)
{
    for (uint32_t i = 1; i < call->argc; i += 2) {
        struct entry entry;
        if (!keyspace_open(call, call->argv[i], OPEN_WRITE, &entry))
            return false;
        string_set(call, &entry, call->argv[i + 1], 0);
    }
    return true;
}

void cmd_mset(struct call *call)
{
    if (call->argc % 2 == 0)
        call_error_arity(call);
    else if (set_all_keys(call))
        reply_ok(&call->reply);
}

void cmd_msetnx(struct call *call)
{
    if (call->argc % 2 == 0) {
        call_error_arity(call);
        return;
    }
    for (uint32_t i = 1; i < call->argc; i += 2) {
        struct entry entry;
        if (!keyspace_open(call, call->argv[i], OPEN_WRITE, &entry))
            return;
        if (entry.exists) {
            reply_int(&call->reply, 0);
            return;
        }
    }
    if (set_all_keys(call))
        reply_int(&call->reply, 1);
}

void cmd_getset(struct call *call)
{
    struct entry entry;
    if (keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry) &&
        reply_string(call, &entry))
        string_set(call, &entry, call->argv[2], 0);
}

/* ---- getting ---- */

void cmd_get(struct call *call)
{
    struct entry entry;
    if (keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        reply_string(call, &entry);
}

void cmd_mget(struct call *call)
{
    reply_array(&call->reply, call->argc - 1);
    for (uint32_t i = 1; i < call->argc; i++) {
        struct entry entry;
        if (!keyspace_open(call, call->argv[i], OPEN_READ, &entry))
            return;
        if (!text_is(&entry))
            reply_null(&call->reply);
        else if (!text_reply(call, &entry))
            return;
    }
}

void cmd_getdel(struct call *call)
{
    struct entry entry;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    if (!reply_string(call, &entry) || !entry.exists)
        return;
    entry_delete(call, &entry);
    notify(call, NOTIFY_GENERIC, "del", entry.key);
}

void cmd_getex(struct call *call)
{
    struct set_options options;
    struct entry entry;
    uint64_t expire_ms = 0;
    if (!set_options_parse(call, 2, false, &options) ||
        !keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    if (options.expire_at && !expire_argument(call, options.expire_at, options.flags, &expire_ms))
        return;
    if (!text_reply(call, &entry))
        return;
    if ((options.flags & (SET_EXAT | SET_PXAT)) && expire_ms <= call->now_ms) {
        entry_delete(call, &entry);
        notify(call, NOTIFY_GENERIC, "del", entry.key);
    } else if (options.expire_at) {
        entry_set_expire(call, &entry, expire_ms);
        notify(call, NOTIFY_GENERIC, "expire", entry.key);
    } else if ((options.flags & SET_PERSIST) && entry.meta.expire_ms) {
        entry_set_expire(call, &entry, 0);
        notify(call, NOTIFY_GENERIC, "persist", entry.key);
    }
}

void cmd_strlen(struct call *call)
{
    struct entry entry;
    if (keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        reply_int(&call->reply, (int64_t)text_len(&entry));
}

void cmd_getrange(struct call *call)
{
    struct entry entry;
    int64_t start;
    int64_t end;
    if (!call_int64(call, 2, &start) || !call_int64(call, 3, &end) ||
        !keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    int64_t len = (int64_t)text_len(&entry);
    bool empty = len == 0 || (start < 0 && end < 0 && start > end);
    if (start < 0)
        start = start + len < 0 ? 0 : start + len;
    if (end < 0)
        end = end + len < 0 ? 0 : end + len;
    if (end >= len)
        end = len - 1;
    if (empty || start > end)
        reply_bulk(&call->reply, NOTHING);
    else
        text_reply_range(call, &entry, (uint64_t)start, (uint64_t)(end - start + 1));
}

void cmd_substr(struct call *call)
{
    cmd_getrange(call);
}

/* ---- changing in place ---- */

/* False: the string would be too long, and an error was replied. */
static bool string_size_ok(struct call *call, uint64_t size)
{
    if (size <= call_bulk_bytes_max(call))
        return true;
    call_error(call, ERR_TOO_BIG);
    return false;
}

void cmd_append(struct call *call)
{
    struct entry entry;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry))
        return;
    uint64_t old_len = text_len(&entry);
    uint64_t len = old_len + call->argv[2].len;
    if ((entry.exists && !string_size_ok(call, len)) ||
        !text_write(call, &entry, old_len, call->argv[2]))
        return;
    notify(call, NOTIFY_STRING, "append", entry.key);
    reply_int(&call->reply, (int64_t)len);
}

void cmd_setrange(struct call *call)
{
    struct entry entry;
    int64_t offset;
    if (!call_int64(call, 2, &offset))
        return;
    if (offset < 0) {
        call_error(call, ERR_OFFSET);
        return;
    }
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry))
        return;
    struct bytes patch = call->argv[3];
    if (patch.len == 0) {
        reply_int(&call->reply, (int64_t)text_len(&entry));
        return;
    }
    if (!string_size_ok(call, (uint64_t)offset + patch.len) ||
        !text_write(call, &entry, (uint64_t)offset, patch))
        return;
    notify(call, NOTIFY_STRING, "setrange", entry.key);
    reply_int(&call->reply, (int64_t)text_len(&entry));
}

/* ---- numbers ---- */

/* Reads the value if it is short enough to be a number, otherwise *text is not a number. False: the store failed. */
static bool read_number_text(struct call *call, struct entry *entry, struct bytes *text)
{
    *text = BYTES("long");
    return text_len(entry) >= LONG_DOUBLE_TEXT_MAX || text_value(call, entry, text);
}

static void increment(struct call *call, int64_t amount)
{
    struct entry entry;
    struct bytes old;
    int64_t value = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        !read_number_text(call, &entry, &old))
        return;
    if (entry.exists && !number_parse_int64(old, &value)) {
        call_error(call, ERR_NOT_INTEGER);
        return;
    }
    if (__builtin_add_overflow(value, amount, &value)) {
        call_error(call, ERR_OVERFLOW);
        return;
    }
    char text[INT64_TEXT_MAX];
    text_replace(call, &entry, (struct bytes){text, number_format_int64(text, value)});
    notify(call, NOTIFY_STRING, "incrby", entry.key);
    reply_int(&call->reply, value);
}

void cmd_incr(struct call *call)
{
    increment(call, 1);
}

void cmd_decr(struct call *call)
{
    increment(call, -1);
}

void cmd_incrby(struct call *call)
{
    int64_t amount;
    if (call_int64(call, 2, &amount))
        increment(call, amount);
}

void cmd_decrby(struct call *call)
{
    int64_t amount;
    if (!call_int64(call, 2, &amount))
        return;
    if (amount == INT64_MIN)
        call_error_text(call, "ERR decrement would overflow");
    else
        increment(call, -amount);
}

void cmd_incrbyfloat(struct call *call)
{
    struct entry entry;
    long double value = 0;
    long double amount;
    struct bytes old;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        !read_number_text(call, &entry, &old))
        return;
    if ((entry.exists && !number_parse_long_double(old, &value)) ||
        !number_parse_long_double(call->argv[2], &amount)) {
        call_error(call, ERR_NOT_FLOAT);
        return;
    }
    struct bytes result;
    if (!call_sum(call, value, amount, &result))
        return;
    text_replace(call, &entry, result);
    notify(call, NOTIFY_STRING, "incrbyfloat", entry.key);
    reply_bulk(&call->reply, result);
}
