/*
 * hash_expire.c - commands for times to live of hash fields (field_expiry.h).
 *
 * As in Redis, a time that has passed deletes the field at once, and a field without a TTL counts for GT and LT as one that
 * expires never. HSETEXPIRE is a command of Kvrocks, which sets fields, and the TTL of the key.
 */
#include "backend/commands/hash.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/field_expiry.h"
#include "backend/session/notify.h"
#include "shared/number.h"

/* Latest time at which a field can expire: Redis has 46 bits for it. */
static const int64_t TIME_MS_MAX = (INT64_C(1) << 46) - 1;

enum time_unit { UNIT_S = 1000, UNIT_MS = 1 };
enum time_base { BASE_NOW, BASE_EPOCH };

/* What happened to a field, as HEXPIRE and its like reply it. */
enum expire_result {
    RESULT_NO_FIELD = -2,
    RESULT_REFUSED = 0, /* by NX, XX, GT or LT */
    RESULT_SET = 1,
    RESULT_DELETED = 2, /* the time has passed */
};

enum { REPLY_NO_FIELD = -2, REPLY_NO_TTL = -1, REPLY_PERSISTED = 1 };

static const char COUNT_ERROR[] = "ERR Number of fields must be a positive integer";

/* ---- arguments ---- */

/* Parses a time to ms since the epoch; it may have passed. */
static bool parse_time(struct call *call, uint32_t index, enum time_unit unit, enum time_base base,
                       uint64_t *when)
{
    int64_t time;
    int64_t now_ms = base == BASE_NOW ? (int64_t)call->now_ms : 0;
    if (!call_int64(call, index, &time))
        return false;
    if (time < 0) {
        call_error_text(call, "ERR invalid expire time, must be >= 0");
        return false;
    }
    if (time > TIME_MS_MAX / (int64_t)unit || time * (int64_t)unit > TIME_MS_MAX - now_ms) {
        call_errorf(call, "ERR invalid expire time in '%s' command",
                    command_full_name(call->command));
        return false;
    }
    *when = (uint64_t)(time * (int64_t)unit + now_ms);
    return true;
}

/* Parses `FIELDS count field…` at argument `at`, to the end. The fields begin at at + 2. */
static bool parse_fields(struct call *call, uint32_t at, const char *count_error)
{
    uint64_t count;
    if (at + 1 >= call->argc) {
        call_error_arity(call);
        return false;
    }
    if (!bytes_is(call->argv[at], "fields")) {
        call_error_text(call, "ERR Mandatory argument FIELDS is missing or not at the right "
                              "position");
        return false;
    }
    if (!call_positive(call, at + 1, count_error, &count))
        return false;
    if (count == call->argc - at - 2)
        return true;
    call_error_text(call, "ERR The `numfields` parameter must match the number of arguments");
    return false;
}

static const struct time_word {
    const char *word;
    enum time_unit unit;
    enum time_base base;
} TIME_WORDS[] = {
    {"ex", UNIT_S, BASE_NOW},
    {"px", UNIT_MS, BASE_NOW},
    {"exat", UNIT_S, BASE_EPOCH},
    {"pxat", UNIT_MS, BASE_EPOCH},
};

/* NULL: the argument is none of EX, PX, EXAT, PXAT. */
static const struct time_word *find_time_word(struct bytes argument)
{
    for (size_t i = 0; i < sizeof TIME_WORDS / sizeof TIME_WORDS[0]; i++)
        if (bytes_is(argument, TIME_WORDS[i].word))
            return &TIME_WORDS[i];
    return NULL;
}

/* ---- HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT ---- */

enum condition { ALWAYS, IF_NONE, IF_ANY, IF_GREATER, IF_LESS };

static enum condition parse_ttl_condition(struct bytes argument)
{
    static const char *const words[] = {"", "nx", "xx", "gt", "lt"};
    for (enum condition condition = IF_NONE; condition <= IF_LESS; condition++)
        if (bytes_is(argument, words[condition]))
            return condition;
    return ALWAYS;
}

static bool ttl_condition_holds(enum condition condition, uint64_t old_ms, uint64_t when)
{
    switch (condition) {
    case IF_NONE:
        return old_ms == 0;
    case IF_ANY:
        return old_ms != 0;
    case IF_GREATER:
        return old_ms != 0 && when > old_ms;
    case IF_LESS:
        return old_ms == 0 || when < old_ms;
    default:
        return true;
    }
}

/* Number of fields whose TTL was changed, and that were deleted, because their new time has passed. */
struct expired_count {
    uint32_t set;
    uint32_t deleted;
};

/* Sets the TTL of a field that exists, or deletes it. */
static enum expire_result expire_field(struct call *call, struct entry *entry,
                                       struct hash_field *field, uint64_t when,
                                       struct expired_count *count)
{
    if (when <= call->now_ms) {
        hash_remove(call, entry, field);
        count->deleted++;
        return RESULT_DELETED;
    }
    hash_set_ttl(call, entry, field, when);
    count->set++;
    return RESULT_SET;
}

/* Saves the hash if a field was changed, and reports it. */
static void save_expired(struct call *call, struct entry *entry, const struct expired_count *count,
                         const char *name)
{
    if (count->set + count->deleted)
        hash_save_removed(call, entry, count->deleted ? "hdel" : name);
}

static void change_expiry(struct call *call, enum time_unit unit, enum time_base base)
{
    struct entry entry;
    uint64_t when;
    struct expired_count count = {0};
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry) ||
        !parse_time(call, 2, unit, base, &when))
        return;
    enum condition condition = parse_ttl_condition(call->argv[3]);
    uint32_t at = condition == ALWAYS ? 3 : 4;
    if (!parse_fields(call, at, "ERR Parameter `numFields` should be greater than 0"))
        return;
    reply_array(&call->reply, call->argc - at - 2);
    for (uint32_t i = at + 2; i < call->argc; i++) {
        struct hash_field field;
        enum expire_result result = RESULT_REFUSED;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return;
        if (!field.exists)
            result = RESULT_NO_FIELD;
        else if (ttl_condition_holds(condition, field.expire_ms, when))
            result = expire_field(call, &entry, &field, when, &count);
        reply_int(&call->reply, result);
    }
    save_expired(call, &entry, &count, "hexpire");
}

void cmd_hexpire(struct call *call)
{
    change_expiry(call, UNIT_S, BASE_NOW);
}

void cmd_hpexpire(struct call *call)
{
    change_expiry(call, UNIT_MS, BASE_NOW);
}

void cmd_hexpireat(struct call *call)
{
    change_expiry(call, UNIT_S, BASE_EPOCH);
}

void cmd_hpexpireat(struct call *call)
{
    change_expiry(call, UNIT_MS, BASE_EPOCH);
}

/* ---- HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME ---- */

static int64_t ttl_reply(const struct call *call, uint64_t expire_ms, enum time_unit unit,
                         enum time_base base)
{
    if (!expire_ms)
        return REPLY_NO_TTL;
    uint64_t time = expire_ms - (base == BASE_NOW ? call->now_ms : 0);
    return (int64_t)(unit == UNIT_S ? (time + 999) / 1000 : time);
}

static void reply_ttls(struct call *call, enum time_unit unit, enum time_base base)
{
    struct entry entry;
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_READ, &entry) ||
        !parse_fields(call, 2, COUNT_ERROR))
        return;
    reply_array(&call->reply, call->argc - 4);
    for (uint32_t i = 4; i < call->argc; i++) {
        struct bytes value;
        uint64_t expire_ms = 0;
        int err =
            entry.exists ? sub_get(call, &entry, CF_DATA, call->argv[i], &value) : ERR_NOT_FOUND;
        if (err == OK && entry.meta.field_ttls)
            err = field_expiry_get(call, &entry, call->argv[i], &expire_ms);
        if (is_read_failure(err))
            return;
        reply_int(&call->reply,
                  err == OK ? ttl_reply(call, expire_ms, unit, base) : (int64_t)REPLY_NO_FIELD);
    }
}

void cmd_httl(struct call *call)
{
    reply_ttls(call, UNIT_S, BASE_NOW);
}

void cmd_hpttl(struct call *call)
{
    reply_ttls(call, UNIT_MS, BASE_NOW);
}

void cmd_hexpiretime(struct call *call)
{
    reply_ttls(call, UNIT_S, BASE_EPOCH);
}

void cmd_hpexpiretime(struct call *call)
{
    reply_ttls(call, UNIT_MS, BASE_EPOCH);
}

void cmd_hpersist(struct call *call)
{
    struct entry entry;
    struct expired_count count = {0};
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry) ||
        !parse_fields(call, 2, COUNT_ERROR))
        return;
    reply_array(&call->reply, call->argc - 4);
    for (uint32_t i = 4; i < call->argc; i++) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return;
        reply_int(&call->reply, !field.exists      ? REPLY_NO_FIELD
                                : !field.expire_ms ? REPLY_NO_TTL
                                                   : REPLY_PERSISTED);
        count.set += field.expire_ms != 0;
        hash_set_ttl(call, &entry, &field, 0);
    }
    save_expired(call, &entry, &count, "hpersist");
}

/* ---- HGETDEL, HGETEX ---- */

static void reply_value(struct call *call, const struct hash_field *field)
{
    if (field->exists)
        reply_bulk(&call->reply, field->value);
    else
        reply_null(&call->reply);
}

void cmd_hgetdel(struct call *call)
{
    struct entry entry;
    uint32_t deleted = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry) ||
        !parse_fields(call, 2, COUNT_ERROR))
        return;
    reply_array(&call->reply, call->argc - 4);
    for (uint32_t i = 4; i < call->argc; i++) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return;
        reply_value(call, &field);
        deleted += field.exists;
        if (field.exists)
            hash_remove(call, &entry, &field);
    }
    if (deleted)
        hash_save_removed(call, &entry, "hdel");
}

/* What HGETEX does with the TTLs. */
struct getex {
    uint32_t at; /* of FIELDS */
    bool has_time;
    bool persists;
    uint64_t when; /* if has_time */
};

static bool parse_getex(struct call *call, struct getex *getex)
{
    const struct time_word *word = find_time_word(call->argv[2]);
    *getex = (struct getex){
        .at = 2, .has_time = word != NULL, .persists = bytes_is(call->argv[2], "persist")};
    if (getex->persists)
        getex->at = 3;
    if (!word)
        return true;
    getex->at = 4;
    return parse_time(call, 3, word->unit, word->base, &getex->when);
}

void cmd_hgetex(struct call *call)
{
    struct entry entry;
    struct getex getex;
    struct expired_count count = {0};
    if (!keyspace_open_type(call, call->argv[1], TYPE_HASH, OPEN_WRITE, &entry) ||
        !parse_getex(call, &getex) || !parse_fields(call, getex.at, COUNT_ERROR))
        return;
    bool changes = getex.has_time || getex.persists;
    reply_array(&call->reply, call->argc - getex.at - 2);
    for (uint32_t i = getex.at + 2; i < call->argc; i++) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], changes, &field))
            return;
        reply_value(call, &field);
        if (field.exists && getex.has_time)
            (void)expire_field(call, &entry, &field, getex.when, &count);
        else if (field.expire_ms) {
            hash_set_ttl(call, &entry, &field, 0);
            count.set++;
        }
    }
    save_expired(call, &entry, &count, getex.persists ? "hpersist" : "hexpire");
}

/* ---- HSETEX ---- */

struct setex {
    uint32_t at; /* of FIELDS */
    bool only_new;
    bool only_old;
    bool has_time;
    bool keeps_ttl;
    uint64_t when; /* if has_time; else 0 */
};

/* Parses a word that sets when the fields expire, and its argument. False: an error was replied. */
static bool parse_setex_time(struct call *call, uint32_t *i, struct setex *setex)
{
    const struct time_word *word = find_time_word(call->argv[*i]);
    if (setex->has_time || setex->keeps_ttl) {
        call_error_text(call,
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
        return false;
    }
    setex->has_time = word != NULL;
    setex->keeps_ttl = !word;
    if (!word)
        return true;
    if (*i + 1 >= call->argc) {
        call_error_text(call, "ERR missing expire time");
        return false;
    }
    return parse_time(call, ++*i, word->unit, word->base, &setex->when);
}

static bool parse_setex_condition(struct call *call, uint32_t i, struct setex *setex)
{
    if (setex->only_new || setex->only_old) {
        call_error_text(call, "ERR Only one of FXX or FNX arguments can be specified");
        return false;
    }
    setex->only_new = bytes_is(call->argv[i], "fnx");
    setex->only_old = !setex->only_new;
    return true;
}

/* `FIELDS count field value …` at setex->at. */
static bool parse_setex_fields(struct call *call, const struct setex *setex)
{
    static const char error[] = "ERR invalid number of fields";
    uint64_t count = 0;
    if (setex->at + 3 < call->argc) {
        if (!call_positive(call, setex->at + 1, error, &count))
            return false;
        uint32_t words = call->argc - setex->at - 2;
        if (words % 2 == 0 && count == words / 2)
            return true;
    }
    if (count > INT32_MAX)
        call_error_text(call, error);
    else
        call_error_arity(call);
    return false;
}

static bool parse_setex(struct call *call, struct setex *setex)
{
    *setex = (struct setex){0};
    for (uint32_t i = 2; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        bool is_good;
        if (bytes_is(word, "fields")) {
            setex->at = i;
            return parse_setex_fields(call, setex);
        }
        if (bytes_is(word, "keepttl") || find_time_word(word)) {
            is_good = parse_setex_time(call, &i, setex);
        } else if (bytes_is(word, "fnx") || bytes_is(word, "fxx")) {
            is_good = parse_setex_condition(call, i, setex);
        } else {
            call_errorf(call, "ERR unknown argument: %.*s", (int)(word.len < 128 ? word.len : 128),
                        word.data);
            is_good = false;
        }
        if (!is_good)
            return false;
    }
    call_error_arity(call);
    return false;
}

/* Do the fields meet FNX or FXX? */
static bool setex_is_allowed(struct call *call, struct entry *entry, const struct setex *setex)
{
    if (!setex->only_new && !setex->only_old)
        return true;
    for (uint32_t i = setex->at + 2; i < call->argc; i += 2) {
        struct hash_field field;
        if (!hash_find(call, entry, call->argv[i], false, &field) ||
            field.exists == setex->only_new)
            return false;
    }
    return true;
}

void cmd_hsetex(struct call *call)
{
    struct entry entry;
    struct setex setex;
    struct expired_count count = {0};
    if (!parse_setex(call, &setex) || !hash_open_write(call, &entry))
        return;
    if (!setex_is_allowed(call, &entry, &setex)) {
        if (!call->failed)
            reply_int(&call->reply, 0);
        return;
    }
    bool is_over = setex.has_time && setex.when <= call->now_ms;
    if (is_over && !entry.exists)
        notify(call, NOTIFY_NEW, "new", call->argv[1]); /* as if the key had been for a moment */
    for (uint32_t i = setex.at + 2; i < call->argc; i += 2) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], !setex.keeps_ttl, &field))
            return;
        if (is_over && field.exists)
            hash_remove(call, &entry, &field);
        if (!is_over)
            hash_put(call, &entry, &field, call->argv[i + 1], setex.when);
        count.deleted += is_over;
        count.set += setex.has_time && !is_over;
    }
    entry_save(call, &entry);
    notify(call, NOTIFY_HASH, "hset", call->argv[1]);
    if (setex.has_time)
        notify(call, NOTIFY_HASH, count.deleted ? "hdel" : "hexpire", call->argv[1]);
    if (!entry.exists)
        notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
    reply_int(&call->reply, 1);
}

/* ---- HSETEXPIRE ---- */

void cmd_hsetexpire(struct call *call)
{
    struct entry entry;
    int64_t seconds;
    int64_t expire_ms;
    if (call->argc % 2 == 0) {
        call_error_arity(call);
        return;
    }
    if (!call_int64(call, 2, &seconds))
        return;
    if (seconds <= 0 || __builtin_mul_overflow(seconds, (int64_t)UNIT_S, &expire_ms) ||
        __builtin_add_overflow(expire_ms, (int64_t)call->now_ms, &expire_ms)) {
        call_errorf(call, "ERR invalid expire time in '%s' command",
                    command_full_name(call->command));
        return;
    }
    if (!hash_open_write(call, &entry))
        return;
    for (uint32_t i = 3; i < call->argc; i += 2) {
        struct hash_field field;
        if (!hash_find(call, &entry, call->argv[i], true, &field))
            return;
        hash_put(call, &entry, &field, call->argv[i + 1], 0);
    }
    entry.meta.expire_ms = (uint64_t)expire_ms;
    entry_save(call, &entry);
    notify(call, NOTIFY_HASH, "hset", call->argv[1]);
    notify(call, NOTIFY_GENERIC, "expire", call->argv[1]);
    reply_ok(&call->reply);
}
