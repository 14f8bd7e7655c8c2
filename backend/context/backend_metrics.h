/*
 * backend_metrics.h - metrics of the backend by command, partition, namespace and shard (metric_labels.h).
 *
 *   partition's thread: cell_add(partition->metrics.cell, PARTITION_…, 1)  ─►  own words ◄── HTTP thread: metrics_page
 *
 * A command that is suspended runs again, and suspend.c does not restore cells, so what a handler adds to one may count twice.
 */
#pragma once

#include "shared/metric_labels.h"
#include "shared/metrics.h"

struct partition;

enum { METRICS_SPACES_MAX = 4096, METRICS_SPACES_SHOWN = 50 };

enum partition_word {
    PARTITION_COMMIT_SECONDS = 0, /* from closing a batch until its replies may be sent */
    PARTITION_SYNC_SECONDS = 1 * HISTOGRAM_WORDS,   /* write and fsync of the WAL */
    PARTITION_BATCH_COMMANDS = 2 * HISTOGRAM_WORDS, /* commands that wrote */
    PARTITION_BATCH_BYTES = 3 * HISTOGRAM_WORDS,    /* bytes written */
    PARTITION_TURN_SECONDS = 4 * HISTOGRAM_WORDS,   /* duration of a turn of the event loop */
    PARTITION_LOCK_SECONDS = 5 * HISTOGRAM_WORDS,   /* that a transaction has held locks */
    PARTITION_FREEZE_SECONDS = 6 * HISTOGRAM_WORDS, /* that slots were frozen at a time */
    /* time during which nothing was read from clients because the open batch was full */
    PARTITION_STALL_US = 7 * HISTOGRAM_WORDS,
    PARTITION_KEYS,
    PARTITION_CLIENTS,
    PARTITION_READONLY,
    PARTITION_RANGE_HITS,
    PARTITION_RANGE_MISSES,
    PARTITION_ROW_HITS,
    PARTITION_ROW_MISSES,
    PARTITION_BLOCK_HITS,
    PARTITION_BLOCK_READS,
    PARTITION_LOCKED_KEYS,
    PARTITION_EXPIRY_DUE,
    PARTITION_EXPIRY_LAG_MS,
    PARTITION_TRANSACTIONS_OPEN,
    PARTITION_TRANSACTIONS_DECIDED,
    PARTITION_TRANSACTIONS_JOINED,
    PARTITION_TRANSACTIONS_IN_DOUBT,
    PARTITION_BACKUP_SUCCESS_MS,
    PARTITION_BACKUP_FAILED,
    PARTITION_BACKUP_DURATION_MS,
    PARTITION_BACKUP_BYTES,
    PARTITION_SLOTS_OWNED,
    PARTITION_SLOTS_WANTED,   /* that the shard map gives to the partition */
    PARTITION_SLOTS_TO_SEND,  /* owned, and not wanted */
    PARTITION_SLOTS_TO_GET,   /* wanted, and not owned */
    PARTITION_SLOTS_ORPHANED, /* of these, those that no other shard owns */
    PARTITION_IS_ELSEWHERE,   /* the map has its shard at another address */
    PARTITION_SLOTS_MOVING,   /* being copied, at either side */
    PARTITION_COPIES,         /* members of its group; 0: its data have one copy */
    PARTITION_COPIES_UP,      /* of these, those that are connected, itself too */
    PARTITION_COPY_SERVES,
    PARTITION_COPY_IS_IDLE, /* it neither serves nor follows, or has not caught up yet */
    PARTITION_COPY_BEHIND, /* records that it, or the slowest one that follows it, has not applied */
    PARTITION_COPY_LAG_MS,       /* for how long that has been so */
    PARTITION_COPY_PAUSED_MS,    /* for how long it adds no records still (copy_pause.h) */
    PARTITION_COPIES_UNREADABLE, /* copies that lack a record which cannot be read here */
    PARTITION_COPIES_DIFFERENT,  /* whose rows are others, or cannot be read (compare.h) */
    PARTITION_COPIES_SPARE, /* connected copies that may be lost: then the shard still serves */
    PARTITION_COPY_TERM,
    PARTITION_COPY_LEADS,      /* times that it began to serve */
    PARTITION_COPY_CHANGES,    /* times that it has heard of a new leader */
    PARTITION_ARCHIVE_MS,      /* up to this time the archive has all batches; wall clock */
    PARTITION_ARCHIVE_STOPPED, /* it cannot be written */
    PARTITION_ARCHIVE_BYTES,
    PARTITION_ARCHIVE_GAPS,
    PARTITION_MEMORY_CLIENTS,
    PARTITION_MEMORY_BATCHES,
    PARTITION_MEMORY_RANKS,
    PARTITION_MEMORY_RANGES,
    PARTITION_MEMORY_ROWS,
    PARTITION_WORDS,
};

enum space_word { SPACE_KEYS, SPACE_EXPIRES, SPACE_WORDS };

/* Of the links to another shard: of each partition one cell. */
enum link_word {
    LINK_ROUND_TRIP_SECONDS = 0, /* of STATUS requests */
    LINK_COUNT = HISTOGRAM_WORDS,
    LINK_IS_UP,
    LINK_WORDS,
};

struct backend_metrics {
    struct labels *commands;
    struct labels *partitions;
    struct labels *spaces;
    struct labels *links;
};

/* Why transactions over several shards were not executed: METRIC_BACKEND_FAILED_… in metrics.def. */
struct transaction_failure {
    enum metric metric;
    const char *reason; /* label of the metric */
};

enum { TRANSACTION_FAILURES = 6 };

extern const struct transaction_failure transaction_failures[TRANSACTION_FAILURES];

void backend_metrics_init(struct backend_metrics *labelled);
void backend_metrics_fini(struct backend_metrics *labelled);
struct metric_cell *backend_metrics_partition(struct backend_metrics *labelled, uint32_t index);
