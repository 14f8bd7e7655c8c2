/*
 * status.h - the status page: one HTML page on the admin port, and the document it draws once a second.
 *
 *   GET /, /status ─► page.html ─► its style and scripts               in the program (files.c), no data in them
 *   GET /status.json ─► gather.c: every worker's share ─┐
 *                       survey.c: health, keys          ├─► document.c ─► JSON, the same for all who ask in REUSE_MS
 *                       peers.c: other proxies' epochs ─┘
 *   GET /status/self ─► what other proxies' peers.c asks
 *
 * Read-only. On the HTTP thread unless said otherwise.
 */
#pragma once

#include "shared/net/http.h"
#include "shared/slot.h"

struct proxy;
struct proxy_snapshot;
struct proxy_worker;

enum { REUSE_MS = 700 };

struct status {
    struct proxy *proxy;
    struct gatherer *gatherer;
    struct survey *survey;
    struct peers *peers; /* NULL: none are configured */
    char *document;      /* the last one; NULL: none yet */
    size_t document_len;
    uint64_t document_us;             /* when it was made; monotonic */
    uint64_t counted_us;              /* when slot_totals were taken; 0: never */
    uint32_t counted_shares;          /* from how many workers */
    uint32_t slot_totals[SLOT_COUNT]; /* over all workers, modulo 2^32 */
    uint32_t slot_rates[SLOT_COUNT];  /* a second, between the last two documents */
    uint64_t interval_us;             /* between those; 0: there is only one */
};

/* Main thread, when the workers run; freed when they and the HTTP server have ended. */
struct status *status_new(struct proxy *proxy);
void status_free(struct status *status); /* NULL is allowed */
/* The page, a file of it or a document; the table of admin paths knows no others. `status` NULL: the proxy starts. */
void status_answer(struct status *status, const struct proxy_snapshot *snapshot, const char *path,
                   struct http_reply *reply);
/* Of every worker, once a second. */
void status_slow(struct status *status, struct proxy_worker *worker);

/* ---- among the files of this room ---- */

/* One of the page's files: its bytes and type; false: there is none. files.c */
struct status_file {
    const char *path;
    const char *content_type;
    const char *data;
    const char *end;
};
const struct status_file *status_file_find(const char *path);
/* Writes the JSON of what the workers told. document.c */
void document_write(struct status *status, const struct proxy_snapshot *snapshot,
                    uint32_t late_workers, struct out *out);
