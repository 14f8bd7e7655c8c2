/*
 * command.h - every command of Scree, one row each, used by both programs.
 *
 *   commands.def ──include──► enum command_id          (here)
 *                ──include──► the rows                 (command.c)
 *                ──include──► handlers, cmd_<id>       (backend)
 *                ──include──► handlers, local_<id>     (proxy)
 *
 * An includer of commands.def defines four macros, all taking (id, ...columns...):
 *
 *   COMMAND          the backend has a handler cmd_<id>
 *   COMMAND_LOCAL    the backend has cmd_<id>, and the proxy answers without a backend, with local_<id>
 *   COMMAND_PROXY    only the proxy has a handler, local_<id>
 *   COMMAND_PLANNED  no program has a handler yet; arity, keys, route and the output of COMMAND exist
 *   COMMAND_CONTAINER (optional, default COMMAND_PLANNED) a word such as CLIENT that only has subcommands
 *
 * A subcommand is a row of its own with `.parent`; its name is its id without the parent's id ("client_no_evict" ->
 * "no-evict"). The rows are complete after command_init() and never change afterwards: any thread may read them.
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
#include "shared/command/commands.def"
#undef COMMAND
#undef COMMAND_LOCAL
#undef COMMAND_PROXY
#undef COMMAND_PLANNED
    COMMAND_COUNT,
};

/* Redis 7.0's flags in the order in which COMMAND prints them, then those that it does not print, then our own. */
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
    /* may run long: sent on the second upstream connection, so that short requests do not wait for it */
    CMD_LONG = 1 << 22,
    /* only for peers that authenticated with the cluster secret; COMMAND does not list it */
    CMD_INTERNAL = 1 << 23,
    /* In category @admin, but allowed inside a namespace, where it shows and changes only that namespace. */
    CMD_TENANT = 1 << 24,
    /* Shows or changes the whole process: refused inside a namespace. Set in the row, or by command_init() for each
     * @admin command without CMD_TENANT. */
    CMD_OPERATOR = 1 << 25,
    CMD_SCRIPT = 1 << 26, /* runs a script: the proxy sends it on LANE_SCRIPT */
    /* Reads or changes the script cache (proxy/client/scripts.h). */
    CMD_SCRIPT_CACHE = 1 << 28,
};

/* Properties on which gates and routing of both programs depend, and for which Redis has no flag. They are a
 * separate field (`traits`), so that COMMAND never prints them. */
enum command_traits {
    /* EXEC: is checked with the flags of its queued commands; when it is refused, the transaction ends. */
    TRAIT_RUNS_QUEUE = 1 << 0,
    /* EXEC, DISCARD: exempt from the rate limit, because otherwise a limited client could not end its transaction. */
    TRAIT_ENDS_MULTI = 1 << 1,
    TRAIT_ACTS_IN_MULTI = 1 << 2, /* runs at once between MULTI and EXEC; others are queued */
    TRAIT_SUBSCRIBER = 1 << 3,    /* allowed on a RESP2 connection with subscriptions */
    /* ROUTE_LOCAL, but inside a transaction a shard can answer it as well. */
    TRAIT_SHARD_ANSWERS = 1 << 4,
    TRAIT_CHANGES_SESSION = 1 << 5, /* ROUTE_LOCAL, but the proxy cannot run it as part of EXEC */
    /* Scripts and SORT read keys that only the shard can determine: the user's rules are sent with the request. */
    TRAIT_UNNAMED_KEYS = 1 << 6,
    /* SCREE AS, PART, SHOW, TRY and WAIT: the command to run follows their own arguments. */
    TRAIT_PREFIX = 1 << 7,
    TRAIT_OWN = 1 << 8, /* made by command_init(): Redis does not have this command */
    /* BLPOP and similar commands: takes from the first of its keys that has something, so the keys may be on different
     * shards, which the proxy tries one after the other. */
    TRAIT_FIRST_OF_KEYS = 1 << 9,
    /* Valkey or Kvrocks had it first: `.since` is that product's version. */
    TRAIT_VALKEY = 1 << 11,
    TRAIT_KVROCKS = 1 << 12,
    TRAIT_WHOLE =
        1 << 13, /* concerns all keys: the proxy repeats it until it has reached all slots */
    TRAIT_AUDITED = 1 << 14, /* an administrator's change: logged (audit.h) */
    /* As TRAIT_AUDITED, but only with a subcommand that changes something: SCREE BACKUP START, but neither STATUS nor LIST. */
    TRAIT_AUDITED_ACTIONS = 1 << 15,
    TRAIT_CHANGES_DATABASE =
        1 << 16,                  /* SELECT, SWAPDB: the keys behind it are in another database */
    TRAIT_COUNTS_KEYS = 1 << 27,  /* INFO: counts keys, and does not open them */
    TRAIT_WATCHES = 1 << 17,      /* WATCH: reads rows of its keys, and does not open them */
    TRAIT_ONLY_REPLIES = 1 << 18, /* WAIT, WAITAOF: neither reads nor writes rows */
    /* The members or fields of its keys that the command names; it usually reads no others (named_members.h). */
    TRAIT_MEMBERS_NONE = 1 << 19,   /* none at all: EXPIRE, LPUSH, HLEN */
    TRAIT_MEMBERS_AT_2 = 1 << 20,   /* argument 2: HINCRBY */
    TRAIT_MEMBERS_AT_3 = 1 << 21,   /* argument 3: ZINCRBY, SMOVE */
    TRAIT_MEMBERS_FROM_2 = 1 << 22, /* all from argument 2: SADD, HDEL */
    TRAIT_MEMBERS_PAIRS = 1 << 23,  /* every second from argument 2: HSET */
    TRAIT_MEMBERS_SCORED = 1 << 24, /* every second behind the first score: ZADD */
    TRAIT_SUBSCRIBES = 1 << 25, /* SUBSCRIBE, PSUBSCRIBE: messages of all nodes (channel_relay.h) */
    TRAIT_SCRIPT_TEXT =
        1 << 26, /* argument 1 is a script; that of other CMD_SCRIPT commands names one */
    /* CLIENT KILL: runs beside a slow command, as it may end it; CMD_ALLOW_BUSY would show another flag than that of redis-server */
    TRAIT_RUNS_WHILE_BUSY = 1 << 28,
    TRAIT_SHOWS_LEADERS = 1 << 29, /* CLUSTER SLOTS, SHARDS: names the leader of each shard */
    TRAIT_NOT_IN_EXEC = 1 << 10,   /* may be queued, but EXEC replies command_exec_error() for it */
};

/* Which arguments are channels: ACL rules are checked against them. */
enum command_channels {
    CHANNELS_NONE,
    CHANNELS_FIRST,    /* argument 1: published to */
    CHANNELS_ALL,      /* all from argument 1: subscribed to */
    CHANNELS_PATTERNS, /* all from argument 1, as patterns: subscribed to */
};

/* Which arguments are secret: neither logs nor MONITOR show them (secret.h). */
enum command_secret {
    SECRET_NONE,
    SECRET_FROM_1,        /* all from argument 1 */
    SECRET_FROM_2,        /* all from argument 2 */
    SECRET_BEHIND_AUTH,   /* the two after the word AUTH */
    SECRET_OPTION_VALUES, /* values of secret options */
};

/* Where a blocking command has its timeout. */
enum command_timeout {
    TIMEOUT_SECONDS_LAST, /* the last argument */
    TIMEOUT_SECONDS_AT_1,
    TIMEOUT_MS_LAST,
    TIMEOUT_MS_BLOCK, /* after the word BLOCK; without this word the command does not block */
};

/* ACL categories in the order in which COMMAND prints them. Most follow from flags and group. */
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
    ACL_NOT_GROUP = 1 << 21, /* in a row only: its commands are not in the category of the group */
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
    GROUP_BLOOM,
    GROUP_CMS,
    GROUP_TDIGEST,
    GROUP_TOPK,
    GROUP_SCREE,
    GROUP_COUNT,
};

/* What the proxy does with a request. */
enum command_route {
    ROUTE_LOCAL,  /* answers without a backend */
    ROUTE_BY_KEY, /* to the one shard of its keys, else CROSSSLOT; without keys to any shard */
    /* one part per shard, split by key; arguments that are no keys are copied into each part */
    ROUTE_SPLIT,
    ROUTE_ALL_SHARDS,  /* to every shard, replies merged */
    ROUTE_ANY,         /* to any one shard */
    ROUTE_CURSOR,      /* SCAN: the cursor names the next shard */
    ROUTE_CHANNEL,     /* to the shard of the channel's slot (argument 1) */
    ROUTE_PINNED,      /* on a dedicated upstream connection: blocking, WATCH, subscriptions */
    ROUTE_TRANSACTION, /* MULTI, EXEC, DISCARD, UNWATCH: see transaction_queue.h */
    ROUTE_DENIED,      /* refused by the proxy */
};

/* How the replies of several shards become one. Unless noted otherwise, the first error becomes the reply. */
enum command_merge {
    MERGE_ONE,           /* there is only one reply: passed on unchanged */
    MERGE_ARRAY,         /* elements reordered to the order of the request's keys */
    MERGE_SUM,           /* integers added */
    MERGE_MIN,           /* the smallest integer */
    MERGE_MAX,           /* the largest integer */
    MERGE_LEAST,         /* arrays of numbers: the smallest, element-wise */
    MERGE_OR,            /* arrays of 0/1: 1 if any shard has 1 */
    MERGE_ALL_OK,        /* the first reply (all are alike: +OK, a SHA) */
    MERGE_ANY_OK,        /* the first reply that is no error, else the first error */
    MERGE_CONCAT,        /* arrays concatenated */
    MERGE_UNION,         /* arrays joined without repeats */
    MERGE_MAP,           /* pairs of name and number: numbers of equal names added */
    MERGE_INFO,          /* INFO's text, section by section */
    MERGE_CURSOR,        /* the reply's cursor is replaced by the client's */
    MERGE_FIRST_NONNULL, /* the first reply that is not null, beginning at a random shard */
    MERGE_SPECIAL,       /* merged by code for this one command */
};

/* Which programs have a handler for the row. */
enum command_handlers {
    HANDLER_BACKEND = 1 << 0,
    HANDLER_PROXY = 1 << 1,
};

enum command_doc_flags {
    DOC_DEPRECATED = 1 << 0,
    DOC_SYSCMD = 1 << 1, /* for the server's own use */
};

/* How a command uses a key: one of the first four flags, then what happens to the key's data. */
enum key_flags {
    KEY_RO = 1 << 0,
    KEY_RW = 1 << 1,
    KEY_OW = 1 << 2, /* overwritten without reading the old value */
    KEY_RM = 1 << 3, /* removed */
    KEY_ACCESS = 1 << 4,
    KEY_UPDATE = 1 << 5,
    KEY_INSERT = 1 << 6,
    KEY_DELETE = 1 << 7,
    KEY_NOT_KEY = 1 << 8,    /* a channel: hashed like a key, but skipped by keys_find() */
    KEY_INCOMPLETE = 1 << 9, /* there may be keys that the spec does not find */
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

/* Where the keys are among the arguments (argument 0 is the command's name):
 * https://redis.io/docs/latest/develop/reference/key-specs/ */
struct key_spec {
    uint16_t flags; /* enum key_flags */
    uint8_t begin;  /* enum key_begin */
    uint8_t find;   /* enum key_find */
    /* INDEX: the argument; KEYWORD: where the search begins, negative: from the end */
    int16_t at;
    int16_t step; /* distance from key to key */
    /* RANGE: relative to the first key; negative: from the end of the arguments */
    int16_t last;
    int16_t limit;       /* RANGE with last -1: keys are the first 1/limit of the rest */
    int16_t number_at;   /* KEYNUM: where the number of keys is, relative to the begin */
    int16_t first;       /* KEYNUM: where the first key is, relative to the begin */
    const char *keyword; /* KEYWORD */
};

enum {
    KEY_SPECS_MAX = 4,
    COMMAND_TIPS_MAX = 4,
    COMMAND_NAME_MAX = 24, /* bytes of a top-level name */
    /* args_max: where each argument is compared with all options, commands or clients, or gets a long reply */
    SERVER_ARGS_MAX = 1024,
    PATTERNS_ARGS_MAX =
        256,                /* where each argument is a pattern that is compared with all options */
    NAMES_ARGS_MAX = 65536, /* where each argument is looked up, and gets a short reply */
};

/* Key positions that specs cannot express, or flags that depend on other arguments (keys.c). */
enum key_rule {
    KEY_RULE_NONE,
    KEY_RULE_SET,      /* option GET: the key is read too */
    KEY_RULE_BITFIELD, /* read-only when all operations are GET */
    KEY_RULE_SORT,     /* argument 1, and the argument of STORE */
    KEY_RULE_MIGRATE,  /* arguments after KEYS when the key argument is empty */
    /* argument 1 when there are no other keys: "PFMERGE d", which the specs get wrong */
    KEY_RULE_DESTINATION,
    KEY_RULE_GEORADIUS,   /* argument 1, and the argument of the last STORE or STOREDIST */
    KEY_RULE_STREAMS,     /* arguments after STREAMS, found by parsing the options of XREAD */
    KEY_RULE_COUNT_AT_1,  /* number of keys in argument 1 */
    KEY_RULE_COUNT_AT_2,  /* number of keys in argument 2 */
    KEY_RULE_COUNT_PAIRS, /* number of keys in argument 1; each is followed by its value */
    KEY_RULE_STORE_COUNT, /* destination in argument 1, number of keys in argument 2 */
};

struct command_deprecation {
    const char *since; /* NULL: not deprecated */
    const char *replaced_by;
};

/* Not written in the rows: filled by their macros and by command_init(). */
struct command_made {
    int32_t key_at;            /* see keys_first() */
    uint32_t key_argc_max;     /* likewise */
    uint32_t args_min;         /* fewest arguments */
    uint32_t args_span;        /* most arguments, less args_min */
    enum command_id sub_first; /* first subcommand of a container, else COMMAND_NONE */
    enum command_id sub_next;  /* next subcommand of the same container */
    int32_t legacy_first;      /* the key range that COMMAND prints for clients before Redis 7 */
    int32_t legacy_last;
    int32_t legacy_step;
    bool has_sources;    /* it writes some of its keys, and reads others: SUNIONSTORE */
    const char *id_name; /* the id as text */
};

/* A row: columns that the .def files set, and fields that command_init() computes (marked "made"). */
struct command {
    enum command_id id;
    enum command_id parent; /* the container of a subcommand */
    /* number of arguments, including the name (and the container's name); negative: a minimum */
    int32_t arity;
    /* Most arguments, for commands of the server that take a list and do some work, or reply something, for each element;
     * 0: no limit of its own. */
    uint32_t args_max;
    uint32_t flags;  /* enum command_flags */
    uint32_t traits; /* enum command_traits */
    enum command_route route;
    enum command_merge merge;
    enum command_group group;
    enum command_channels channels;
    enum command_secret secret;
    enum command_timeout timeout;
    enum key_rule key_rule;
    /* enum command_handlers; for a container, those of its subcommands */
    uint32_t handlers;
    /* enum command_acl; the row lists what flags and group do not imply, command_init() adds the rest */
    uint32_t acl;
    struct command_made made;
    struct key_spec keys[KEY_SPECS_MAX];
    /* lower case, without the container's name; made from the id when absent */
    const char *name;
    char full_name[40]; /* made: "client|kill" */
    /* version of Redis (or of the product that introduced it) that had it first */
    const char *since;
    const char *complexity; /* NULL: not documented */
    const char *summary;
    /* NULL: derived from route and merge; otherwise exactly these words */
    const char *tips;
    uint32_t doc_flags; /* enum command_doc_flags */
    struct command_deprecation deprecated;
};

/* The rows, by id. Element COMMAND_NONE is empty (its full_name is ""). */
extern struct command command_rows[COMMAND_COUNT];

/* Completes the rows and builds the name index. Call once before any thread starts; a second call has no effect. */
void command_init(void);

static inline const struct command *command_of(enum command_id id)
{
    return &command_rows[id];
}

/* A top-level command by name, in any case; NULL when unknown. */
const struct command *command_find(struct bytes name);
/* Remembers the last name that was looked up, and its command. Names of more than 8 bytes are not remembered. */
struct command_memo {
    uint64_t word; /* the name as it was written */
    size_t len;    /* 0: none was found yet */
    const struct command *command;
};
/* Like command_find, faster for the name that was looked up last. */
static inline const struct command *command_find_again(struct command_memo *memo, struct bytes name)
{
    uint32_t first = 0;
    uint32_t last = 0;
    if (name.len < sizeof first || name.len > sizeof memo->word) {
        if (name.len != 3)
            return command_find(name);
        first = (uint32_t)(unsigned char)name.data[0] | (uint32_t)(unsigned char)name.data[1] << 8 |
                (uint32_t)(unsigned char)name.data[2] << 16;
    } else {
        memcpy(&first, name.data, sizeof first);
        memcpy(&last, name.data + name.len - sizeof last, sizeof last);
    }
    uint64_t word = first | (uint64_t)last << 32;
    if (memo->word == word && memo->len == name.len)
        return memo->command;
    *memo = (struct command_memo){word, name.len, command_find(name)};
    return memo->command;
}
/* A subcommand of `container` by its own name, in any case; NULL when unknown. */
const struct command *command_find_sub(const struct command *container, struct bytes name);
/* The row of a request; the subcommand's row when argv[0] is a container and argc > 1. NULL: unknown, reply with
 * command_error_not_found(). argc >= 1. */
const struct command *command_find_argv(const struct bytes *argv, uint32_t argc);
/* By full name ("get" or "client|kill"), in any case; NULL when unknown. */
const struct command *command_find_full(struct bytes full_name);

static inline bool command_has_subs(const struct command *command)
{
    return command->made.sub_first != COMMAND_NONE;
}

/* Is the command refused to a client of this namespace? An empty name: the client has no namespace. */
static inline bool command_is_walled(const struct command *command, struct bytes namespace_name)
{
    return command->flags & CMD_OPERATOR && namespace_name.len > 0;
}

static inline bool command_arity_ok(const struct command *command, uint32_t argc)
{
    return argc - command->made.args_min <= command->made.args_span;
}

/* KEYS, SCAN, DBSIZE, FLUSHDB …: concerns the keys of all shards, and inside MULTI and scripts one shard can run it for all
 * (backend/keyspace/borrow_all.h). */
static inline bool command_uses_all_keys(const struct command *command)
{
    return command->traits & TRAIT_WHOLE || command->route == ROUTE_CURSOR;
}

/* Number of arguments before the command that the row runs (TRAIT_PREFIX); 0 for other rows. */
static inline uint32_t command_prefix_argc(const struct command *command)
{
    return command->traits & TRAIT_PREFIX ? (uint32_t)-command->arity - 1 : 0;
}

/* The command that the calling thread runs, or ran last, for crash reports (crash.h); NULL: none yet. */
extern _Thread_local const struct command *command_at_hand;

/* Lower case: "get", "client|kill". */
static inline const char *command_full_name(const struct command *command)
{
    return command->full_name;
}

/* Writes `name` in capitals ("NO-EVICT") with a zero byte; truncates a name that does not fit. */
void command_upper(const char *name, char *to, size_t size);

/* The error in the reply of EXEC for a command with TRAIT_NOT_IN_EXEC; NULL: the command runs there. */
const char *command_exec_error(const struct command *command);

const char *command_group_name(enum command_group group); /* "sorted-set" */
const char *command_route_name(enum command_route route); /* "by-key" */
const char *command_merge_name(enum command_merge merge); /* "all-ok" */
/* Names of one bit: "denyoom", "string", "RO"; NULL for a bit that COMMAND does not print. */
const char *command_flag_name(enum command_flags flag);
const char *command_acl_name(enum command_acl category);
const char *key_flag_name(enum key_flags flag);
/* Fills in the row's tips, words that inform clients and proxies about routing; returns their number. */
uint32_t command_tips(const struct command *command, struct bytes tips[COMMAND_TIPS_MAX]);

/* Reply errors with Redis' texts. */
void command_error_unknown(struct reply *reply, const struct bytes *argv, uint32_t argc);
void command_error_unknown_sub(struct reply *reply, const struct command *container,
                               struct bytes sub);
void command_error_arity(struct reply *reply, const struct command *command);
/* Replies the error for a request for which command_find_argv() returned NULL: unknown command, or subcommand. */
void command_error_not_found(struct reply *reply, const struct bytes *argv, uint32_t argc);
