/*
 * snapshot_join.h - the files of snapshots of one copy: it fetches them from its leader, and as a leader it gives them to copies that lack
 * records which its log does not have any more.
 *
 *   learner   announcement ─► is the second link up? ─► snapshot_target.h ─► replica_fetched ─► the files are installed
 *   leader    SNAPSHOT_BEGIN ─► is it a member, is it not too early? ─► cut ─► snapshot_source.h ─► replica_snapshot_sent
 *
 *   cut:  a cursor holds the log ─► flush ─► checkpoint, as of record S ─► the term of S
 *
 * The cursor holds back the records after S until the other copy has them in its own log: if they were trimmed it would need another
 * snapshot, and so on. It lets go when the disk has little room, when the copy is no member any more, and some time after a fetch.
 *
 * A copy that cannot fetch, or that cannot install what it has fetched, asks again and again. Each time costs the leader a flush, a
 * checkpoint and the reading of all files, so a leader makes cuts for one copy at growing intervals until its log has caught up.
 *
 * All functions, if nothing else is said, on the thread of the replica, or while that does not run.
 */
#pragma once

#include "backend/replica/replica.h"

struct snapshot_join;

struct snapshot_join_options {
    struct loop *loop;       /* of the replica's thread */
    struct storage *storage; /* used until snapshot_join_free */
    const char *dir;         /* of the data: files are fetched to, and gathered, beside it */
    uint32_t index;          /* of the partition, for the log */
    uint64_t rate;           /* bytes a second that are sent; 0: no limit */
    uint64_t free_min;       /* with fewer free bytes on the disk no records are held back */
};

struct snapshot_join *snapshot_join_new(const struct snapshot_join_options *options);
/* Waits for the disk. After replica_stop, or after replica_free; before the storage is closed. NULL is allowed. */
void snapshot_join_free(struct snapshot_join *join);
/* For replica_options. */
struct replica_snapshots snapshot_join_table(struct snapshot_join *join);
/* The replica that has the table. Before its thread runs. */
void snapshot_join_use(struct snapshot_join *join, struct replica *replica);

struct snapshot_join_figures {
    uint64_t to;          /* id of the copy that files are given to; 0: none */
    uint64_t sent, total; /* bytes of these files */
    bool is_fetching;
    uint64_t fetched, wanted; /* bytes of the files that are fetched; 0: not known yet */
};

/* As of a moment ago. Any thread. */
void snapshot_join_figures(struct snapshot_join *join, struct snapshot_join_figures *to);
