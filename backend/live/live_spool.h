/*
 * live_spool.h - files that hold what the source has sent, until the target has it.
 *
 *   DIR/scree-copy.SESSION.lock                 one tool at a time
 *   DIR/scree-copy.SESSION.rdb                  the full copy (.part while it arrives)
 *   DIR/scree-copy.SESSION.acl                  rules of the source's users, before a cut-over; of several servers: SESSION.HOST:PORT.acl
 *   DIR/scree-copy.SESSION.fence                while that has not ended: the rules are in force again after it, if it fails; likewise
 *   DIR/scree-copy.SESSION.00000000000000812345 stream behind position 812345, SPOOL_SEGMENT_BYTES and more; then the next one
 *
 *   source ─ spool_add ─► … │ segment │ segment ─ spool_read ─► target; spool_drop removes segments that it has
 *            (its thread)                         (main thread)
 *
 * So the source never waits for the target, and does not drop a slow replica. A position counts the bytes of the source's replication
 * stream, as the source does.
 */
#pragma once

#include "shared/bytes.h"

#include <sys/types.h>

enum { SPOOL_PATH_MAX = 4096, SPOOL_ERROR_MAX = 512, SPOOL_SEGMENT_BYTES = 64 * 1024 * 1024 };

struct spool {
    const char *folder;
    const char *session;
    int lock;
    int rdb;                      /* that is being received; -1: none */
    int write;                    /* segment that is being written; -1: none */
    _Atomic uint64_t write_start; /* its first position; UINT64_MAX: none */
    uint64_t write_at;            /* position of its end */
    int read;                     /* segment that is being read; -1: none */
    uint64_t read_start;          /* its first position */
    char path[SPOOL_PATH_MAX];    /* of the full copy */
    char error[SPOOL_ERROR_MAX];
};

/* These return false if something failed: `error` says what. */
bool spool_open(struct spool *spool, const char *folder, const char *session);
void spool_close(struct spool *spool);
/* A number that this spool, and no other, has: 32 hexadecimal digits. */
bool spool_number(struct spool *spool, char number[33]);
/* Receive a full copy. The one before is replaced when all is on disk. */
bool spool_rdb_begin(struct spool *spool);
bool spool_rdb_add(struct spool *spool, struct bytes data);
bool spool_rdb_end(struct spool *spool);
bool spool_has_rdb(const struct spool *spool);
/* Removes the full copy and all segments. */
void spool_clear(struct spool *spool);
/* The rules that the users of a server of the source had before a cut-over; the server is HOST:PORT, or empty if there is one only. Keep
 * them when it begins; read those of one that has not ended (malloc; NULL: there was none). When it ends they stay, for people; or they
 * are removed. */
void spool_rules_path(const struct spool *spool, const char *server, char path[SPOOL_PATH_MAX]);
bool spool_keep_rules(struct spool *spool, const char *server, const char *text);
char *spool_rules(const struct spool *spool, const char *server);
void spool_end_rules(const struct spool *spool, const char *server);
void spool_drop_rules(const struct spool *spool, const char *server);
/* Has a cut-over with this spool not ended? Then writes the path of its rules. */
bool spool_is_fenced(const struct spool *spool, char rules[SPOOL_PATH_MAX]);
/* Writes segments from this position on; those that begin before it stay. */
void spool_begin(struct spool *spool, uint64_t position);
bool spool_add(struct spool *spool, struct bytes data);
/* The position of the end of the newest segment; `position` if there is none. */
uint64_t spool_end(struct spool *spool, uint64_t position);
/* Reads bytes behind the position: how many; 0: the spool has none; -1: an error. */
ssize_t spool_read(struct spool *spool, uint64_t position, char *to, size_t room);
/* Removes segments that end at the position or before it. */
void spool_drop(struct spool *spool, uint64_t position);
