/*
 * status.h - the status page: one HTML page on the admin port, and the document it draws once a second.
 *
 *   GET /, /status ─► page.html ─► its style and scripts               in the program (files.c), no data in them
 *   GET /status.json ─► gather.c: every worker's share ─┐
 *                       survey.c: health                │
 *                       slot_survey.c: owners, moves    ├─► document.c ─► JSON, cached for REUSE_MS
 *                       peers.c: other proxies' epochs ─┘
 *   GET /status/namespaces.json ─► all namespaces, while the page searches for one
 *   GET /status/history.json ─► recent.c: plots of the last minutes
 *   GET /status/self ─► run id, version and epoch: other proxies poll it (peers.c)
 *
 * Read-only. On the HTTP thread unless said otherwise.
 */
#pragma once

#include "shared/net/http.h"
#include "shared/slot.h"

struct json_writer;
struct proxy;
struct proxy_snapshot;
struct proxy_worker;

enum { REUSE_MS = 700 };

struct status {
    struct proxy *proxy;
    struct gatherer *gatherer;
    struct survey *survey;
    struct slot_survey *slot_survey;
    struct recent *recent;
    struct peers *peers;              /* NULL: none are configured */
    struct bytes document;            /* the last one, from malloc; data NULL: none yet */
    uint64_t document_us;             /* when it was made; monotonic */
    uint64_t counted_us;              /* when slot_totals were summed; 0: never */
    uint32_t counted_shares;          /* number of workers in the sum */
    uint32_t slot_totals[SLOT_COUNT]; /* over all workers, modulo 2^32 */
    uint32_t slot_rates[SLOT_COUNT];  /* requested keys per second between the last two documents */
    uint64_t interval_us;             /* time between those documents; 0: there is only one */
};

/* On the main thread, while the workers run; freed after they and the HTTP server have ended. */
struct status *status_new(struct proxy *proxy);
void status_free(struct status *status); /* NULL is allowed */
/* Answers a path below /status. `status` NULL: the proxy is starting. */
void status_answer(struct status *status, const struct proxy_snapshot *snapshot, const char *path,
                   struct http_reply *reply);
/* Once a second on every worker. */
void status_slow(struct status *status, struct proxy_worker *worker);

/* ---- internal to proxy/status ---- */

/* One file of the page: bytes and type. False: there is none. files.c */
struct status_file {
    const char *path;
    const char *content_type;
    const char *data;
    const char *end;
};
const struct status_file *status_file_find(const char *path);
/* Resident memory of this process. document.c */
uint64_t status_resident_bytes(void);
/* Writes the JSON document of the gathered shares. document.c */
void document_write(struct status *status, const struct proxy_snapshot *snapshot,
                    uint32_t late_workers, struct out *out);
enum { NAME_SHOWN = 120 /* longest name, key or argument in the document */ };
/* Writes at most `max` namespaces as members of the present object, those with most clients first. namespaces.c */
void document_write_some_namespaces(const struct status *status,
                                    const struct proxy_snapshot *snapshot, size_t max,
                                    struct json_writer *json);
/* Writes a document of all namespaces. namespaces.c */
void document_write_namespaces(const struct status *status, const struct proxy_snapshot *snapshot,
                               struct out *out);
