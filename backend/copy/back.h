/*
 * back.h - keeps a Redis or Valkey equal to Scree, by the change stream (docs/change-stream.md).
 *
 *   SCREE CHANGES READ token ─► a page: keys that have changed ─► DUMP, PEXPIRETIME ─► MULTI; UNLINK, RESTORE …; HSET row; EXEC ─► target
 *                                       a slot was emptied     ─► SCAN of the target: which of these keys does Scree have?
 *                                       libraries ─► FUNCTION DUMP ─► FUNCTION RESTORE
 *
 * A key is copied as it is when it is read, not as the event says, so copying a page twice is harmless. The row, a hash
 * scree-copy:back:SESSION in database 0 of the target, says up to where everything is there:
 *
 *   token       pages up to this one are in the target, and what could not be copied is counted. A page's token is written with the
 *               changes of the next page, or alone when there are none: only then the replies to its changes have been read
 *   refused     keys and libraries that could not be copied, since the copy began
 *   generation  of the tool: each start and each new connection raises it, and each transaction watches it. So of two tools, or of a tool
 *               and what it sent before it was killed, only the newest can change anything
 *   owner       a random number of the process that raised the generation. A tool that connects anew and finds another owner has been
 *               replaced, and ends; else the older one would take the session back
 *   selection   a digest of which databases and keys are copied: with another one the copy cannot go on
 *
 * The row is in the target's dataset: if the target loses its last changes, by a crash, it has an older token, too, and the copy goes on
 * from there.
 */
#pragma once

#include "backend/copy/live_select.h"
#include "backend/copy/report.h"
#include "backend/copy/wire.h"
#include "shared/slot.h"

enum { BACK_ROW_NAME_MAX = 100, BACK_OWNER_MAX = 17, BACK_RETRY_MS = 60 * 1000 };

/* A key that is copied. */
struct back_key {
    uint64_t from;      /* its database at the source */
    uint64_t to;        /* and in the target */
    struct bytes key;   /* its name at the source */
    struct bytes name;  /* and in the target */
    int64_t size;       /* about so many bytes; -1: it does not exist */
    struct bytes value; /* what DUMP has replied; empty: it does not exist, or was refused */
    int64_t until_ms;   /* -1: it does not expire */
};

struct back_keys {
    struct back_key *all;
    size_t count;
    size_t room;
};

/* What one call of READ has replied. */
struct back_page {
    struct bytes frame; /* owned; keys lie in it */
    struct arena arena; /* for names in the target */
    struct back_keys keys;
    bool must_sweep; /* the target may have keys that the source does not have any more */
    struct bytes token;
    int64_t lag_ms;
    bool begins_anew; /* the next page is the first one again */
    bool has_functions;
};

struct back_row {
    bool exists;
    char *token; /* owned */
    uint64_t generation;
    uint64_t refused;
    char selection[SELECTION_NAME_LEN + 1];
    char owner[BACK_OWNER_MAX];
};

struct back {
    const struct copy_options *options;
    struct loop *loop;
    struct wire source;
    struct wire target;
    struct selector selector;
    struct back_row row; /* its token is that of the last page that is whole */
    bool is_row_old;     /* the target's row is an older one */
    uint64_t row_ms;     /* when it was written */
    char row_name[BACK_ROW_NAME_MAX];
    char owner[BACK_OWNER_MAX]; /* this process */
    struct copy_report report;
    struct back_changes {
        const struct back_key **keys; /* of each command in the transaction; NULL: of none */
        size_t count;
        size_t room;
        uint64_t db; /* selected */
    } changes;
    bool is_connected;
    bool has_entered;       /* at least once */
    bool has_begun;         /* a page was copied */
    uint64_t refused_first; /* row.refused before this run */
    uint64_t dbs_known;     /* the target has the databases below this one */
    bool is_at_end;         /* the last page was empty, and there was nothing more to read */
    uint64_t failing_ms;    /* when the first error came since something was copied; 0: none has */
    size_t reached;         /* keys of the page that were copied at best, in all its attempts */
    bool is_stopped;        /* by a signal */
    enum copy_exit exit;
};

enum copy_exit back_run(const struct copy_options *options);

/* ---- inside of back*.c ---- */

/* Ends the run with a sentence; the first call counts. Returns false. */
bool back_fail(struct back *back, enum copy_exit code, const char *what, const char *reason);

/* These return false if a wire has failed, or the run has ended: then the page is read again. */

/* Reads the next page. */
bool back_read_page(struct back *back, struct back_page *page);
void back_free_page(struct back_page *page);
/* Adds a key of the source, if it is selected. */
void back_add_key(struct back *back, struct back_keys *keys, struct arena *arena, uint64_t db,
                  struct bytes key);
/* Copies the page's keys; and its libraries. */
bool back_copy_keys(struct back *back, struct back_keys *keys);
bool back_copy_functions(struct back *back);
/* What that is made of, and back_verify, too. Asks for the sizes of keys; says where the group that begins with `first` ends, which is small
 * enough to be read at once; reads values, of keys whose size is not -1: these are valid until the wire is used again. */
bool back_ask_sizes(struct back *back, struct back_keys *keys);
size_t back_group_end(const struct back_keys *keys, size_t first);
bool back_read_values(struct wire *wire, struct back_key *keys, size_t count);
/* Compares every key. */
bool back_verify(struct back *back);
/* Deletes keys that the source does not have. */
bool back_sweep(struct back *back);

/* Names of keys, read by SCAN. */
struct back_scan {
    uint64_t db;           /* of the server that is read */
    struct bytes cursor;   /* in the arena; "0": all were read */
    struct arena arena;    /* of the names */
    struct back_keys keys; /* of the last reply */
};
void back_scan_init(struct back_scan *scan);
void back_scan_fini(struct back_scan *scan);
/* Reads on: keys of the source that are selected; keys of the target that come from such ones. */
bool back_scan_source(struct back *back, struct back_scan *scan);
bool back_scan_target(struct back *back, struct back_scan *scan);
/* Leaves the keys that the source does not have. */
bool back_keep_missing(struct back *back, struct back_keys *keys);

/* Looks at the target before the first change. */
bool back_check_target(struct back *back);
/* Begins or goes on with the session. */
bool back_enter(struct back *back);
/* The row has this token from now on; it is copied. */
void back_take_token(struct back *back, struct bytes token);
/* A transaction: begins, takes commands, and is executed with the row. */
bool back_begin(struct back *back);
void back_put(struct back *back, uint64_t db, const struct back_key *key, const struct bytes *words,
              uint32_t count);
bool back_commit(struct back *back);
/* Calls the function for each database of the target that has keys and is one that the copy writes, until it returns false. */
typedef bool back_db_fn(struct back *back, uint64_t db, void *owner);
bool back_each_db(struct back *back, back_db_fn *on_db, void *owner);
/* The same for each database of the source that is copied, also if it has no keys. */
bool back_each_source_db(struct back *back, back_db_fn *on_db, void *owner);
