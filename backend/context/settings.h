/*
 * settings.h - what CONFIG SET and a reload can change, as one immutable snapshot.
 *
 *   server ──owns──► settings (epoch 3) ◄──reference── partition 0
 *                    settings (epoch 2) ◄──reference── partition 1, until its next look
 *
 * A change is made on a private copy and published by the server (process.h); every partition compares epochs
 * before it runs requests and takes the new snapshot. Holds our own options (config/) and Redis 7.0's
 * parameters (parameter.h), of which most are only remembered.
 */
#pragma once

#include "backend/context/output_limit.h"
#include "backend/context/parameter.h"
#include "config/config.h"
#include "shared/acl.h"
#include "shared/tls.h"

struct settings {
    _Atomic uint32_t refs;
    uint64_t epoch;
    struct backend_config config;
    char *parameters[PARAMETER_MAX]; /* by place in the parameter table; NULL: the default */

    struct tls_context *tls; /* of tls-port; NULL: none */
    struct acl *acl;         /* users; shared with other settings until one is changed */
    char *acl_password; /* the requirepass that the default user has; NULL: not looked at yet */

    /* taken from parameters[] for the hot path */
    int64_t slowlog_slower_than_us; /* negative: off */
    int64_t slowlog_len_max;
    unsigned notify_classes; /* enum notify_class */
    struct output_limit output_limits[OUTPUT_CLASSES];
    int64_t tracking_keys_max;    /* 0: no limit */
    int64_t latency_threshold_ms; /* 0: off */
    int64_t stream_node_entries;  /* 0: no limit, as with bytes */
    int64_t stream_node_bytes;
    bool latency_tracking;
    bool protected_mode;
};

struct settings *settings_new(const struct backend_config *config);
/* One reference, the same values, the next epoch. */
struct settings *settings_copy(const struct settings *settings);
struct settings *settings_ref(struct settings *settings);
void settings_unref(struct settings *settings);

/* Must a client say who it is, because the default user has a password or is off? */
bool settings_needs_password(const struct settings *settings);
/* The users of private settings, to be changed. */
struct acl *settings_acl_edit(struct settings *settings);
/* Reads the TLS files, when there is a tls-port. False: the reason in error[size]. */
bool settings_load_tls(struct settings *settings, char *error, size_t size);
/* Reads the users' file, if there is one configured. False: the reason in error[size]. */
bool settings_load_users(struct settings *settings, char *error, size_t size);
/* acl-pubsub-default: may new users use all channels? */
bool settings_all_channels(const struct settings *settings);

/* Takes over what other parts are made of, when config or parameters were changed from outside. */
void settings_settle(struct settings *settings);
/* A parameter's number by Redis' name, e.g. "hash-max-listpack-entries"; it must be one of numbers or sizes. */
int64_t settings_number(const struct settings *settings, const char *name);
/* A value as CONFIG GET shows it, borrowed from `buffer` or from the settings. */
struct bytes settings_get(const struct settings *settings, const struct parameter *parameter,
                          char buffer[OPTION_TEXT_MAX]);
/* Sets by the name clients use: a parameter or an own option that is not fixed. false: unchanged, reason in
 * error[size]. */
bool settings_set(struct settings *settings, struct bytes name, struct bytes value, char *error,
                  size_t size);
/* Is there a parameter or an own option of this name? */
bool settings_knows(const struct settings *settings, struct bytes name);
/* One that is known: does it name a file, which clients may not choose? */
bool settings_is_path(const struct settings *settings, struct bytes name);
/* One that is known: can it not be changed while running? */
bool settings_is_fixed(const struct settings *settings, struct bytes name);
