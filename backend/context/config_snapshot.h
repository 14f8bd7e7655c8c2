/*
 * config_snapshot.h - the configuration that CONFIG SET and a reload can change, as an immutable snapshot.
 *
 *   server ──owns──► snapshot (epoch 3) ◄──reference── partition 0
 *                    snapshot (epoch 2) ◄──reference── partition 1, until it compares epochs
 *
 * A change is made on a private copy, which the server publishes (process.h); every partition compares epochs before it runs
 * requests, and switches to the new snapshot. It contains the backend's options (config/) and Redis 7.0's parameters
 * (parameter.h).
 */
#pragma once

#include "backend/context/output_limit.h"
#include "backend/context/parameter.h"
#include "backend/context/stored_options.h"
#include "config/config.h"
#include "config/memory_plan.h"
#include "shared/acl/acl.h"
#include "shared/command/slowlog.h"
#include "shared/shard_map.h"
#include "shared/tls.h"

struct config_snapshot {
    _Atomic uint32_t refs;
    uint64_t epoch;
    struct backend_config config;
    struct memory_plan memory;       /* the sizes of caches and buffers in force */
    char *parameters[PARAMETER_MAX]; /* by index in the parameter table; NULL: the default */
    struct stored_options stored; /* of all shards: their values are in `config` and `parameters` */

    struct tls_context *tls;      /* of tls-port; NULL: none */
    struct tls_context *peer_tls; /* of connections to other backends; NULL: plain */
    struct shard_map *map;        /* of the file that `shards` names; NULL: none */
    struct acl *acl;              /* users; shared with other snapshots until one is changed */
    char *acl_password;           /* requirepass when the users were last derived; NULL: never */

    /* copies of parameters[] for the hot path */
    /* µs or bytes from which a command is logged, negative: off; and the number of entries that a log keeps */
    int64_t slowlog_from[SLOWLOG_KINDS];
    int64_t slowlog_len_max[SLOWLOG_KINDS];
    unsigned notify_classes; /* enum notify_class */
    struct output_limit output_limits[OUTPUT_CLASSES];
    int64_t tracking_keys_max;    /* 0: no limit */
    int64_t latency_threshold_ms; /* 0: off */
    int64_t busy_reply_ms;        /* busy-reply-threshold */
    int64_t stream_node_entries;  /* 0: no limit */
    int64_t stream_node_bytes;
    int64_t maxmemory; /* 0: no limit */
    bool latency_tracking;
    bool protected_mode;
};

struct config_snapshot *config_snapshot_new(const struct backend_config *config);
/* A copy with one reference, the same values and the next epoch. */
struct config_snapshot *config_snapshot_copy(const struct config_snapshot *snapshot);
struct config_snapshot *config_snapshot_ref(struct config_snapshot *snapshot);
void config_snapshot_unref(struct config_snapshot *snapshot);

/* Must clients log in, because the default user has a password or is off? */
bool config_snapshot_needs_password(const struct config_snapshot *snapshot);
/* The users of a private snapshot, for changes. */
struct acl *config_snapshot_acl_edit(struct config_snapshot *snapshot);
/* Reads the TLS files if tls-port is set or peer-tls is yes. False: the reason is in error[size]. */
bool config_snapshot_load_tls(struct config_snapshot *snapshot, char *error, size_t size);
/* Reads the users' file, if one is configured. False: the reason is in error[size]. */
bool config_snapshot_load_users(struct config_snapshot *snapshot, char *error, size_t size);
/* Reads the shard map, if one is configured. False: the reason is in error[size], and the map in force stays. */
bool config_snapshot_load_map(struct config_snapshot *snapshot, char *error, size_t size);
/* acl-pubsub-default: may new users use all channels? */
bool config_snapshot_all_channels(const struct config_snapshot *snapshot);

/* Computes the other members from `config` and `parameters`; to be called after changes of these. */
void config_snapshot_derive(struct config_snapshot *snapshot);
/* The value of a parameter that is a number or a size, by Redis' name, e.g. "hash-max-listpack-entries". */
int64_t config_snapshot_number(const struct config_snapshot *snapshot, const char *name);
/* A value as CONFIG GET shows it, borrowed from `buffer` or the snapshot. */
struct bytes config_snapshot_get(const struct config_snapshot *snapshot,
                                 const struct parameter *parameter, char buffer[OPTION_TEXT_MAX]);
/* Sets a parameter or an option by the name that clients use. False: unchanged, with the reason in error[size]. */
bool config_snapshot_set(struct config_snapshot *snapshot, struct bytes name, struct bytes value,
                         char *error, size_t size);
/* True when there is a parameter or option of this name. */
bool config_snapshot_has_option(const struct config_snapshot *snapshot, struct bytes name);
/* Is this option a path, which clients may not change? The name must be known. */
bool config_snapshot_is_path(const struct config_snapshot *snapshot, struct bytes name);
/* Does a change of this option need a restart? The name must be known. */
bool config_snapshot_is_fixed(const struct config_snapshot *snapshot, struct bytes name);
