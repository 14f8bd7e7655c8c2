/*
 * latency_reply.h - replies of LATENCY about events, shared by both programs.
 */
#pragma once

#include "shared/command/latency.h"
#include "shared/reply.h"

/* A row of LATENCY LATEST. */
struct latency_latest {
    struct bytes name;
    struct latency_sample last;
    uint64_t max_ms;
};
void latency_reply_latest(const struct latency_latest *rows, uint32_t count, struct reply *reply);
/* Fills in one row per event that has samples; returns the number of rows. */
uint32_t latency_latest(const struct latency *latency, struct latency_latest rows[LATENCY_KINDS]);
/* LATENCY HISTORY; `event` NULL: there is no such event. */
void latency_reply_history(const struct latency_event *event, struct reply *reply);
/* LATENCY GRAPH: one line per sample with its age, its duration, and a bar. */
void latency_print_graph(const struct latency_event *event, uint64_t now_s, struct out *out);
enum { LATENCY_ERROR_MAX = 256 };
/* The error of GRAPH when the event has no samples. */
void latency_no_samples(struct bytes name, char error[LATENCY_ERROR_MAX]);
/* The text of LATENCY DOCTOR. */
void latency_print_doctor(const struct latency *latency, bool is_on, struct out *out);
