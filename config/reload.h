/*
 * reload.h - the configuration of a running proxy, read from all its files, as one immutable snapshot.
 *
 *   proxy.ini ──┬─► config                    ┐
 *               └─► namespaces, listeners     ├─► struct proxy_snapshot ──► every worker
 *   shards.ini ─────► map                     │        (references)
 *   aclfile ────────► users                   │
 *   TLS files ──────► tls, upstream_tls       ┘
 *
 * A reload reads all files again and checks them together. After an error the old snapshot stays, and the reason is one
 * line. Options that need a restart keep their old values, and the report names them.
 *
 * ACL SETUSER changes users too; its changes are kept until a reload finds another text in the aclfile. requirepass is
 * the password of the user "default" unless the aclfile gives it one.
 */
#pragma once

#include "config/config.h"
#include "shared/acl/acl.h"
#include "shared/digest.h"
#include "shared/namespace.h"
#include "shared/shard_map.h"
#include "shared/tls.h"

enum { RELOAD_TEXT_MAX = 1024, RELOAD_MOVES_MAX = 512 };

struct proxy_snapshot {
    _Atomic uint32_t refs;
    struct proxy_config config;
    char *shards_path;      /* of config.shards, resolved from the directory of the file */
    struct shard_map *wish; /* shards.ini */
    /* by which requests are routed: the wish, with the owners that backends have told */
    struct shard_map *map;
    uint64_t routes_version; /* of these owners (proxy/core/routes.h); 0: none were merged */
    struct namespaces *namespaces;
    struct acl *users;
    struct tls_context *tls;           /* of TLS listeners; NULL: there are none */
    struct tls_context *upstream_tls;  /* of connections to backends; NULL: without TLS */
    char *users_path;                  /* of config.aclfile, resolved likewise; NULL: none */
    char users_digest[SHA256_HEX_LEN]; /* SHA-256 of the aclfile when it was last read or saved */
};

/* What a reload did; the lists are option keys separated by spaces. */
struct reload_report {
    bool map_changed;
    unsigned slots_moved;         /* number of slots whose shard has changed */
    char moves[RELOAD_MOVES_MAX]; /* text of map_change_print() */
    bool namespaces_changed;
    bool users_changed;
    bool tls_changed; /* certificates, keys or authorities */
    char changed[RELOAD_TEXT_MAX];
    char needs_restart[RELOAD_TEXT_MAX]; /* options whose new values need a restart */
};

/* Reads proxy.ini and all files that it names. NULL: one line in error[size]. */
struct proxy_snapshot *snapshot_load(const char *path, char *error, size_t size);
/* A snapshot of this config and map, without aclfile and TLS. Copies `config`; takes over the reference of `map`. */
struct proxy_snapshot *snapshot_make(const struct proxy_config *config, struct shard_map *map,
                                     char *error, size_t size);
/* A snapshot with another config (for CONFIG SET), and the wish and users of `old`; its map is the wish. */
struct proxy_snapshot *snapshot_with_config(const struct proxy_snapshot *old,
                                            const struct proxy_config *config, char *error,
                                            size_t size);
/* A snapshot with other users; takes over their reference. */
struct proxy_snapshot *snapshot_with_users(const struct proxy_snapshot *old, struct acl *users);
/* A snapshot with the users of the aclfile (for ACL LOAD), even if its text has not changed. NULL: the reason is in
 * error[size]. The configuration must name an aclfile. */
struct proxy_snapshot *snapshot_load_users(const struct proxy_snapshot *old, char *error,
                                           size_t size);
/* Writes the users to the aclfile. Returns a snapshot with the digest of the new text; NULL: errno says why. */
struct proxy_snapshot *snapshot_save_users(const struct proxy_snapshot *old);
struct proxy_snapshot *snapshot_ref(struct proxy_snapshot *snapshot);
/* NULL is allowed. */
void snapshot_unref(struct proxy_snapshot *snapshot);
/* Reads the files of `old` again: a new snapshot, and in *report what has changed. NULL: the old snapshot stays in force,
 * one line in error[size]. A map with a lower epoch than the old one is refused, and one with the same epoch and other slots. */
struct proxy_snapshot *snapshot_reload(const struct proxy_snapshot *old,
                                       struct reload_report *report, char *error, size_t size);

/* Sets what moves when one map replaces another. */
void reload_report_moves(struct reload_report *report, const struct shard_map *before,
                         const struct shard_map *after);

/* The new value of the option needs a restart. */
void reload_report_restart(struct reload_report *report, const char *option);

/* For the backend: reads the file again, and sets in `config` the options that may change at run time. False: unchanged,
 * the reason is in error[size]. */
bool backend_reload(struct backend_config *config, struct reload_report *report, char *error,
                    size_t size);
