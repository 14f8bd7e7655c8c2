/*
 * metrics_page.h - the page /metrics, and the gauges that are brought up to date for it once a second.
 */
#pragma once

struct http_reply;
struct proxy_worker;

/* Once a second, on the worker's thread. */
void metrics_page_set_gauges(struct proxy_worker *worker);
/* http_route: /metrics. `visit` is a struct admin_visit. On the HTTP thread. */
void metrics_page_print(void *visit, struct http_reply *reply);
