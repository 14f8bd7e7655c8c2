/*
 * reload.h - everything a proxy is told from outside, as one immutable snapshot.
 *
 *   proxy.ini ──┬─► config                    ┐
 *               └─► namespaces, listeners     ├─► struct proxy_snapshot ──► every worker
 *   shards.ini ─────► map                     │        (references)
 *   aclfile ────────► users                   │
 *   TLS files ──────► tls, upstream_tls       ┘
 *
 * A reload reads all files anew and checks them together; with any error the old snapshot stays and the
 * reason is one line. Options that need a restart keep the value in force, and the report names them.
 *
 * Users change by ACL SETUSER too: what it did stays until the text of the aclfile is another one. requirepass
 * is the password of the user "default", which the aclfile may give another.
 */
#pragma once

#include "config/config.h"
#include "shared/acl.h"
#include "shared/digest.h"
#include "shared/namespace.h"
#include "shared/shard_map.h"
#include "shared/tls.h"

enum { RELOAD_TEXT_MAX = 1024 };

struct proxy_snapshot {
    _Atomic uint32_t refs;
    struct proxy_config config;
    char *shards_path; /* config.shards, made relative to the file's directory */
    struct shard_map *map;
    struct namespaces *namespaces;
    struct acl *users;
    struct tls_context *tls;           /* of addresses that speak TLS; NULL: there is none */
    struct tls_context *upstream_tls;  /* NULL: backends are spoken to plainly */
    char *users_path;                  /* config.aclfile as shards_path is; NULL: none */
    char users_digest[SHA256_HEX_LEN]; /* of the aclfile's text that `users` began with */
};

/* What a reload did; the lists are option keys separated by spaces. */
struct reload_report {
    bool map_changed;
    bool namespaces_changed;
    bool users_changed;
    bool tls_changed; /* certificates, keys or authorities */
    char changed[RELOAD_TEXT_MAX];
    char needs_restart[RELOAD_TEXT_MAX]; /* changed in the file, not in force */
};

/* Reads proxy.ini and the shard map it names. NULL: one line in error[size]. */
struct proxy_snapshot *snapshot_load(const char *path, char *error, size_t size);
/* The same with the config and the map given: for tests. Takes over the reference of `map`, not `config`. */
struct proxy_snapshot *snapshot_make(const struct proxy_config *config, struct shard_map *map,
                                     char *error, size_t size);
/* The same but for the config (CONFIG SET), whose map and users stay. */
struct proxy_snapshot *snapshot_with_config(const struct proxy_snapshot *old,
                                            const struct proxy_config *config, char *error,
                                            size_t size);
/* The same but for the users; takes over the reference. */
struct proxy_snapshot *snapshot_with_users(const struct proxy_snapshot *old, struct acl *users);
/* The same but for the users, which are read from the aclfile even when its text has not changed. NULL: the
 * reason in error[size]. There must be an aclfile. */
struct proxy_snapshot *snapshot_load_users(const struct proxy_snapshot *old, char *error,
                                           size_t size);
/* Writes the users to the aclfile: the same snapshot, but for the digest. NULL: errno says why. */
struct proxy_snapshot *snapshot_save_users(const struct proxy_snapshot *old);
struct proxy_snapshot *snapshot_ref(struct proxy_snapshot *snapshot);
/* NULL is allowed. */
void snapshot_unref(struct proxy_snapshot *snapshot);
/* A new snapshot from old's files, with what changed in *report; NULL: the old one stays. A map whose epoch
 * is lower than the one in force is refused. */
struct proxy_snapshot *snapshot_reload(const struct proxy_snapshot *old,
                                       struct reload_report *report, char *error, size_t size);

/* The backend's part of the same idea: reads the file again and sets in `config` the options that may
 * change while running. false: unchanged, reason in error[size]. */
bool backend_reload(struct backend_config *config, struct reload_report *report, char *error,
                    size_t size);
