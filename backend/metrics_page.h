/*
 * metrics_page.h - the page /metrics of the admin port, made on the HTTP thread.
 *
 * Counters come from the partitions' cells (backend_metrics.h); figures of the stores (levels, files, WAL) are
 * read while the page is made.
 */
#pragma once

struct http_reply;

/* http_route; `visit` is the server. */
void metrics_page(void *visit, struct http_reply *reply);
