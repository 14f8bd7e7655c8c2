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
 * A config belongs to one owner; who shares one between threads shares an immutable copy.
 */
#pragma once

#include "config/option.h"

#include <stdio.h>

enum durability { DURABILITY_ALWAYS, DURABILITY_EVERYSEC, DURABILITY_OS };
enum cross_slot { CROSS_SLOT_SHARD, CROSS_SLOT_STRICT };
enum acl_channels { ACL_CHANNELS_NONE, ACL_CHANNELS_ALL };
enum rate_action { RATE_ERROR, RATE_DELAY };
enum compression { COMPRESSION_NONE, COMPRESSION_LZ4, COMPRESSION_ZSTD };
/* log_level is enum log_level of shared/log.h. */

#define CONFIG_MEMBER_INT(field)       int field;
#define CONFIG_MEMBER_BYTES(field)     uint64_t field##_bytes;
#define CONFIG_MEMBER_MS(field)        uint64_t field##_ms;
#define CONFIG_MEMBER_BOOL(field)      bool field;
#define CONFIG_MEMBER_ENUM(field)      int field;
#define CONFIG_MEMBER_OCTAL(field)     uint32_t field;
#define CONFIG_MEMBER_STRING(field)    char *field;
#define CONFIG_MEMBER_ADDRESS(field)   char *field;
#define CONFIG_MEMBER_ADDRESSES(field) char *field;
#define CONFIG_MEMBER_SLOT_RULE(field) char *field;
#define CONFIG_MEMBER_HOURS(field)     char *field;

struct config_schema;

struct config {
    const struct config_schema *schema;
    char *path; /* the file it was loaded from, or NULL */
};

/* [namespace NAME]: a namespace, or a pattern of names (shared/glob.h). */
struct namespace_config {
    char *name;
    int line;         /* where the section starts; 0: not from a file */
    int include_line; /* where the included file opens it again; 0: it does not */
#define OPTION(kind, field, ...)
#define NAMESPACE_OPTION(kind, field, ...) CONFIG_MEMBER_##kind(field)
#define LISTENER_OPTION(kind, field, ...)
#include "config/proxy_options.def"
#undef OPTION
#undef NAMESPACE_OPTION
#undef LISTENER_OPTION
};

/* [listener NAME]: a further address, bound to a namespace. */
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

/* Fills `config`, which is a proxy_config or a backend_config as the schema says, with the defaults. */
void config_init_defaults(struct config *config, const struct config_schema *schema);
void config_fini(struct config *config);
/* `to` is uninitialised memory of the same type. */
void config_copy(struct config *to, const struct config *from);
/* Reads a file, and the one it includes, over the values that are there. false: error[size] says "file:line: what was
 * expected", and `config` holds a mixture that is only good for config_fini. */
bool config_load(struct config *config, const char *path, char *error, size_t size);
/* One file from memory, nothing included; `path` is only for messages and relative paths. */
bool config_parse(struct config *config, const char *path, struct bytes text, char *error,
                  size_t size);

/* The path of the file it includes, for free(); NULL: none. */
char *config_included_path(const struct config *config);

/* One option by its key ("upstream-timeout"; case ignored), NULL when there is none. */
const struct option *config_find(const struct config *config, struct bytes key);
/* Walks the options whose key matches the glob pattern: *cursor starts at 0; NULL at the end. */
const struct option *config_next(const struct config *config, struct bytes pattern, size_t *cursor);
/* The value in force, borrowed from `buffer` or from `config`. */
struct bytes config_get(const struct config *config, const struct option *option,
                        char buffer[OPTION_TEXT_MAX]);
/* Sets one option, checked as in a file. false: unchanged, reason in error[size]. Whether an option may
 * change while running is the caller's question: option->reload. */
bool config_set(struct config *config, const struct option *option, struct bytes value, char *error,
                size_t size);

/* Prints the values in force as a commented file that config_load reads back. */
void config_print(const struct config *config, FILE *to);
/* Prints docs/configuration.md: all options of both programs. */
void config_print_docs(FILE *to);

/* Walks the options that differ: *cursor starts at 0; NULL at the end. Namespaces and listeners are
 * compared by snapshot_reload. */
const struct option *config_diff(const struct config *a, const struct config *b, size_t *cursor);
/* Takes over `from`'s value of one option. */
void config_keep(struct config *to, const struct config *from, const struct option *option);
