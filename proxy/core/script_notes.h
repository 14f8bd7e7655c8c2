/*
 * script_notes.h - which shards recently had which scripts in their caches, for one worker. Used by scripts.h.
 */
#pragma once

#include "shared/error_code.h"

#include <stdint.h>
#include <string.h>

enum { SCRIPT_NOTES = 1024 };

/* What a script or function declares (script_flags.h); declared_flags.c. */
enum { DECLARED_NOTES = 256 };
struct declared_note {
    uint64_t hash; /* of namespace, kind and name; 0: none */
    /* monotonic: then it is asked for again, because a function may have been replaced */
    uint64_t until_ms;
    uint32_t flags;
};

/* Initially all bytes are zero. */
struct script_notes {
    uint64_t epoch; /* proxy->scripts_epoch when they were written */
    /* Hashes of namespace, shard and SHA-1, at index hash % SCRIPT_NOTES; 0: empty. */
    uint64_t known[SCRIPT_NOTES];
    struct declared_note declared[DECLARED_NOTES];
};

/* The notes may be wrong: a shard was lost, or a second has passed. */
static inline void script_notes_clear(struct script_notes *notes)
{
    memset(notes->known, 0, sizeof notes->known);
}

/* A shard replied to EVALSHA. If it does not have the script, the notes are wrong. */
static inline void script_notes_check(struct script_notes *notes, const char *reply, size_t len)
{
    if (error_has_code((struct bytes){reply, len}, "NOSCRIPT"))
        script_notes_clear(notes);
}
