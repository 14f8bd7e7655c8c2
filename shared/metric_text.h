/*
 * metric_text.h - Prometheus' text format, line by line.
 *
 *   metric_head(out, "scree_x_total", "counter", "What it counts.");
 *   metric_label(labels, "shard", name);  metric_number(out, "scree_x_total", labels, 7);
 */
#pragma once

#include "shared/out.h"

struct tls_context;

enum { METRIC_LABELS_MAX = 1100 };

void metric_head(struct out *out, const char *name, const char *type, const char *help);
/* Adds a label to `labels`, which is "" at first. Invalid bytes are replaced, so the text is valid UTF-8. */
void metric_label(char labels[METRIC_LABELS_MAX], const char *name, struct bytes value);
/* Adds the version and the commit of the program, and the id of its run: those that *_build_info begins with. */
void metric_label_build(char labels[METRIC_LABELS_MAX], const char *run_id);
void metric_number(struct out *out, const char *name, const char *labels, uint64_t value);
void metric_double(struct out *out, const char *name, const char *labels, double value);
/* Writes a gauge without labels, including its head. */
void metric_gauge(struct out *out, const char *name, const char *help, double value);
/* Writes process_*, the standard names for CPU time, memory and descriptors, and the allocator's figures. */
void metric_process(struct out *out);
/* Writes when the certificates that the program presents to clients and to backends expire. A context that is NULL
 * or has no certificate is left out. */
void metric_certificates(struct out *out, const char *name, const struct tls_context *clients,
                         const struct tls_context *backends);
