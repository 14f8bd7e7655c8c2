/*
 * command.h - every command Scree knows, one row each, read by both programs.
 *
 *   commands.def ──include──► enum command_id          (here)
 *                ──include──► the rows                 (command.c)
 *                ──include──► handlers, cmd_<id>       (backend)
 *                ──include──► handlers, local_<id>     (proxy)
 *
 * An includer of commands.def defines four macros, all taking (id, ...columns...):
 *
 *   COMMAND          the backend has a handler cmd_<id>
 *   COMMAND_LOCAL    the backend has cmd_<id>, and the proxy answers by itself with local_<id>
 *   COMMAND_PROXY    only the proxy has a handler, local_<id>
 *   COMMAND_PLANNED  nobody has one yet; arity, keys, route and COMMAND's output are there already
 *   COMMAND_CONTAINER (optional, else COMMAND_PLANNED) a word like CLIENT that has subcommands only
 *
 * A subcommand is a row of its own with `.parent`; its name is its id behind the parent's ("client_no_evict"
 * -> "no-evict"). The rows are complete after command_init() and never change again: any thread may read them.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/reply.h"

enum command_id {
    COMMAND_NONE, /* no command: `.parent` of a top-level row; not a row itself */
#define COMMAND(id, ...)         COMMAND_##id,
#define COMMAND_LOCAL(id, ...)   COMMAND_##id,
#define COMMAND_PROXY(id, ...)   COMMAND_##id,
#define COMMAND_PLANNED(id, ...) COMMAND_##id,
#include "shared/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
    COMMAND_COUNT,
};

/* Redis 7.0's flags, in the order COMMAND prints them; then those it does not print; then our own. */
enum command_flags {
    CMD_WRITE = 1 << 0,
    CMD_READONLY = 1 << 1,
    CMD_DENYOOM = 1 << 2,
    CMD_ADMIN = 1 << 3,
    CMD_PUBSUB = 1 << 4,
    CMD_NOSCRIPT = 1 << 5,
    CMD_BLOCKING = 1 << 6,
    CMD_LOADING = 1 << 7,
    CMD_STALE = 1 << 8,
    CMD_SKIP_MONITOR = 1 << 9,
    CMD_SKIP_SLOWLOG = 1 << 10,
    CMD_ASKING = 1 << 11,
    CMD_FAST = 1 << 12,
    CMD_NO_AUTH = 1 << 13,
    CMD_MAY_REPLICATE = 1 << 14,
    CMD_NO_MANDATORY_KEYS = 1 << 15,
    CMD_NO_ASYNC_LOADING = 1 << 16,
    CMD_NO_MULTI = 1 << 17,
    CMD_MOVABLE_KEYS = 1 << 18,
    CMD_ALLOW_BUSY = 1 << 19,
    CMD_TOUCHES_ARBITRARY_KEYS = 1 << 20,
    CMD_PROTECTED = 1 << 21, /* refused unless the config allows it (DEBUG, MODULE) */
    CMD_LONG = 1 << 22,      /* may run long: travels on the second upstream connection */
    CMD_INTERNAL = 1 << 23,  /* only where the cluster's secret was shown; COMMAND hides it */
    /* Of the category @admin, but allowed inside a namespace, where it shows and changes only that namespace. */
    CMD_TENANT = 1 << 24,
    /* Shows or changes the whole process: refused inside a namespace. Set in the row, or by command_init() for each
     * @admin command without CMD_TENANT. */
    CMD_OPERATOR = 1 << 25,
    CMD_SCRIPT = 1 << 26, /* runs a script: the proxy sends it on LANE_SCRIPT */
    /* Reads or changes the cache of scripts (proxy/scripts.h). */
    CMD_SCRIPT_CACHE = 1 << 28,
};

/* Properties that gates and routing of both programs depend on, and for which Redis has no flag. They are a field of
 * their own (`traits`), so that COMMAND never prints one. */
enum command_traits {
    /* EXEC: has the flags of its queue; when it is refused, the transaction ends. */
    TRAIT_RUNS_QUEUE = 1 << 0,
    /* EXEC, DISCARD: exempt from the rate limit, or a client could not release what its transaction holds. */
    TRAIT_ENDS_MULTI = 1 << 1,
    TRAIT_ACTS_IN_MULTI = 1 << 2, /* runs at once between MULTI and EXEC; others are queued */
    TRAIT_SUBSCRIBER = 1 << 3,    /* allowed on a RESP2 connection with subscriptions */
    /* ROUTE_LOCAL, but inside a transaction a shard may answer it as well. */
    TRAIT_SHARD_ANSWERS = 1 << 4,
    TRAIT_CHANGES_SESSION = 1 << 5, /* ROUTE_LOCAL, but the proxy cannot run it as part of EXEC */
    /* Scripts and SORT read keys that only the shard sees: the user's rules travel with the request. */
    TRAIT_UNNAMED_KEYS = 1 << 6,
    /* SCREE AS, SCREE WAIT: a command to run stands behind their own arguments. */
    TRAIT_PREFIX = 1 << 7,
    TRAIT_OWN = 1 << 8, /* made by command_init(): Redis does not have the command */
};

/* Which arguments are channels, for the user's rules. */
enum command_channels {
    CHANNELS_NONE,
    CHANNELS_FIRST,    /* argument 1: it publishes there */
    CHANNELS_ALL,      /* all from argument 1: it subscribes to them */
    CHANNELS_PATTERNS, /* likewise, and they are patterns */
};

/* Which arguments are secret: neither a log nor MONITOR shows them (secret.h). */
enum command_secret {
    SECRET_NONE,
    SECRET_FROM_1,        /* all from argument 1 */
    SECRET_FROM_2,        /* all from argument 2 */
    SECRET_BEHIND_AUTH,   /* the two behind the word AUTH */
    SECRET_OPTION_VALUES, /* values of options that are secret */
};

/* Where a command that blocks says for how long. */
enum command_timeout {
    TIMEOUT_SECONDS_LAST, /* the last argument */
    TIMEOUT_SECONDS_AT_1,
    TIMEOUT_MS_LAST,
    TIMEOUT_MS_BLOCK, /* behind the word BLOCK; without it, the command does not wait */
};

/* ACL categories in the order COMMAND prints them. Most follow from flags and group. */
enum command_acl {
    ACL_KEYSPACE = 1 << 0,
    ACL_READ = 1 << 1,
    ACL_WRITE = 1 << 2,
    ACL_SET = 1 << 3,
    ACL_SORTEDSET = 1 << 4,
    ACL_LIST = 1 << 5,
    ACL_HASH = 1 << 6,
    ACL_STRING = 1 << 7,
    ACL_BITMAP = 1 << 8,
    ACL_HYPERLOGLOG = 1 << 9,
    ACL_GEO = 1 << 10,
    ACL_STREAM = 1 << 11,
    ACL_PUBSUB = 1 << 12,
    ACL_ADMIN = 1 << 13,
    ACL_FAST = 1 << 14,
    ACL_SLOW = 1 << 15,
    ACL_BLOCKING = 1 << 16,
    ACL_DANGEROUS = 1 << 17,
    ACL_CONNECTION = 1 << 18,
    ACL_TRANSACTION = 1 << 19,
    ACL_SCRIPTING = 1 << 20,
    ACL_NOT_GROUP = 1 << 21, /* in a row only: the group's own category does not hold here */
};

enum command_group {
    GROUP_GENERIC,
    GROUP_STRING,
    GROUP_LIST,
    GROUP_SET,
    GROUP_SORTED_SET,
    GROUP_HASH,
    GROUP_PUBSUB,
    GROUP_TRANSACTIONS,
    GROUP_CONNECTION,
    GROUP_SERVER,
    GROUP_SCRIPTING,
    GROUP_HYPERLOGLOG,
    GROUP_CLUSTER,
    GROUP_GEO,
    GROUP_STREAM,
    GROUP_BITMAP,
    GROUP_JSON,
    GROUP_SORTEDINT,
    GROUP_SCREE,
    GROUP_COUNT,
};

/* What the proxy does with a request. */
enum command_route {
    ROUTE_LOCAL,       /* answers it by itself */
    ROUTE_BY_KEY,      /* to the one shard of its keys, else CROSSSLOT; without keys to any shard */
    ROUTE_SPLIT,       /* one part per shard, cut by keys; what is no key goes along */
    ROUTE_ALL_SHARDS,  /* to every shard, replies merged */
    ROUTE_ANY,         /* to one shard, no matter which */
    ROUTE_CURSOR,      /* SCAN: the cursor says which shard is next */
    ROUTE_CHANNEL,     /* to the shard of the channel's slot (argument 1) */
    ROUTE_PINNED,      /* on a private upstream connection: blocking, WATCH, subscriptions */
    ROUTE_TRANSACTION, /* MULTI, EXEC, DISCARD, UNWATCH: the client's queue decides */
    ROUTE_DENIED,      /* not through a proxy */
};

/* What becomes of the replies of several shards. Every merge gives the first error if there is one,
 * unless it says otherwise. */
enum command_merge {
    MERGE_ONE,           /* there is only one reply: passed through */
    MERGE_ARRAY,         /* elements put back in the order of the request's keys */
    MERGE_SUM,           /* integers added */
    MERGE_MIN,           /* the smallest integer */
    MERGE_MAX,           /* the largest integer */
    MERGE_AND,           /* arrays of 0/1, element-wise */
    MERGE_OR,            /* likewise: 1 if any shard says 1 */
    MERGE_ALL_OK,        /* the first reply (all are alike: +OK, a SHA) */
    MERGE_ANY_OK,        /* the first reply that is no error, else the first error */
    MERGE_CONCAT,        /* arrays, one behind the other */
    MERGE_UNION,         /* arrays without repeats */
    MERGE_MAP,           /* name, number pairs: numbers of the same name added */
    MERGE_INFO,          /* INFO's text, section by section */
    MERGE_CURSOR,        /* the reply's cursor is replaced by the client's */
    MERGE_FIRST_NONNULL, /* the first that is not null, beginning at a random shard */
    MERGE_SPECIAL,       /* code of its own for this command */
};

/* Who has a handler for the row. */
enum command_handlers {
    HANDLER_BACKEND = 1 << 0,
    HANDLER_PROXY = 1 << 1,
};

enum command_doc_flags {
    DOC_DEPRECATED = 1 << 0,
    DOC_SYSCMD = 1 << 1, /* for the server's own use */
};

/* What a command does to a key. One of the first four, then what happens to its data. */
enum key_flags {
    KEY_RO = 1 << 0,
    KEY_RW = 1 << 1,
    KEY_OW = 1 << 2, /* overwritten without a look at the old value */
    KEY_RM = 1 << 3, /* removed */
    KEY_ACCESS = 1 << 4,
    KEY_UPDATE = 1 << 5,
    KEY_INSERT = 1 << 6,
    KEY_DELETE = 1 << 7,
    KEY_NOT_KEY = 1 << 8,    /* hashed like a key, but a channel: keys_find() skips it */
    KEY_INCOMPLETE = 1 << 9, /* there may be more keys than the spec finds */
    KEY_VARIABLE_FLAGS = 1 << 10,
};

enum key_begin {
    KEY_BEGIN_NONE, /* end of the row's specs */
    KEY_BEGIN_INDEX,
    KEY_BEGIN_KEYWORD,
    KEY_BEGIN_UNKNOWN,
};

enum key_find {
    KEY_FIND_RANGE,
    KEY_FIND_KEYNUM,
    KEY_FIND_UNKNOWN,
};

/* Where keys lie among the arguments (argument 0 is the command's name):
 * https://redis.io/docs/latest/develop/reference/key-specs/ */
struct key_spec {
    uint16_t flags;      /* enum key_flags */
    uint8_t begin;       /* enum key_begin */
    uint8_t find;        /* enum key_find */
    int16_t at;          /* INDEX: the argument; KEYWORD: where to begin, negative: from the end */
    int16_t step;        /* from key to key */
    int16_t last;        /* RANGE: counted from the first key; negative: from the arguments' end */
    int16_t limit;       /* RANGE with last -1: keys are the first 1/limit of the rest */
    int16_t number_at;   /* KEYNUM: the number of keys, counted from the beginning */
    int16_t first;       /* KEYNUM: the first key, counted from the beginning */
    const char *keyword; /* KEYWORD */
};

enum {
    KEY_SPECS_MAX = 4,
    COMMAND_TIPS_MAX = 4,
    COMMAND_NAME_MAX = 24, /* bytes of a top-level name */
};

/* Key positions that specs cannot say, or flags that depend on other arguments (keys.c). */
enum key_rule {
    KEY_RULE_NONE,
    KEY_RULE_SET,         /* GET makes it read too */
    KEY_RULE_BITFIELD,    /* only GETs: read */
    KEY_RULE_SORT,        /* key 1, and STORE's behind other options */
    KEY_RULE_MIGRATE,     /* KEYS behind an empty key */
    KEY_RULE_DESTINATION, /* key 1 when there are no others: PFMERGE d, where the specs fail */
    KEY_RULE_GEORADIUS,   /* key 1, and behind every STORE and STOREDIST */
    KEY_RULE_STREAMS,     /* behind STREAMS, where the options of XREAD end */
    KEY_RULE_COUNT_AT_1,  /* number of keys in argument 1 */
    KEY_RULE_COUNT_AT_2,  /* number of keys in argument 2 */
    KEY_RULE_STORE_COUNT, /* destination in argument 1, number of keys in argument 2 */
};

/* A row: its columns, and between them what command_init() makes of them (marked "made"). */
struct command {
    enum command_id id;
    enum command_id parent; /* its container */
    int32_t arity;          /* arguments with the name (and the container's); negative: at least */
    uint32_t flags;         /* enum command_flags */
    uint32_t traits;        /* enum command_traits */
    enum command_route route;
    enum command_merge merge;
    enum command_group group;
    enum command_channels channels;
    enum command_secret secret;
    enum command_timeout timeout;
    enum key_rule key_rule;
    int32_t key_at; /* made; see keys_first() */
    uint32_t key_argc_max;
    uint32_t handlers;         /* enum command_handlers; of a container those of its subcommands */
    uint32_t acl;              /* enum command_acl; in the row what does not follow, made: all */
    enum command_id sub_first; /* made: a container's first subcommand; NONE: is no container */
    enum command_id sub_next;  /* made: a subcommand's next sibling */
    struct key_spec keys[KEY_SPECS_MAX];
    const char *name;       /* lower case, without the container's; made from the id if absent */
    char full_name[40];     /* made: "client|kill" */
    const char *since;      /* version of Redis (or of whoever has it) that had it first */
    const char *complexity; /* NULL: not worth saying */
    const char *summary;
    const char *tips;             /* NULL: follow from route and merge; else these words only */
    const char *deprecated_since; /* NULL: is not */
    const char *replaced_by;
    uint32_t doc_flags;   /* enum command_doc_flags */
    int32_t legacy_first; /* made: the key range COMMAND prints for clients before Redis 7 */
    int32_t legacy_last;
    int32_t legacy_step;
    const char *id_name; /* the id as text */
};

/* The rows, by id. Element COMMAND_NONE is empty (its full_name is ""). */
extern struct command command_rows[COMMAND_COUNT];

/* Completes the rows and builds the name index. Once, before any thread starts; again is harmless. */
void command_init(void);

static inline const struct command *command_of(enum command_id id)
{
    return &command_rows[id];
}

/* A top-level command by its name in any case; NULL when unknown. */
const struct command *command_find(struct bytes name);
/* A subcommand of `container` by its own name in any case; NULL when unknown. */
const struct command *command_find_sub(const struct command *container, struct bytes name);
/* The row of a request: of the subcommand when argv[0] is a container and argc > 1. NULL when unknown,
 * which command_error_not_found() then answers. argc >= 1. */
const struct command *command_find_argv(const struct bytes *argv, uint32_t argc);
/* By full name, "get" or "client|kill", in any case. */
const struct command *command_find_full(struct bytes full_name);

static inline bool command_has_subs(const struct command *command)
{
    return command->sub_first != COMMAND_NONE;
}

/* Is the command refused on a connection that is inside this namespace (empty: none)? */
static inline bool command_is_walled(const struct command *command, struct bytes namespace_name)
{
    return command->flags & CMD_OPERATOR && namespace_name.len > 0;
}

static inline bool command_arity_ok(const struct command *command, uint32_t argc)
{
    int64_t count = argc;
    return command->arity >= 0 ? count == command->arity : count >= -(int64_t)command->arity;
}

/* How many arguments stand before the command that the row runs (TRAIT_PREFIX); 0: it runs no other. */
static inline uint32_t command_prefix_argc(const struct command *command)
{
    return command->traits & TRAIT_PREFIX ? (uint32_t)-command->arity - 1 : 0;
}

/* Lower case: "get", "client|kill". */
static inline const char *command_full_name(const struct command *command)
{
    return command->full_name;
}

/* Writes `name` in capitals ("NO-EVICT") with its zero byte; what does not fit is cut. */
void command_upper(const char *name, char *to, size_t size);

const char *command_group_name(enum command_group group); /* "sorted-set" */
const char *command_route_name(enum command_route route); /* "by-key" */
const char *command_merge_name(enum command_merge merge); /* "all-ok" */
/* Names of one bit: "denyoom", "string", "RO"; NULL for a bit that COMMAND does not print. */
const char *command_flag_name(enum command_flags flag);
const char *command_acl_name(enum command_acl category);
const char *key_flag_name(enum key_flags flag);
/* The row's tips, each a word for clients and proxies of other makers; returns how many. */
uint32_t command_tips(const struct command *command, struct bytes tips[COMMAND_TIPS_MAX]);

/* Errors in Redis' words. */
void command_error_unknown(struct reply *reply, const struct bytes *argv, uint32_t argc);
void command_error_unknown_sub(struct reply *reply, const struct command *container,
                               struct bytes sub);
void command_error_arity(struct reply *reply, const struct command *command);
/* One of the first two, for argv of which command_find_argv() knew no row. */
void command_error_not_found(struct reply *reply, const struct bytes *argv, uint32_t argc);
