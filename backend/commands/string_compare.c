/*
 * string_compare.c - strings that are set or deleted together, or only when their value is the expected one: DIGEST, DELEX,
 * DELIFEQ, CAS, CAD, MSETEX. SET with IFEQ and its like is in string.c.
 */
#include "backend/commands/string_options.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/xxh3.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

void cmd_digest(struct call *call)
{
    struct entry entry;
    uint64_t digest;
    char text[XXH3_HEX_DIGITS];
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    if (!string_digest(call, &entry, &digest))
        return;
    xxh3_format(digest, text);
    reply_bulk(&call->reply, (struct bytes){text, sizeof text});
}

static void delete_key(struct call *call, struct entry *entry)
{
    entry_delete(call, entry);
    notify(call, NOTIFY_GENERIC, "del", entry->key);
}

/* ---- DELEX, DELIFEQ ---- */

/* Does the condition of DELEX, at argument 2, hold for a key that exists? As in Redis, it is looked at only then. False: an
 * error was replied. */
static bool delex_condition(struct call *call, struct entry *entry, bool *holds)
{
    struct set_options options = {0};
    uint32_t at = 2;
    if (entry->meta.type != TYPE_STRING) {
        call_error_text(call, "ERR Key should be of string type if conditions are specified");
        return false;
    }
    int parsed = set_option_parse(call, &at, SET_COMPARES, &options);
    if (parsed == 0)
        call_error_text(call, "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
    return parsed == 1 && set_condition(call, entry, &options, holds);
}

void cmd_delex(struct call *call)
{
    struct entry entry;
    bool deletes;
    if (call->argc != 2 && call->argc != 4) {
        call_error_arity(call);
        return;
    }
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    deletes = entry.exists;
    if (entry.exists && call->argc == 4 && !delex_condition(call, &entry, &deletes))
        return;
    if (deletes)
        delete_key(call, &entry);
    reply_int(&call->reply, deletes);
}

void cmd_delifeq(struct call *call)
{
    struct entry entry;
    bool equal = false;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        (entry.exists && !string_equals(call, &entry, call->argv[2], &equal)))
        return;
    if (equal)
        delete_key(call, &entry);
    reply_int(&call->reply, equal);
}

/* ---- CAS, CAD ---- */

/* Opens the string and compares it with argument 2. *result is the reply of CAS and CAD: 1 equal, 0 not, -1 no such
 * key. False: an error was replied. */
static bool compare_string(struct call *call, struct entry *entry, int64_t *result)
{
    bool equal;
    *result = -1;
    if (!keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, entry))
        return false;
    if (!entry->exists)
        return true;
    if (!string_equals(call, entry, call->argv[2], &equal))
        return false;
    *result = equal;
    return true;
}

void cmd_cas(struct call *call)
{
    struct set_options options;
    struct entry entry;
    uint64_t expire_ms;
    int64_t result;
    if (!set_options_parse(call, 4, OPTIONS_OF_CAS, &options) ||
        !set_options_expiry(call, &options, &expire_ms) || !compare_string(call, &entry, &result))
        return;
    if (result == 1) {
        string_set(call, &entry, call->argv[3], expire_ms);
        if (expire_ms)
            notify(call, NOTIFY_GENERIC, "expire", entry.key);
    }
    reply_int(&call->reply, result);
}

void cmd_cad(struct call *call)
{
    struct entry entry;
    int64_t result;
    if (!compare_string(call, &entry, &result))
        return;
    if (result == 1)
        delete_key(call, &entry);
    reply_int(&call->reply, result);
}

/* ---- MSETEX ---- */

/* Parses the number of keys, which are followed by their values and then by the options. */
static bool msetex_parse(struct call *call, struct counted_keys *keys, struct set_options *options)
{
    enum counted_refusal refusal = counted_keys_find(call->command, call->argv, call->argc, keys);
    if (refusal == COUNTED_TOO_LARGE && keys->number <= INT32_MAX)
        call_error_text(call, "ERR wrong number of key-value pairs");
    else if (refusal)
        call_error_text(call, "ERR invalid numkeys value");
    return !refusal && set_options_parse(call, keys->behind, OPTIONS_OF_MSETEX, options);
}

/* NX: no key exists; XX: all do. False: an error was replied. */
static bool msetex_condition(struct call *call, const struct counted_keys *keys,
                             const struct set_options *options, bool *holds)
{
    *holds = true;
    if (!(options->flags & (SET_NX | SET_XX)))
        return true;
    for (uint32_t at = keys->first; at < keys->behind && *holds; at += 2) {
        struct entry entry;
        if (!keyspace_open(call, call->argv[at], OPEN_WRITE, &entry))
            return false;
        *holds = entry.exists == !!(options->flags & SET_XX);
    }
    return true;
}

void cmd_msetex(struct call *call)
{
    struct set_options options;
    struct counted_keys keys;
    uint64_t expire_ms;
    bool holds;
    if (!msetex_parse(call, &keys, &options) || !set_options_expiry(call, &options, &expire_ms) ||
        !msetex_condition(call, &keys, &options, &holds))
        return;
    for (uint32_t at = keys.first; at < keys.behind && holds; at += 2) {
        struct entry entry;
        if (!keyspace_open(call, call->argv[at], OPEN_WRITE, &entry))
            return;
        bool keeps = options.flags & SET_KEEPTTL;
        string_set(call, &entry, call->argv[at + 1], keeps ? entry.meta.expire_ms : expire_ms);
        if (expire_ms)
            notify(call, NOTIFY_GENERIC, "expire", entry.key);
    }
    reply_int(&call->reply, holds);
}
