/*
 * string.c - string commands.
 *
 * text.h handles the two forms of a string. Commands that change a value keep its TTL, commands that replace it remove
 * the TTL.
 */
#include "backend/commands/string_options.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

/* ---- setting ---- */

void cmd_set(struct call *call)
{
    struct set_options options;
    struct entry entry;
    uint64_t expire_ms;
    bool holds;
    if (!set_options_parse(call, 3, OPTIONS_OF_SET, &options) ||
        !set_options_expiry(call, &options, &expire_ms))
        return;
    bool get = options.flags & SET_GET;
    if (get || options.flags & SET_COMPARES
            ? !keyspace_open_type(call, call->argv[1], TYPE_STRING, get ? OPEN_READ : OPEN_WRITE,
                                  &entry)
            : !keyspace_open(call, call->argv[1], OPEN_REPLACE, &entry))
        return;
    if (!set_condition(call, &entry, &options, &holds))
        return;
    if (get && !string_reply(call, &entry))
        return;
    if (!get && !holds)
        reply_null(&call->reply);
    else if (!get)
        reply_ok(&call->reply);
    if (!holds)
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
    if (!keyspace_open(call, call->argv[1], OPEN_REPLACE, &entry))
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
        !keyspace_open(call, call->argv[1], OPEN_REPLACE, &entry))
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
        if (!keyspace_open(call, call->argv[i], OPEN_REPLACE, &entry))
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
        if (!keyspace_open(call, call->argv[i], OPEN_REPLACE, &entry))
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
        string_reply(call, &entry))
        string_set(call, &entry, call->argv[2], 0);
}

/* ---- getting ---- */

void cmd_get(struct call *call)
{
    struct entry entry;
    if (keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        string_reply(call, &entry);
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
    if (!string_reply(call, &entry) || !entry.exists)
        return;
    entry_delete(call, &entry);
    notify(call, NOTIFY_GENERIC, "del", entry.key);
}

void cmd_getex(struct call *call)
{
    struct set_options options;
    struct entry entry;
    uint64_t expire_ms = 0;
    if (!set_options_parse(call, 2, OPTIONS_OF_GETEX, &options) ||
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

static void increment(struct call *call, int64_t amount)
{
    struct entry entry;
    struct bytes old;
    int64_t value = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        !string_number_text(call, &entry, &old))
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
        !string_number_text(call, &entry, &old))
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
