/*
 * config.h - the configuration of each program: one struct, made from the rows of its .def file.
 *
 *   proxy_options.def   ─► struct proxy_config, proxy_schema
 *   backend_options.def ─► struct backend_config, backend_schema
 *
 * Members are named after the row's field; the kind adds the unit: MS gives field_ms (milliseconds),
 * BYTES gives field_bytes (see option.h). For example
 *
 *   proxy->upstream_timeout_ms   proxy->client_output_limit_bytes   proxy->workers   proxy->listen
 *
 * Both begin with a `struct config`, which the functions below take: config_load(&proxy->head, …).
 * A config has no lock: one thread uses it, or several threads read an immutable copy (reload.h).
 */
#pragma once

#include "config/option.h"
#include "shared/zone.h" /* of options of the kind ZONE */

#include <stdio.h>

enum durability { DURABILITY_ALWAYS, DURABILITY_EVERYSEC, DURABILITY_OS };
enum cross_slot { CROSS_SLOT_ANY, CROSS_SLOT_SHARD, CROSS_SLOT_STRICT };
enum acl_channels { ACL_CHANNELS_NONE, ACL_CHANNELS_ALL };
enum rate_action { RATE_ERROR, RATE_DELAY };
enum compression { COMPRESSION_NONE, COMPRESSION_LZ4, COMPRESSION_ZSTD };
enum replicas { REPLICAS_NO, REPLICAS_YES, REPLICAS_VOTERS };
enum replica_reads { REPLICA_READS_NO, REPLICA_READS_STALE, REPLICA_READS_FRESH };
enum backup_from { BACKUP_FROM_LEADER, BACKUP_FROM_COPY };
/* The option log-level uses enum log_level of shared/log.h. */

#define CONFIG_MEMBER_INT(field)        int field;
#define CONFIG_MEMBER_BYTES(field)      uint64_t field##_bytes;
#define CONFIG_MEMBER_AUTO_BYTES(field) uint64_t field##_bytes;
#define CONFIG_MEMBER_MS(field)         uint64_t field##_ms;
#define CONFIG_MEMBER_BOOL(field)       bool field;
#define CONFIG_MEMBER_ENUM(field)       int field;
#define CONFIG_MEMBER_OCTAL(field)      uint32_t field;
#define CONFIG_MEMBER_STRING(field)     char *field;
#define CONFIG_MEMBER_ADDRESS(field)    char *field;
#define CONFIG_MEMBER_ADDRESSES(field)  char *field;
#define CONFIG_MEMBER_SLOT_RULE(field)  char *field;
#define CONFIG_MEMBER_HOURS(field)      char *field;
#define CONFIG_MEMBER_HOST(field)       char *field;
#define CONFIG_MEMBER_ZONE(field)       char *field;

struct config_schema;

struct config {
    const struct config_schema *schema;
    char *path; /* the file that was loaded; NULL: none */
};

/* [namespace NAME]: a namespace, or a pattern of names (shared/glob.h). */
struct namespace_config {
    char *name;
    int line;         /* where the section begins; 0: not from a file */
    int include_line; /* where the section begins in the included file; 0: it is not there */
#define OPTION(kind, field, ...)
#define NAMESPACE_OPTION(kind, field, ...) CONFIG_MEMBER_##kind(field)
#define LISTENER_OPTION(kind, field, ...)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};

/* [listener NAME]: an additional address, bound to a namespace. */
struct listener_config {
    char *name;
    int line;
    int include_line;
#define OPTION(kind, field, ...)
#define NAMESPACE_OPTION(kind, field, ...)
#define LISTENER_OPTION(kind, field, ...) CONFIG_MEMBER_##kind(field)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};

struct proxy_config {
    struct config head;
#define OPTION(kind, field, ...) CONFIG_MEMBER_##kind(field)
#define NAMESPACE_OPTION(kind, field, ...)
#define LISTENER_OPTION(kind, field, ...)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
    struct namespace_config *namespaces; /* in the order of the file */
    size_t namespace_count;
    struct listener_config *listeners;
    size_t listener_count;
};

struct backend_config {
    struct config head;
#define OPTION(kind, field, ...) CONFIG_MEMBER_##kind(field)
#include "config/backend_options.def"
#undef OPTION
};

extern const struct config_schema proxy_schema;
extern const struct config_schema backend_schema;

/* Fills `config` with the defaults. It is the head of a proxy_config or a backend_config, depending on the schema. */
void config_init_defaults(struct config *config, const struct config_schema *schema);
void config_fini(struct config *config);
/* `to` is uninitialised, and of the same type as `from`. */
void config_copy(struct config *to, const struct config *from);
/* Reads a file, and the file that it includes; their values replace those in `config`. False: error[size] says
 * "file:line: what was expected", and `config`, which may hold some of the new values, must be freed (config_fini). */
bool config_load(struct config *config, const char *path, char *error, size_t size);
/* Parses the text of one file, and reads no included file. `path` is only used in messages and to resolve relative
 * paths. */
bool config_parse(struct config *config, const char *path, struct bytes text, char *error,
                  size_t size);

/* The path of the file that the option `include` names; the caller frees it. NULL: none. */
char *config_included_path(const struct config *config);

/* The option with this key, such as "upstream-timeout"; case is ignored. NULL: none. */
const struct option *config_find(const struct config *config, struct bytes key);
/* Iterates over the options whose keys match the glob pattern: starts with *cursor = 0, returns NULL at the end. */
const struct option *config_next(const struct config *config, struct bytes pattern, size_t *cursor);
/* The value in force, borrowed from `buffer` or from `config`. */
struct bytes config_get(const struct config *config, const struct option *option,
                        char buffer[OPTION_TEXT_MAX]);
/* Sets one option, with the same checks as for a file. False: unchanged, the reason is in error[size]. The caller checks
 * option->reload: whether the option may change at run time. */
bool config_set(struct config *config, const struct option *option, struct bytes value, char *error,
                size_t size);

/* Prints the values as a commented file that config_load can read. */
void config_print(const struct config *config, FILE *to);
/* Prints docs/configuration.md: all options of both programs. */
void config_print_docs(FILE *to);

/* Iterates over the options that differ: starts with *cursor = 0, returns NULL at the end. Namespaces and listeners are
 * not compared here but by snapshot_reload. */
const struct option *config_diff(const struct config *a, const struct config *b, size_t *cursor);
/* Copies the value of one option. */
void config_keep(struct config *to, const struct config *from, const struct option *option);
