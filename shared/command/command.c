/*
 * The rows, the name index and the error texts.
 *
 * A name is looked up as three 8-byte words, without a loop over its bytes:
 *
 *   "GetRange" ──load──► first 8 bytes, last 8, and bytes 8 to 15 when longer than 16
 *   words ──multiply──► index in `name_index` (linear probing, a quarter full)
 *   words | 0x20 where the entry has a letter == the entry's words ──► row
 */
#include "shared/command/command.h"

#include "shared/check.h"
#include "shared/command/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* Key specs of a row. `at` and `last` are those of struct key_spec. */
#define KEY(at_, flags_) KEYS(at_, 0, 1, flags_)
#define KEYS(at_, last_, step_, flags_)                                                            \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_RANGE, .at = (at_),          \
        .last = (last_), .step = (step_),                                                          \
    }
/* Argument `at_` is the number of keys; the keys follow it. */
#define KEYS_COUNTED(at_, flags_)                                                                  \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_KEYNUM, .at = (at_),         \
        .number_at = 0, .first = 1, .step = 1,                                                     \
    }
/* Argument `at_` is the number of keys; each key is followed by its value. */
#define KEYS_COUNTED_PAIRS(at_, flags_)                                                            \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_KEYNUM, .at = (at_),         \
        .number_at = 0, .first = 1, .step = 2,                                                     \
    }
/* KEY_AFTER: one key after a word. KEYS_AFTER: keys are the first 1/limit of all arguments after a word. */
#define KEY_AFTER(word_, from_, flags_)                                                            \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_KEYWORD, .find = KEY_FIND_RANGE, .keyword = (word_), \
        .at = (from_), .last = 0, .step = 1,                                                       \
    }
#define KEYS_AFTER(word_, from_, limit_, flags_)                                                   \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_KEYWORD, .find = KEY_FIND_RANGE, .keyword = (word_), \
        .at = (from_), .last = -1, .step = 1, .limit = (limit_),                                   \
    }
#define KEYS_UNKNOWN(flags_)                                                                       \
    {                                                                                              \
        .flags = (flags_), .begin = KEY_BEGIN_UNKNOWN, .find = KEY_FIND_UNKNOWN,                   \
    }

// clang-format off
struct command command_rows[COMMAND_COUNT] = {
#define COMMAND(id_, ...) \
    [COMMAND_##id_] = {.id = COMMAND_##id_, .made.id_name = #id_, .handlers = HANDLER_BACKEND, __VA_ARGS__},
#define COMMAND_LOCAL(id_, ...) \
    [COMMAND_##id_] = {.id = COMMAND_##id_, .made.id_name = #id_, .handlers = HANDLER_BACKEND | HANDLER_PROXY, __VA_ARGS__},
#define COMMAND_PROXY(id_, ...) \
    [COMMAND_##id_] = {.id = COMMAND_##id_, .made.id_name = #id_, .handlers = HANDLER_PROXY, __VA_ARGS__},
#define COMMAND_PLANNED(id_, ...) \
    [COMMAND_##id_] = {.id = COMMAND_##id_, .made.id_name = #id_, __VA_ARGS__},
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
};

/* CMD_MAY_REPLICATE has no name: Redis does not print it. */
static const char *const flag_names[] = {
    "write", "readonly", "denyoom", "admin", "pubsub", "noscript", "blocking", "loading", "stale", "skip_monitor",
    "skip_slowlog", "asking", "fast", "no_auth", NULL, "no_mandatory_keys", "no_async_loading", "no_multi",
    "movablekeys", "allow_busy",
};
static const char *const acl_names[] = {
    "keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
    "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
};
static const char *const key_flag_names[] = {
    "RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "incomplete", "variable_flags",
};
static const struct {
    const char *name;
    uint32_t acl; /* ACL category of the group's commands */
    bool is_own;  /* Redis has no command of this group */
} groups[GROUP_COUNT] = {
    [GROUP_GENERIC] = {"generic", ACL_KEYSPACE, false},
    [GROUP_STRING] = {"string", ACL_STRING, false},
    [GROUP_LIST] = {"list", ACL_LIST, false},
    [GROUP_SET] = {"set", ACL_SET, false},
    [GROUP_SORTED_SET] = {"sorted-set", ACL_SORTEDSET, false},
    [GROUP_HASH] = {"hash", ACL_HASH, false},
    [GROUP_PUBSUB] = {"pubsub", ACL_PUBSUB, false},
    [GROUP_TRANSACTIONS] = {"transactions", ACL_TRANSACTION, false},
    [GROUP_CONNECTION] = {"connection", ACL_CONNECTION, false},
    [GROUP_SERVER] = {"server", 0, false},
    [GROUP_SCRIPTING] = {"scripting", ACL_SCRIPTING, false},
    [GROUP_HYPERLOGLOG] = {"hyperloglog", ACL_HYPERLOGLOG, false},
    [GROUP_CLUSTER] = {"cluster", 0, false},
    [GROUP_GEO] = {"geo", ACL_GEO, false},
    [GROUP_STREAM] = {"stream", ACL_STREAM, false},
    [GROUP_BITMAP] = {"bitmap", ACL_BITMAP, false},
    [GROUP_JSON] = {"json", 0, true},
    [GROUP_SORTEDINT] = {"sortedint", 0, true},
    [GROUP_BLOOM] = {"bf", 0, true},
    [GROUP_CMS] = {"cms", 0, true},
    [GROUP_TDIGEST] = {"tdigest", 0, true},
    [GROUP_TOPK] = {"topk", 0, true},
    [GROUP_SCREE] = {"scree", 0, true},
};
// clang-format on

_Thread_local const struct command *command_at_hand;

/* --- names ------------------------------------------------------------------------------------ */

enum { INDEX_SIZE = 1024 };

struct name_words {
    uint64_t word[3];
};

struct name_entry {
    struct name_words words; /* words of the lower-case name */
    /* 0x20 in every byte that is a letter: the bit that distinguishes lower from upper case */
    struct name_words letter;
    uint32_t len; /* 0: the entry is free */
    enum command_id id;
};

static struct name_entry name_index[INDEX_SIZE];

static inline uint64_t load8(const char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof(word));
    return word;
}

static inline uint64_t load4(const char *data)
{
    uint32_t word;
    memcpy(&word, data, sizeof(word));
    return word;
}

/* Two different names of equal length give different words. 1 <= len <= COMMAND_NAME_MAX. */
static inline struct name_words name_load(struct bytes name)
{
    struct name_words words = {{0, 0, 0}};
    const char *data = name.data;
    size_t len = name.len;
    if (len >= 8) {
        words.word[0] = load8(data);
        words.word[1] = load8(data + len - 8);
        if (len > 16)
            words.word[2] = load8(data + 8);
    } else if (len >= 4) {
        words.word[0] = load4(data) | load4(data + len - 4) << 32;
    } else {
        unsigned char first = (unsigned char)data[0];
        unsigned char middle = (unsigned char)data[len / 2];
        unsigned char last = (unsigned char)data[len - 1];
        words.word[0] = first | (uint64_t)middle << 8 | (uint64_t)last << 16;
    }
    return words;
}

/* Hash of a name, independent of case. */
static inline uint32_t name_place(const struct name_words *words)
{
    const uint64_t lower = 0x2020202020202020u;
    uint64_t mixed = (words->word[0] | lower) ^ ((words->word[1] | lower) * 0x9e3779b97f4a7c15u) ^
                     (words->word[2] | lower);
    return (uint32_t)((mixed * 0xff51afd7ed558ccdu) >> 54);
}

static inline bool name_same(const struct name_entry *entry, const struct name_words *words,
                             size_t len)
{
    uint64_t differ = entry->len ^ len;
    for (int i = 0; i < 3; i++)
        differ |= (words->word[i] | entry->letter.word[i]) ^ entry->words.word[i];
    return differ == 0;
}

const struct command *command_find(struct bytes name)
{
    if (name.len - 1 >= COMMAND_NAME_MAX)
        return NULL;
    struct name_words words = name_load(name);
    for (uint32_t place = name_place(&words);; place = (place + 1) % INDEX_SIZE) {
        const struct name_entry *entry = &name_index[place];
        if (name_same(entry, &words, name.len))
            return &command_rows[entry->id];
        if (entry->len == 0)
            return NULL;
    }
}

const struct command *command_find_sub(const struct command *container, struct bytes name)
{
    for (enum command_id id = container->made.sub_first; id != COMMAND_NONE;
         id = command_rows[id].made.sub_next) {
        if (bytes_is(name, command_rows[id].name))
            return &command_rows[id];
    }
    return NULL;
}

const struct command *command_find_argv(const struct bytes *argv, uint32_t argc)
{
    CHECK(argc > 0);
    const struct command *command = command_find(argv[0]);
    if (!command || argc == 1 || !command_has_subs(command))
        return command;
    return command_find_sub(command, argv[1]);
}

const struct command *command_find_full(struct bytes full_name)
{
    const char *bar = full_name.len ? memchr(full_name.data, '|', full_name.len) : NULL;
    if (!bar)
        return command_find(full_name);
    size_t len = (size_t)(bar - full_name.data);
    const struct command *container = command_find((struct bytes){full_name.data, len});
    if (!container)
        return NULL;
    return command_find_sub(container, (struct bytes){bar + 1, full_name.len - len - 1});
}

void command_upper(const char *name, char *to, size_t size)
{
    size_t len = strnlen(name, size - 1);
    for (size_t i = 0; i < len; i++)
        to[i] = (char)toupper((unsigned char)name[i]);
    to[len] = '\0';
}

const char *command_exec_error(const struct command *command)
{
    if (!(command->traits & TRAIT_NOT_IN_EXEC))
        return NULL;
    return command->group == GROUP_PUBSUB
               ? "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"
               : "ERR MONITOR isn't allowed for DENY BLOCKING client"; /* Redis' texts differ */
}

const char *command_group_name(enum command_group group)
{
    CHECK((unsigned)group < GROUP_COUNT);
    return groups[group].name;
}

const char *command_route_name(enum command_route route)
{
    static const char *const names[] = {
        [ROUTE_LOCAL] = "local",
        [ROUTE_BY_KEY] = "by-key",
        [ROUTE_SPLIT] = "split",
        [ROUTE_ALL_SHARDS] = "all-shards",
        [ROUTE_ANY] = "any",
        [ROUTE_CURSOR] = "cursor",
        [ROUTE_CHANNEL] = "channel",
        [ROUTE_PINNED] = "pinned",
        [ROUTE_TRANSACTION] = "transaction",
        [ROUTE_DENIED] = "denied",
    };
    CHECK((unsigned)route < sizeof(names) / sizeof(*names));
    return names[route];
}

const char *command_merge_name(enum command_merge merge)
{
    static const char *const names[] = {
        [MERGE_ONE] = "one",
        [MERGE_ARRAY] = "array",
        [MERGE_SUM] = "sum",
        [MERGE_MIN] = "min",
        [MERGE_MAX] = "max",
        [MERGE_LEAST] = "least",
        [MERGE_OR] = "or",
        [MERGE_ALL_OK] = "all-ok",
        [MERGE_ANY_OK] = "any-ok",
        [MERGE_CONCAT] = "concat",
        [MERGE_UNION] = "union",
        [MERGE_MAP] = "map",
        [MERGE_INFO] = "info",
        [MERGE_CURSOR] = "cursor",
        [MERGE_FIRST_NONNULL] = "first-nonnull",
        [MERGE_SPECIAL] = "special",
    };
    CHECK((unsigned)merge < sizeof(names) / sizeof(*names));
    return names[merge];
}

/* The name of the bit in `flag`; NULL for a bit beyond the end of the list. */
static const char *bit_name(uint32_t flag, const char *const *names, size_t count)
{
    CHECK(flag != 0 && (flag & (flag - 1)) == 0);
    size_t bit = (size_t)__builtin_ctz(flag);
    return bit < count ? names[bit] : NULL;
}

const char *command_flag_name(enum command_flags flag)
{
    return bit_name(flag, flag_names, sizeof(flag_names) / sizeof(*flag_names));
}

const char *command_acl_name(enum command_acl category)
{
    return bit_name(category, acl_names, sizeof(acl_names) / sizeof(*acl_names));
}

const char *key_flag_name(enum key_flags flag)
{
    return bit_name(flag, key_flag_names, sizeof(key_flag_names) / sizeof(*key_flag_names));
}

/* --- tips ------------------------------------------------------------------------------------- */

static const char *request_tip(enum command_route route)
{
    switch (route) {
    case ROUTE_SPLIT:
        return "request_policy:multi_shard";
    case ROUTE_ALL_SHARDS:
        return "request_policy:all_shards";
    case ROUTE_CURSOR:
        return "request_policy:special";
    case ROUTE_LOCAL:
    case ROUTE_BY_KEY:
    case ROUTE_ANY:
    case ROUTE_CHANNEL:
    case ROUTE_PINNED:
    case ROUTE_TRANSACTION:
    case ROUTE_DENIED:
        break;
    }
    return NULL;
}

static const char *response_tip(enum command_merge merge)
{
    switch (merge) {
    case MERGE_SUM:
        return "response_policy:agg_sum";
    case MERGE_MIN:
        return "response_policy:agg_min";
    case MERGE_MAX:
        return "response_policy:agg_max";
    case MERGE_OR:
        return "response_policy:agg_logical_or";
    case MERGE_ALL_OK:
        return "response_policy:all_succeeded";
    case MERGE_ANY_OK:
        return "response_policy:one_succeeded";
    case MERGE_SPECIAL:
    case MERGE_INFO:
        return "response_policy:special";
    case MERGE_ONE:
    case MERGE_ARRAY:
    case MERGE_LEAST:
    case MERGE_CONCAT:
    case MERGE_UNION:
    case MERGE_MAP:
    case MERGE_CURSOR:
    case MERGE_FIRST_NONNULL:
        break;
    }
    return NULL;
}

uint32_t command_tips(const struct command *command, struct bytes tips[COMMAND_TIPS_MAX])
{
    uint32_t count = 0;
    if (!command->tips) {
        const char *derived[] = {request_tip(command->route), response_tip(command->merge)};
        for (size_t i = 0; i < 2; i++) {
            if (derived[i])
                tips[count++] = bytes_of(derived[i]);
        }
        return count;
    }
    for (const char *word = command->tips; *word;) {
        CHECK(count < COMMAND_TIPS_MAX);
        size_t len = strcspn(word, " ");
        tips[count++] = (struct bytes){word, len};
        word += len;
        word += strspn(word, " ");
    }
    return count;
}

/* --- completing the rows ---------------------------------------------------------------------- */

/* "client_no_evict" of CLIENT gets the name "no-evict"; "bitfield_ro" keeps its name. */
static void complete_name(struct command *row)
{
    const struct command *parent = &command_rows[row->parent];
    const char *own = row->name ? row->name : row->made.id_name;
    size_t prefix = 0;
    if (row->parent != COMMAND_NONE && !row->name)
        prefix = strlen(parent->made.id_name) + 1;
    CHECK(strlen(own) > prefix);
    int len = 0;
    if (row->parent != COMMAND_NONE)
        len = snprintf(row->full_name, sizeof(row->full_name), "%s|", parent->name);
    int rest =
        snprintf(row->full_name + len, sizeof(row->full_name) - (size_t)len, "%s", own + prefix);
    CHECK((size_t)(len + rest) < sizeof(row->full_name));
    for (char *c = row->full_name + len; prefix && *c; c++) {
        if (*c == '_')
            *c = '-';
    }
    row->name = row->full_name + len;
}

static void add_to_index(const struct command *row)
{
    char letters[COMMAND_NAME_MAX];
    struct bytes name = bytes_of(row->name);
    CHECK(name.len >= 1 && name.len <= COMMAND_NAME_MAX);
    CHECK(!command_find(name));
    for (size_t i = 0; i < name.len; i++)
        letters[i] = name.data[i] >= 'a' && name.data[i] <= 'z' ? 0x20 : 0;
    struct name_entry entry = {
        .words = name_load(name),
        .letter = name_load((struct bytes){letters, name.len}),
        .len = (uint32_t)name.len,
        .id = row->id,
    };
    uint32_t place = name_place(&entry.words);
    while (name_index[place].len)
        place = (place + 1) % INDEX_SIZE;
    name_index[place] = entry;
}

/* Appends a subcommand to the list of its parent, in the order of the rows. */
static void add_to_parent(struct command *row)
{
    struct command *parent = &command_rows[row->parent];
    CHECK(parent->parent == COMMAND_NONE);
    enum command_id *link = &parent->made.sub_first;
    while (*link != COMMAND_NONE)
        link = &command_rows[*link].made.sub_next;
    *link = row->id;
    parent->handlers |= row->handlers;
}

/* Adds the categories that follow from flags and group, by Redis' rules. */
static void complete_acl(struct command *row)
{
    uint32_t flags = row->flags;
    if (flags & CMD_WRITE)
        row->acl |= ACL_WRITE;
    if ((flags & CMD_READONLY) && row->group != GROUP_SCRIPTING)
        row->acl |= ACL_READ;
    if (flags & CMD_ADMIN)
        row->acl |= ACL_ADMIN | ACL_DANGEROUS;
    if (flags & CMD_PUBSUB)
        row->acl |= ACL_PUBSUB;
    if (flags & CMD_BLOCKING)
        row->acl |= ACL_BLOCKING;
    if (row->acl & ACL_ADMIN && !(flags & CMD_TENANT))
        row->flags |= CMD_OPERATOR;
    row->acl |= flags & CMD_FAST ? ACL_FAST : ACL_SLOW;
    if (!command_has_subs(row) && !(row->acl & ACL_NOT_GROUP))
        row->acl |= groups[row->group].acl;
}

/* Computes the one range of keys that clients before Redis 7 understand: adjacent specs of plain ranges are joined. */
static void complete_legacy_range(struct command *row)
{
    int32_t first = 0, last = 0, step = 0;
    bool alone = row->keys[1].begin == KEY_BEGIN_NONE;
    for (int i = 0; i < KEY_SPECS_MAX && row->keys[i].begin != KEY_BEGIN_NONE; i++) {
        const struct key_spec *spec = &row->keys[i];
        if (spec->begin != KEY_BEGIN_INDEX || spec->find != KEY_FIND_RANGE)
            continue;
        if (!alone && (spec->step != 1 || (last != 0 && last != spec->at - 1)))
            continue;
        if (first == 0)
            first = spec->at;
        last = spec->last < 0 ? spec->last : spec->at + spec->last;
        step = spec->step;
    }
    row->made.legacy_first = first;
    row->made.legacy_last = last;
    row->made.legacy_step = step;
}

static void complete_arity(struct command *row)
{
    row->made.args_min = (uint32_t)abs(row->arity);
    if (row->arity >= 0)
        row->made.args_span = 0;
    else
        row->made.args_span = (row->args_max ? row->args_max : UINT32_MAX) - row->made.args_min;
}

void command_init(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    for (int id = 1; id < COMMAND_COUNT; id++) {
        struct command *row = &command_rows[id];
        if (row->parent == COMMAND_NONE) {
            complete_name(row);
            add_to_index(row);
        }
    }
    for (int id = 1; id < COMMAND_COUNT; id++) {
        struct command *row = &command_rows[id];
        if (row->parent != COMMAND_NONE) {
            complete_name(row);
            add_to_parent(row);
        }
    }
    for (int id = 1; id < COMMAND_COUNT; id++) {
        complete_arity(&command_rows[id]);
        complete_acl(&command_rows[id]);
        command_rows[id].traits |= groups[command_rows[id].group].is_own ? TRAIT_OWN : 0;
        complete_legacy_range(&command_rows[id]);
        keys_init_fast_path(&command_rows[id]);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

/* how much of the arguments the error for an unknown command repeats */
enum { ERROR_ARGS_BYTES = 128 };

/* Length of `text` as "%.*s" prints it: up to a zero byte, as in Redis. */
static int shown_len(struct bytes text, size_t max)
{
    return (int)(text.len < max ? text.len : max);
}

void command_error_unknown(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    CHECK(argc > 0);
    char args[ERROR_ARGS_BYTES + 8];
    size_t len = 0;
    args[0] = '\0';
    for (uint32_t i = 1; i < argc && len < ERROR_ARGS_BYTES; i++) {
        int shown = shown_len(argv[i], ERROR_ARGS_BYTES - len);
        len += (size_t)snprintf(args + len, sizeof(args) - len, "'%.*s' ", shown, argv[i].data);
    }
    reply_errorf(reply, "ERR unknown command '%.*s', with args beginning with: %s",
                 shown_len(argv[0], ERROR_ARGS_BYTES), argv[0].data, args);
}

void command_error_unknown_sub(struct reply *reply, const struct command *container,
                               struct bytes sub)
{
    char name[COMMAND_NAME_MAX + 1];
    command_upper(container->name, name, sizeof(name));
    reply_errorf(reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                 shown_len(sub, ERROR_ARGS_BYTES), sub.data, name);
}

void command_error_arity(struct reply *reply, const struct command *command)
{
    reply_errorf(reply, "ERR wrong number of arguments for '%s' command", command->full_name);
}

void command_error_not_found(struct reply *reply, const struct bytes *argv, uint32_t argc)
{
    const struct command *container = command_find(argv[0]);
    if (container && argc > 1)
        command_error_unknown_sub(reply, container, argv[1]);
    else
        command_error_unknown(reply, argv, argc);
}
