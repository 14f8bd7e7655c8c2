/*
 * stored_options.h - the values that CONFIG SET through a proxy has given to options and parameters of all shards.
 *
 *   CONFIG SET ─► proxy ── SCREE OPTIONS SET version name value … ──► every partition: a row per name (option_row.h)
 *                                                                         │
 *   start, before the first request ◄── rows of all partitions of the process
 *   first slot of a new shard       ◄── rows of the shard that it comes from (MOVE_BEGIN, with the function libraries)
 *
 * A stored option comes before the value in the configuration file, also when the file is read again. Of two values of a name
 * that with the higher version counts; at equal versions the greater text. So all shards that got the same changes, in any
 * order, have the same values.
 *
 * Names are canonical: the key of an option, or the name of a parameter that is no option. So "timeout" and "idle-timeout"
 * are one stored option.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct config_snapshot;
struct overlay;
struct process;

struct stored_option {
    char *name;
    char *value;
    uint64_t version;
};

struct stored_options {
    struct stored_option *items;
    uint32_t count;
};

void stored_options_fini(struct stored_options *stored);
void stored_options_copy(struct stored_options *to, const struct stored_options *from);
/* Adds or replaces a value. False: there is a newer one, and nothing was changed. */
bool stored_options_put(struct stored_options *stored, struct bytes name, struct bytes value,
                        uint64_t version);
/* The highest version; 0: there are no stored options. */
uint64_t stored_options_version(const struct stored_options *stored);
/* A version higher than all of these, and than those given out earlier by clocks that do not differ much. */
uint64_t stored_options_next_version(const struct stored_options *stored);

/* Sets an option or parameter of a private snapshot as config_snapshot_set does, and keeps the value as a stored option. Nothing
 * changes if there is a newer one. False: reason in error[size]. */
bool stored_options_set(struct config_snapshot *snapshot, struct bytes name, struct bytes value,
                        uint64_t version, char *error, size_t size);
/* Gives a private snapshot the values of its stored options again, after the configuration file was read. */
void stored_options_apply(struct config_snapshot *snapshot);
/* For CONFIG REWRITE: makes stored options of the parameters that were set, and gives stored options the values that are in force. */
void stored_options_keep(struct config_snapshot *snapshot, uint64_t version);

/* Adds the rows of a partition. False: they cannot be read. */
bool stored_options_read(struct stored_options *stored, struct overlay *overlay);
/* Writes the rows of the stored options with this version. */
void stored_options_write(const struct stored_options *stored, uint64_t version,
                          struct overlay *overlay, struct arena *arena);
/* Puts those in force that are newer than the stored options of the process. */
void stored_options_adopt(struct process *process, const struct stored_options *found);
/* As stored_options_adopt, with the rows of a partition, which have come from another shard. */
void stored_options_adopt_rows(struct process *process, struct overlay *overlay);
