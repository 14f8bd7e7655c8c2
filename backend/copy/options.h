/*
 * options.h - the arguments of scree-copy.
 *
 *   scree-copy [run|check|verify] --from rdb:FILE --to scree://[user@]host:port[/db] [options]
 *   scree-copy [run|check|verify] --from kvrocks:DIR [--namespace NAME] --to …
 *   scree-copy [run|check|verify] --from scree://[user@]host:port --to redis://[user@]host:port [options]
 *   scree-copy [run|check] --from backup:DIR[,DIR…] [--namespace NAME] --to rdb:FILE [options]
 *   scree-copy [run] --from redis://[user@]host:port --to scree://[user@]host:port --spool DIR [options]
 *   scree-copy [run] --from sentinel://[user@]host:port[,host:port…]/name --to …
 *   scree-copy [run] --from cluster://[user@]host:port[,host:port…] --to …
 *
 * The user is that of AUTH: an ACL user, or a namespace. Passwords come from the environment (FROM_PASSWORD, TO_PASSWORD), so that no list of processes
 * shows them. With sentinel:// the user and FROM_PASSWORD are those of the servers; those of the Sentinels are SENTINEL_USER and SENTINEL_PASSWORD.
 */
#pragma once

#include "shared/bytes.h"

enum {
    COPY_GLOBS_MAX = 64,
    COPY_DBS_MAX = 64,
    COPY_ADDRESS_MAX = 512,
    COPY_LANES_MAX = 64,
    COPY_SEEDS_MAX = 16
};

enum copy_command { COPY_RUN, COPY_CHECK, COPY_VERIFY, COPY_CUTOVER };
/* What is read, unless it is a server. */
enum copy_origin { ORIGIN_RDB, ORIGIN_KVROCKS, ORIGIN_BACKUP };
/* What happens to keys that the target has already. */
enum copy_existing { EXISTING_REPLACE, EXISTING_KEEP, EXISTING_REFUSE };

struct cluster_slots;

/* Servers that are asked where the source is: Sentinels, or nodes of a Redis Cluster. */
struct copy_seeds {
    unsigned count; /* 0: the source has one address */
    char all[COPY_SEEDS_MAX][COPY_ADDRESS_MAX];
    char name[COPY_ADDRESS_MAX]; /* of the master */
    const char *user;            /* at the Sentinels; empty: none */
    const char *password;        /* likewise */
    bool is_cluster;
    /* The source is the master that has these; NULL: it is not one of several. */
    const struct cluster_slots *slots;
};

struct copy_target {
    bool is_null;         /* null: nothing is sent */
    bool needs_no_select; /* database 0 is meant, or none */
    const char *file;     /* behind rdb:; NULL: the target is a server */
    uint64_t rdb_version; /* of that file */
    bool is_secure;
    char user[COPY_ADDRESS_MAX];    /* empty: none */
    char address[COPY_ADDRESS_MAX]; /* host:port */
    const char *password;           /* empty: none */
    int64_t db;                     /* -1: as in the source */
    struct copy_seeds seeds;        /* address is the first of these, until the source was found */
};

/* Patterns of keys. */
struct copy_globs {
    struct bytes all[COPY_GLOBS_MAX];
    unsigned count;
};

/* Which databases are copied, and into which. */
struct copy_dbs {
    uint64_t from[COPY_DBS_MAX];
    uint64_t to[COPY_DBS_MAX];
    unsigned count; /* 0: all, each into its own */
};

struct copy_tls {
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
};

struct copy_options {
    enum copy_command command;
    const char *file;        /* behind rdb:, kvrocks: or backup:; NULL: the source is a server */
    enum copy_origin origin; /* what it is */
    const char *space;       /* the namespace that is copied; NULL: the only one that has keys */
    /* A server: redis://, sentinel://, cluster:// or scree://, each with s behind its word for TLS. */
    struct copy_target from;
    bool is_from_scree;
    bool is_to_redis;
    const char *spool;   /* of a live copy: a folder */
    const char *session; /* its name */
    uint64_t pause_ms;   /* of cutover */
    bool follows;        /* it goes on until it is stopped */
    struct copy_target to;
    struct copy_dbs dbs;
    struct copy_globs match;
    struct copy_globs skip;
    struct bytes strip; /* a prefix of keys that is removed; keys without it are not copied */
    struct bytes add;   /* a prefix that is put before keys */
    enum copy_existing existing;
    bool has_existing; /* it was given */
    bool has_functions;
    uint64_t rate_bytes; /* per second; 0: no limit */
    unsigned lanes;
    struct copy_tls tls;
    bool is_json;
    bool is_quiet;
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };
/* Prints help, the version or what is wrong, unless it is OPTIONS_RUN. */
enum options_result options_parse(int argc, char **argv, struct copy_options *options);
