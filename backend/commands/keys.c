/*
 * keys.c - commands on keys of any type: existence, time to live, names, copies, introspection.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/borrow_all.h"
#include "backend/keyspace/slot_set.h"
#include "backend/keyspace/space.h"
#include "backend/session/notify.h"
#include "backend/session/reply_stream.h"
#include "backend/session/session.h"
#include "shared/command/command_reply.h"
#include "shared/glob.h"
#include "shared/number.h"

#include <limits.h>

static const struct bytes NONE = {NULL, 0};
static const struct bytes NOTHING = {"", 0};

/* ---- existence ---- */

static void delete_keys(struct call *call)
{
    int64_t deleted = 0;
    for (uint32_t i = 1; i < call->argc; i++) {
        struct entry entry;
        struct call_mark mark = keyspace_mark(call);
        if (!keyspace_open(call, call->argv[i], OPEN_WRITE, &entry))
            return;
        if (entry.exists) {
            entry_delete(call, &entry);
            notify(call, NOTIFY_GENERIC, "del", call->argv[i]);
            deleted++;
        }
        keyspace_release(call, &mark);
    }
    reply_int(&call->reply, deleted);
}

void cmd_del(struct call *call)
{
    delete_keys(call);
}

void cmd_unlink(struct call *call)
{
    delete_keys(call);
}

static void count_existing(struct call *call, enum open_flag flags)
{
    int64_t found = 0;
    for (uint32_t i = 1; i < call->argc; i++) {
        struct entry entry;
        struct call_mark mark = keyspace_mark(call);
        if (!keyspace_open(call, call->argv[i], flags, &entry))
            return;
        found += entry.exists;
        keyspace_release(call, &mark);
    }
    reply_int(&call->reply, found);
}

void cmd_exists(struct call *call)
{
    count_existing(call, OPEN_LOOK);
}

void cmd_touch(struct call *call)
{
    count_existing(call, OPEN_READ);
}

void cmd_type(struct call *call)
{
    struct entry entry;
    if (keyspace_open(call, call->argv[1], OPEN_LOOK, &entry))
        reply_status(&call->reply, entry.exists ? type_name(entry.meta.type) : "none");
}

/* ---- time to live ---- */

enum time_unit { UNIT_S = 1000, UNIT_MS = 1 };
enum time_base { BASE_NOW, BASE_EPOCH };

enum expire_flag { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };

static bool expire_flags(struct call *call, unsigned *flags)
{
    static const struct {
        const char *word;
        unsigned flag;
    } WORDS[] = {{"nx", EXPIRE_NX}, {"xx", EXPIRE_XX}, {"gt", EXPIRE_GT}, {"lt", EXPIRE_LT}};
    *flags = 0;
    for (uint32_t i = 3; i < call->argc; i++) {
        unsigned flag = 0;
        for (size_t w = 0; w < sizeof WORDS / sizeof WORDS[0]; w++)
            if (bytes_is(call->argv[i], WORDS[w].word))
                flag = WORDS[w].flag;
        if (!flag) {
            call_errorf(call, "ERR Unsupported option %.*s", (int)call->argv[i].len,
                        call->argv[i].data);
            return false;
        }
        *flags |= flag;
    }
    if ((*flags & EXPIRE_NX) && (*flags & (EXPIRE_XX | EXPIRE_GT | EXPIRE_LT)))
        call_error_text(call,
                        "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if ((*flags & EXPIRE_GT) && (*flags & EXPIRE_LT))
        call_error_text(call, "ERR GT and LT options at the same time are not compatible");
    return !call->failed;
}

/* Parses the time argument to ms since the epoch; the result may be in the past, even negative. */
static bool expire_time(struct call *call, enum time_unit unit, enum time_base base, int64_t *when)
{
    if (!call_int64(call, 2, when))
        return false;
    int64_t now = base == BASE_NOW ? (int64_t)call->now_ms : 0;
    if (!__builtin_mul_overflow(*when, (int64_t)unit, when) && *when <= INT64_MAX - now) {
        *when += now;
        return true;
    }
    call_errorf(call, "ERR invalid expire time in '%s' command", command_full_name(call->command));
    return false;
}

/* Do these flags allow to change the expiry from `old` (0 = none) to `when`? */
static bool expire_allowed(unsigned flags, uint64_t old, int64_t when)
{
    if ((flags & EXPIRE_NX) && old)
        return false;
    if ((flags & EXPIRE_XX) && !old)
        return false;
    if ((flags & EXPIRE_GT) && (!old || when <= (int64_t)old))
        return false;
    return !((flags & EXPIRE_LT) && old && when >= (int64_t)old);
}

static void expire_key(struct call *call, enum time_unit unit, enum time_base base)
{
    unsigned flags;
    int64_t when;
    struct entry entry;
    if (!expire_flags(call, &flags) || !expire_time(call, unit, base, &when) ||
        !keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    bool change = entry.exists && expire_allowed(flags, entry.meta.expire_ms, when);
    reply_int(&call->reply, change);
    if (change && when <= (int64_t)call->now_ms) {
        entry_delete(call, &entry);
        notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
    } else if (change) {
        entry_set_expire(call, &entry, (uint64_t)when);
        notify(call, NOTIFY_GENERIC, "expire", call->argv[1]);
    }
}

void cmd_expire(struct call *call)
{
    expire_key(call, UNIT_S, BASE_NOW);
}

void cmd_pexpire(struct call *call)
{
    expire_key(call, UNIT_MS, BASE_NOW);
}

void cmd_expireat(struct call *call)
{
    expire_key(call, UNIT_S, BASE_EPOCH);
}

void cmd_pexpireat(struct call *call)
{
    expire_key(call, UNIT_MS, BASE_EPOCH);
}

static void reply_ttl(struct call *call, enum time_unit unit, enum time_base base)
{
    struct entry entry;
    if (!keyspace_open(call, call->argv[1], OPEN_LOOK, &entry))
        return;
    if (!entry.exists || !entry.meta.expire_ms) {
        reply_int(&call->reply, entry.exists ? -1 : -2);
        return;
    }
    uint64_t time = entry.meta.expire_ms - (base == BASE_NOW ? call->now_ms : 0);
    reply_int(&call->reply, (int64_t)(unit == UNIT_S ? (time + 500) / 1000 : time));
}

void cmd_ttl(struct call *call)
{
    reply_ttl(call, UNIT_S, BASE_NOW);
}

void cmd_pttl(struct call *call)
{
    reply_ttl(call, UNIT_MS, BASE_NOW);
}

void cmd_expiretime(struct call *call)
{
    reply_ttl(call, UNIT_S, BASE_EPOCH);
}

void cmd_pexpiretime(struct call *call)
{
    reply_ttl(call, UNIT_MS, BASE_EPOCH);
}

void cmd_persist(struct call *call)
{
    struct entry entry;
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &entry))
        return;
    bool change = entry.exists && entry.meta.expire_ms;
    if (change) {
        entry_set_expire(call, &entry, 0);
        notify(call, NOTIFY_GENERIC, "persist", call->argv[1]);
    }
    reply_int(&call->reply, change);
}

/* ---- names and copies ---- */

enum { COPY_CHUNK = 1024 }; /* rows per iterator, which reads them before they are written */

/* Copies up to COPY_CHUNK rows after *last (data NULL: from the start), by way of `arena`. *last is in the arena afterwards. True: there may
 * be more rows. */
static bool copy_chunk(struct call *call, struct entry *from, struct entry *to, enum cf cf,
                       struct arena *arena, struct bytes *last)
{
    struct bytes subs[COPY_CHUNK];
    struct bytes values[COPY_CHUNK];
    size_t count = 0;
    struct sub_iter it;
    struct bytes behind = *last;
    sub_iter_init(call, from, cf, behind.data ? behind : NOTHING, &it);
    while (count < COPY_CHUNK && sub_iter_next(&it)) {
        if (behind.data && bytes_equal(it.sub, behind))
            continue;
        subs[count] = arena_copy(arena, it.sub);
        values[count++] = arena_copy(arena, it.value);
    }
    if (!sub_iter_fini(&it))
        return false;
    sub_put_rows(call, to, cf, subs, values, count);
    if (count)
        *last = subs[count - 1];
    return count == COPY_CHUNK;
}

/* Copies all rows of a column family. A chunk's memory is used again for the chunk after the next one, which begins behind the last row of
 * the chunk between. */
static void copy_family(struct call *call, struct entry *from, struct entry *to, enum cf cf)
{
    struct arena arenas[2];
    struct bytes last = NONE;
    bool has_more = true;
    (void)entry_prefix(call, from); /* before the mark: the entries keep them */
    (void)entry_prefix(call, to);
    for (int i = 0; i < 2; i++) {
        arena_init(&arenas[i]);
        arenas[i].meter = call->arena->meter;
    }
    for (unsigned i = 0; has_more; i ^= 1) {
        struct call_mark mark = keyspace_mark(call);
        arena_reset(&arenas[i]);
        has_more = copy_chunk(call, from, to, cf, &arenas[i], &last);
        keyspace_release(call, &mark);
    }
    arena_fini(&arenas[0]);
    arena_fini(&arenas[1]);
}

/* Makes `to` a copy of `from`, including its TTL. False: the store failed. */
static bool entry_copy(struct call *call, struct entry *from, struct entry *to)
{
    static const enum cf ROWS[] = {CF_DATA, CF_ZSET_SCORE, CF_STREAM, CF_RANK};
    struct metadata meta = from->meta;
    if (type_is_inline(meta.type)) {
        entry_set_payload(call, to, meta.type, meta.payload, meta.expire_ms);
        return true;
    }
    entry_create(call, to, meta.type);
    meta.version = to->meta.version;
    to->meta = meta;
    from->hides_fields = false; /* fields that are due are copied with their TTLs */
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0] && !call->failed; i++)
        copy_family(call, from, to, ROWS[i]);
    if (!call->failed)
        entry_save(call, to);
    return !call->failed;
}

static void rename_key(struct call *call, bool only_new)
{
    struct entry from;
    struct entry to;
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &from))
        return;
    if (!from.exists) {
        call_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    bool same = bytes_equal(call->argv[1], call->argv[2]);
    if (!same && !keyspace_open(call, call->argv[2], OPEN_WRITE, &to))
        return;
    bool move = !same && !(only_new && to.exists);
    /* as in Redis, the event "new" is also sent for an overwritten key; entry_copy sends it only for a new one */
    bool is_new = move && to.exists;
    if (move && !entry_copy(call, &from, &to))
        return;
    if (is_new)
        notify(call, NOTIFY_NEW, "new", call->argv[2]);
    if (move) {
        entry_delete(call, &from);
        call_changes(call, -1);
        notify(call, NOTIFY_GENERIC, "rename_from", call->argv[1]);
        notify(call, NOTIFY_GENERIC, "rename_to", call->argv[2]);
    }
    if (only_new)
        reply_int(&call->reply, move);
    else
        reply_ok(&call->reply);
}

void cmd_rename(struct call *call)
{
    rename_key(call, false);
}

void cmd_renamenx(struct call *call)
{
    rename_key(call, true);
}

/* The space of the database in argument `index`, in the session's namespace. */
static struct space *database_argument(struct call *call, uint32_t index)
{
    int64_t database;
    if (!call_int64(call, index, &database))
        return NULL;
    if (database < INT_MIN || database > INT_MAX) {
        call_errorf(call, "ERR value is out of range, value must between %d and %d", INT_MIN,
                    INT_MAX);
        return NULL;
    }
    struct space *space = database >= 0 && database < DATABASES_MAX
                              ? session_database(call->session, (uint8_t)database)
                              : NULL;
    if (!space)
        call_error(call, ERR_DB_INDEX);
    return space;
}

void cmd_copy(struct call *call)
{
    struct space *space = call->space;
    bool replace = false;
    struct entry from;
    struct entry to;
    for (uint32_t i = 3; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "replace")) {
            replace = true;
        } else if (bytes_is(call->argv[i], "db") && i + 1 < call->argc) {
            if (!(space = database_argument(call, ++i)))
                return;
        } else {
            call_error(call, ERR_SYNTAX);
            return;
        }
    }
    if (space == call->space && bytes_equal(call->argv[1], call->argv[2])) {
        call_error(call, ERR_SAME_OBJECT);
        return;
    }
    if (!keyspace_open(call, call->argv[1], OPEN_READ, &from) ||
        !keyspace_open_in(call, space, call->argv[2], OPEN_WRITE, &to))
        return;
    bool copy = from.exists && (replace || !to.exists);
    bool is_new = copy && to.exists; /* see rename_key */
    if (copy && !entry_copy(call, &from, &to))
        return;
    if (is_new)
        notify_in(call, space, NOTIFY_NEW, "new", call->argv[2]);
    if (copy)
        notify_in(call, space, NOTIFY_GENERIC, "copy_to", call->argv[2]);
    reply_int(&call->reply, copy);
}

void cmd_move(struct call *call)
{
    struct entry from;
    struct entry to;
    struct space *space = database_argument(call, 2);
    if (!space)
        return;
    if (space == call->space) {
        call_error(call, ERR_SAME_OBJECT);
        return;
    }
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &from) ||
        !keyspace_open_in(call, space, call->argv[1], OPEN_WRITE, &to))
        return;
    bool move = from.exists && !to.exists;
    if (move && !entry_copy(call, &from, &to))
        return;
    if (move) {
        entry_delete(call, &from);
        call_changes(call, -1);
        notify(call, NOTIFY_GENERIC, "move_from", call->argv[1]);
        notify_in(call, space, NOTIFY_GENERIC, "move_to", call->argv[1]);
    }
    reply_int(&call->reply, move);
}

/* ---- the whole keyspace ---- */

/* reply_stream_match_fn */
static bool key_matches(const struct reply_stream *streamed, struct bytes row_key,
                        struct bytes value)
{
    struct bytes space;
    struct bytes key;
    struct metadata meta;
    uint16_t slot;
    return decode_metadata_key(row_key, &space, &slot, &key) && decode_metadata(value, &meta) &&
           slot_set_has(streamed->slots, slot) &&
           !(meta.expire_ms && streamed->now_ms > meta.expire_ms) &&
           glob_fits(streamed->pattern, key);
}

/* reply_stream_row_fn */
static void reply_key(struct reply *reply, struct bytes key, struct bytes value, unsigned how)
{
    (void)value;
    (void)how;
    reply_bulk(reply, key);
}

/* For many keys: a streamed reply, so that other clients' requests run in between. */
static void keys_in_steps(struct call *call, struct bytes pattern)
{
    struct key_iter it;
    size_t prefix_len = encode_metadata_key(call->arena, call->space->name, 0, BYTES("")).len;
    key_iter_init(call, call->space, 0, NONE, &it);
    reply_stream_search(call, it.iter, prefix_len, key_matches, pattern, reply_key);
}

void cmd_keys(struct call *call)
{
    int64_t count = 0;
    if (!call_pattern(call, 1) || !keyspace_is_free(call, call->space))
        return;
    if (!call->borrow && call->space->keys > REPLY_STREAM_STEP_ROWS &&
        reply_stream_is_allowed(call)) {
        keys_in_steps(call, call->argv[1]);
        return;
    }
    struct glob *pattern = call_glob(call, call->argv[1]);
    for (int pass = 0; pass < 2 && !call->failed; pass++) {
        struct key_iter it;
        if (pass == 1)
            reply_array(&call->reply, count);
        key_iter_init(call, call->space, 0, NONE, &it);
        it.wanted = ALL_NAMES;
        while (key_iter_next(&it)) {
            if (!glob_fits(pattern, it.key))
                continue;
            if (pass == 0)
                count++;
            else
                reply_bulk(&call->reply, it.key);
        }
        key_iter_fini(&it);
    }
}

/* The first key; NULL data: there is none. */
static struct bytes first_key(struct call *call)
{
    struct key_iter it;
    struct bytes key = NONE;
    key_iter_init(call, call->space, 0, NONE, &it);
    if (key_iter_next(&it))
        key = arena_copy(call->arena, it.key);
    return key_iter_fini(&it) ? key : NONE;
}

/* The row of a place at another shard was requested: requests those that the next RANDOMKEYs of the script will draw. */
static void find_next_places(struct call *call)
{
    uint64_t state[sizeof call->partition->running.random_state / sizeof(uint64_t)];
    memcpy(state, call->partition->running.random_state, sizeof state);
    uint64_t size = keyspace_size(call->space);
    for (uint32_t left = borrow_draws_ahead(call, call->space); left > 0; left--) {
        uint64_t place = call_random(call) % size;
        if (place >= call->space->keys)
            borrow_key_ahead(call, call->space, place - call->space->keys);
    }
    memcpy(call->partition->running.random_state, state, sizeof state);
}

/* The metadata row of the key at a place below keyspace_size. False: the key has expired or was deleted, or
 * the call has failed; it runs again if the row was requested from another shard. */
static bool find_place(struct call *call, uint64_t place, struct bytes *row_key)
{
    struct slice value;
    if (place < call->space->keys)
        return keyspace_key_at(call, call->space, place, row_key);
    place -= call->space->keys;
    if (place >= borrow_keys_elsewhere(call, call->space))
        return false;
    if (!borrow_key_at(call, call->space, place, row_key)) {
        find_next_places(call);
        return false;
    }
    if (!row_key->len)
        return false;
    /* has this script or EXEC deleted it? */
    return overlay_get_borrowed(call->partition->overlay, CF_METADATA, *row_key, &value) !=
           ERR_NOT_FOUND;
}

void cmd_randomkey(struct call *call)
{
    struct bytes row_key;
    struct bytes space;
    struct bytes key = NONE;
    uint16_t slot;
    if (!keyspace_is_free(call, call->space))
        return;
    uint64_t size = keyspace_size(call->space);
    if (size > 0 && find_place(call, call_random(call) % size, &row_key))
        CHECK(decode_metadata_key(row_key, &space, &slot, &key));
    else if (size > 0 && !call->failed) /* expired keys are counted but skipped */
        key = first_key(call);
    if (call->failed)
        return;
    if (key.data)
        reply_bulk(&call->reply, key);
    else
        reply_null(&call->reply);
}
