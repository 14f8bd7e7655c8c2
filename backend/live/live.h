/*
 * live.h - copies a running Redis or Valkey, and every change after it, each exactly once.
 *
 *   source ─► thread (live_source.h) ─► spool: full copy ─► copy_run() ─┐
 *                                       stream ─► batches ─► MULTI … HSET row … EXEC ─► target
 *
 * The row, a hash scree-copy:live:SESSION in database 0 of the target, says what the target has. Each batch changes it in the same
 * transaction as the data, so the target is at any time what the source was at some moment, and a stopped copy goes on behind it.
 *
 *   phase       load: the full copy is being written; follow: then the stream is
 *   id, offset  the source's history, and how far the target has it; db: the database selected there
 *   generation  of the tool: each start raises it. The row is WATCHed from before the generation is read to EXEC, so of two tools, or
 *               of a tool and what it sent before it was killed, only the newest can change anything
 *   refused     how many commands could not be copied since the copy began, and one more if keys of the full copy could not: then the
 *               source is not given up
 *   spool       of the tool that loads: another one cannot go on with its full copy
 *   selection   a digest of which databases and keys are copied: with another one the copy cannot go on
 *   slots       of a master of a cluster (live_cluster.h): the sum of its slots; with other ones the copy cannot go on
 */
#pragma once

#include "backend/copy/lanes.h"
#include "backend/live/live_batch.h"
#include "backend/live/live_source.h"

enum {
    LIVE_ERROR_MAX = 700,
    LIVE_ROW_NAME_MAX = 100,
    LIVE_SPOOL_ID_MAX = 120,
    LIVE_SLOTS_LEN = 16
};

/* The row. */
struct live_row {
    bool exists;
    bool is_load;
    struct source_point point;
    uint64_t db;
    uint64_t generation;
    uint64_t refused;
    char spool[LIVE_SPOOL_ID_MAX];
    char selection[SELECTION_NAME_LEN + 1];
    char slots[LIVE_SLOTS_LEN + 1];
};

/* When the stream has been applied far enough. */
enum live_end {
    LIVE_NEVER,
    LIVE_SILENT,   /* nothing is missing, and the source has been silent for a second */
    LIVE_TOGETHER, /* another thread says so, by is_released: it looks at all sources of a cluster */
    LIVE_CAUGHT_UP, /* nothing is missing at this moment */
    LIVE_POSITION,  /* up to goal.point; until goal.until_ms, else it has failed */
};

struct live_goal {
    enum live_end end;
    struct source_point point;
    uint64_t until_ms;
};

struct live {
    const struct copy_options *options;
    struct copy_options target; /* options of the connection to the target: one lane */
    struct spool spool;
    struct live_source *source;
    struct live_row row; /* as it is in the target */
    char row_name[LIVE_ROW_NAME_MAX];
    char spool_id[LIVE_SPOOL_ID_MAX];
    struct live_read {
        char *data;
        size_t len;
        size_t room;
    } read; /* bytes of the stream behind row.point */
    struct batch batch;
    struct live_link {
        struct loop *loop;
        struct lanes *lanes;
        bool is_ready;
        bool is_broken;
        bool is_given_up;    /* replies have not come in time */
        struct timer *timer; /* until then */
        struct bytes reply;  /* to the last call; owned */
        size_t queued;       /* replies to commands in MULTI that have come */
        bool has_refused;    /* of these, some commands that the target does not accept */
        /* The first of these whose error was ERR, plus one: it may be the target's. */
        size_t unclear;
        bool has_failed;      /* a command had another error */
        bool is_rate_limited; /* the last error was RATELIMIT: tokens come again with time */
        struct bytes exec;    /* reply to EXEC; owned */
        char error[LIVE_ERROR_MAX];
    } link; /* to the target */
    struct live_goal goal;
    struct copy_report report;
    uint64_t commands;
    uint64_t left_out;
    uint64_t shown_ms;
    uint64_t shown_commands;
    bool is_stopped;          /* by a signal, or: */
    _Atomic bool is_ended;    /* by another thread: another source of the cluster has failed */
    _Atomic bool is_released; /* by another thread: nothing is missing of any source */
    struct live_shown {
        _Atomic uint64_t lag;
        _Atomic uint64_t commands;
        _Atomic uint64_t refused;
        _Atomic uint64_t position;    /* the target has everything up to there */
        _Atomic bool has_been_silent; /* for a second, and nothing was missing then */
    } shown;                          /* progress, for another thread */
    enum copy_exit exit;
};

enum copy_exit live_run(const struct copy_options *options);

/* ---- for copies of several sources (live_cluster.c) ---- */

/* A live copy of one source, in the loop of its own. Free it in any case; it has failed if exit is not EXIT_DONE. */
struct live *live_new(const struct copy_options *options);
void live_free(struct live *live);
/* Begins in one of the three ways. */
bool live_begin(struct live *live);
/* The same for the first time, in steps: is the target good; ask for the full copy; wait for it; the row that says that it is there. */
bool live_target_is_ready(struct live *live);
bool live_first_ask(struct live *live);
bool live_first_receive(struct live *live);
void live_first_row(const struct live *live, struct live_row *row);
/* Writes the full copy into the target, if that is not done yet. */
bool live_load(struct live *live);
/* Applies the stream until the end that the options want, or is_ended. */
void live_follow(struct live *live);

/* ---- inside of live*.c ---- */

/* Ends the run with a sentence; the first call counts. Returns false. */
bool live_fail(struct live *live, enum copy_exit code, const char *what, const char *reason);
/* The link has no connection yet, and waits in this loop. */
void live_link_init(struct live *live, struct loop *loop);
void live_link_fini(struct live *live);
/* These return false if the connection to the target has failed; link.error says why. */
bool live_connect(struct live *live);
void live_disconnect(struct live *live);
/* Sends a command and waits for its reply, which is in link.reply; an error is a failure. */
bool live_call(struct live *live, const struct bytes *words, uint32_t count);
/* Waits until all replies have come. */
bool live_await(struct live *live);
/* Reads the row. */
bool live_read_row(struct live *live, struct live_row *row);
/* Connects, watches the row and reads it. */
bool live_enter(struct live *live, struct live_row *row);
/* Writes the row with the next generation, if it is still as live_enter has read it; else !*taken. */
bool live_take_over(struct live *live, const struct live_row *row, bool *taken);
/* Raises the generation of a row that another tool may be changing all the time: from then on that tool cannot. Reads the row. */
bool live_seize(struct live *live, struct live_row *row);
/* Watches the row, asks for its generation, and begins a transaction: each batch is sent when the replies to these have come, so that a
 * command is never executed outside of a transaction. live_is_open says whether the replies were good. */
void live_open_transaction(struct live *live);
bool live_is_open(const struct live *live);
/* The words HSET row … for the row. */
enum { ROW_WORDS = 20 };
struct row_words {
    struct bytes all[ROW_WORDS];
    char numbers[4][24];
};
void live_row_words(const struct live *live, const struct live_row *row, struct row_words *words);
/* Shows progress, at most once a second. */
void live_progress(struct live *live, const char *verb, uint64_t end);
/* Applies the stream until the goal is reached, or the run ends. */
void live_apply(struct live *live);
/* Has the target what the source had at goal.point? A position alone says nothing: after a failover another history has it, too. */
bool live_has_goal(const struct live *live, const struct source_state *state);
/* Ends the live copy: the source refuses writes, and the target has all of them. Otherwise the source goes on as before. */
void live_cut_over(struct live *live);
