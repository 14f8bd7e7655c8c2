/*
 * local_latency.c - LATENCY of the proxy and all shards together.
 *
 *   HISTOGRAM        the shards' histograms added up: time spent executing, without network and queues; and of the commands
 *                    that the proxy answers itself (own_calls.h)
 *   LATEST, HISTORY  events of the proxy (times of requests as clients measure them) and of all shards; for each
 *   GRAPH            second the longest time
 *   DOCTOR           the report of the proxy, then the report of each shard
 *   RESET            resets the proxy and every shard
 *
 * If a shard does not answer, HISTOGRAM and RESET fail; other replies are sent without its part.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/node.h"
#include "proxy/core/own_calls.h"
#include "proxy/core/proxy.h"
#include "proxy/core/slow_log.h"
#include "proxy/local/local.h"
#include "shared/command/command_reply.h"
#include "shared/command/latency_reply.h"
#include "shared/table.h"

#include <stdlib.h>

enum { NAMES_MAX = 64, STEPS_MAX = 64 };

static struct slow_log *latency_journal(const struct client *client)
{
    return client->worker->proxy->slow_log;
}

/* Sends the unchanged request to every shard. */
static void ask_latency(struct request *request, request_done_fn *done)
{
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request), done);
}

/* Reads an array's or a map's header at *pos: number of elements or pairs; -1: another type, or no reply. */
static int64_t read_array_length(const struct shard_reply *answer, size_t *pos)
{
    struct resp_value value;
    if (answer->is_failure || !resp_value_next(answer->frame, pos, &value) || value.is_null)
        return -1;
    return value.type == '*' || value.type == '%' ? value.count : -1;
}

static bool read_int(const struct shard_reply *answer, size_t *pos, uint64_t *number)
{
    struct resp_value value;
    if (!resp_value_next(answer->frame, pos, &value) || value.type != ':')
        return false;
    *number = (uint64_t)value.count;
    return true;
}

/* ---- HISTOGRAM -------------------------------------------------------------------------------- */

/* The histogram of one command, summed over the shards. Each step counts the runs above the end of the step before. */
struct tally {
    struct bytes name; /* of the command; borrowed from a shard's reply */
    uint64_t calls;
    uint32_t count;
    struct {
        uint64_t upper_us;
        uint64_t runs;
    } steps[STEPS_MAX];
};

/* Adds runs to the step with this upper end; inserts the step, in order, if it is missing. */
static void add_runs(struct tally *tally, uint64_t upper_us, uint64_t runs)
{
    uint32_t at = 0;
    while (at < tally->count && tally->steps[at].upper_us < upper_us)
        at++;
    if (at == tally->count || tally->steps[at].upper_us != upper_us) {
        if (tally->count == STEPS_MAX)
            return;
        memmove(&tally->steps[at + 1], &tally->steps[at],
                (tally->count - at) * sizeof tally->steps[0]);
        tally->count++;
        tally->steps[at].upper_us = upper_us;
        tally->steps[at].runs = 0;
    }
    tally->steps[at].runs += runs;
}

static struct tally *tally_of(struct table *tallies, struct bytes name)
{
    struct tally *tally = table_get(tallies, name);
    if (!tally) {
        tally = calloc(1, sizeof *tally);
        CHECK(tally);
        tally->name = name;
        (void)table_put(tallies, name, tally);
    }
    return tally;
}

/* Adds one command's {"calls": n, "histogram_usec": {upper end: runs up to it, …}} of a shard. */
static bool add_histogram(const struct shard_reply *answer, size_t *pos, struct tally *tally)
{
    struct resp_value word;
    uint64_t calls;
    uint64_t before = 0;
    if (read_array_length(answer, pos) < 0 || !resp_value_next(answer->frame, pos, &word) ||
        !read_int(answer, pos, &calls) || !resp_value_next(answer->frame, pos, &word) ||
        !resp_value_next(answer->frame, pos, &word))
        return false;
    tally->calls += calls;
    for (int64_t i = word.type == '%' ? word.count : word.count / 2; i > 0; i--) {
        uint64_t upper_us;
        uint64_t so_far;
        if (!read_int(answer, pos, &upper_us) || !read_int(answer, pos, &so_far))
            return false;
        add_runs(tally, upper_us, so_far - before);
        before = so_far;
    }
    return true;
}

/* Adds all commands of a shard's reply. False: the reply is no histogram. */
static bool add_shard(const struct shard_reply *answer, struct table *tallies)
{
    size_t pos = 0;
    struct resp_value name;
    int64_t count = read_array_length(answer, &pos);
    if (count < 0)
        return false;
    for (count = answer->frame.data[0] == '%' ? count : count / 2; count > 0; count--)
        if (!resp_value_next(answer->frame, &pos, &name) ||
            !add_histogram(answer, &pos, tally_of(tallies, name.text)))
            return false;
    return true;
}

/* Is the command, or its container, among the names that the client gave? Without names all are. */
static bool is_asked_for(const struct request *request, const struct command *command)
{
    const struct bytes *argv = request_argv(request);
    for (uint32_t i = 2; i < request_argc(request); i++)
        if (bytes_is(argv[i], command->full_name) ||
            (command->parent && bytes_is(argv[i], command_of(command->parent)->full_name)))
            return true;
    return request_argc(request) == 2;
}

/* Adds the calls that the proxy has answered itself. */
static void add_own(const struct client *client, const struct request *request,
                    struct table *tallies)
{
    struct own_sums sums;
    if (client->session.keyspace->name.len > 0) /* a namespace sees nothing of the process */
        return;
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of(id);
        if (!is_asked_for(request, command) ||
            !own_calls_read(client->worker->proxy->labelled.own, id, &sums) || !sums.calls)
            continue;
        struct tally *tally = tally_of(tallies, bytes_of(command->full_name));
        tally->calls += sums.calls;
        for (unsigned step = 0; step < HISTOGRAM_BUCKETS; step++)
            if (sums.words[OWN_STEPS + step])
                add_runs(tally, own_step_end_us(step), sums.words[OWN_STEPS + step]);
    }
}

static void reply_tally(const struct tally *tally, struct reply *reply)
{
    uint64_t so_far = 0;
    reply_bulk(reply, tally->name);
    reply_map(reply, 2);
    reply_bulk_text(reply, "calls");
    reply_int(reply, (int64_t)tally->calls);
    reply_bulk_text(reply, "histogram_usec");
    reply_map(reply, tally->count);
    for (uint32_t i = 0; i < tally->count; i++) {
        so_far += tally->steps[i].runs;
        reply_int(reply, (int64_t)tally->steps[i].upper_us);
        reply_int(reply, (int64_t)so_far);
    }
}

static void histogram_done(struct client *client, struct request *request, struct reply *reply)
{
    struct table *tallies = table_new();
    const struct shard_reply *bad = NULL;
    size_t cursor = 0;
    struct bytes name;
    void *tally;
    for (uint32_t i = 0; i < request_reply_count(request) && !bad; i++)
        if (!add_shard(request_reply(request, i), tallies))
            bad = request_reply(request, i);
    add_own(client, request, tallies);
    if (bad)
        out_write_block(reply->out, bad->block, bad->frame.data, bad->frame.len);
    else
        reply_map(reply, (int64_t)table_count(tallies));
    while (table_next(tallies, &cursor, &name, &tally)) {
        if (!bad)
            reply_tally(tally, reply);
        free(tally);
    }
    table_free(tallies);
}

void local_latency_histogram(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_latency(request, histogram_done);
}

/* ---- LATEST ----------------------------------------------------------------------------------- */

/* Adds a row. Of two rows with the same name it keeps the later one, with the longest time of both. */
static void add_latest(struct latency_latest rows[NAMES_MAX], uint32_t *count,
                       const struct latency_latest *row)
{
    uint32_t i = 0;
    while (i < *count && !bytes_equal(rows[i].name, row->name))
        i++;
    if (i == NAMES_MAX)
        return;
    if (i == *count) {
        rows[(*count)++] = *row;
        return;
    }
    struct latency_latest *known = &rows[i];
    if (row->last.at_s > known->last.at_s ||
        (row->last.at_s == known->last.at_s && row->last.ms > known->last.ms))
        known->last = row->last;
    if (row->max_ms > known->max_ms)
        known->max_ms = row->max_ms;
}

static void latest_done(struct client *client, struct request *request, struct reply *reply)
{
    struct latency_latest rows[NAMES_MAX];
    struct slow_log *slow_log = latency_journal(client);
    slow_log_lock(slow_log);
    uint32_t count = latency_latest(slow_log->latency, rows);
    slow_log_unlock(slow_log);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        size_t pos = 0;
        struct resp_value name;
        struct latency_latest row;
        for (int64_t left = read_array_length(answer, &pos); left > 0; left--) {
            if (read_array_length(answer, &pos) != 4 ||
                !resp_value_next(answer->frame, &pos, &name) ||
                !read_int(answer, &pos, &row.last.at_s) || !read_int(answer, &pos, &row.last.ms) ||
                !read_int(answer, &pos, &row.max_ms))
                break;
            row.name = name.text;
            add_latest(rows, &count, &row);
        }
    }
    latency_reply_latest(rows, count, reply);
}

void local_latency_latest(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_latency(request, latest_done);
}

/* ---- HISTORY, GRAPH --------------------------------------------------------------------------- */

struct samples {
    struct latency_sample *items;
    size_t count;
};

static void add_sample(struct samples *samples, struct latency_sample sample)
{
    samples->items = realloc(samples->items, (samples->count + 1) * sizeof *samples->items);
    CHECK(samples->items);
    samples->items[samples->count++] = sample;
}

static int by_time(const void *a, const void *b)
{
    const struct latency_sample *left = a;
    const struct latency_sample *right = b;
    return (left->at_s > right->at_s) - (left->at_s < right->at_s);
}

static void collect_own(struct client *client, struct bytes name, struct samples *samples)
{
    struct slow_log *slow_log = latency_journal(client);
    slow_log_lock(slow_log);
    const struct latency_event *event = latency_find_event(slow_log->latency, name);
    for (uint32_t i = 0; event && i < event->count; i++)
        add_sample(samples, latency_sample_at(event, i));
    slow_log_unlock(slow_log);
}

static void collect_shard(const struct shard_reply *answer, struct samples *samples)
{
    struct latency_sample sample;
    size_t pos = 0;
    for (int64_t left = read_array_length(answer, &pos); left > 0; left--) {
        if (read_array_length(answer, &pos) != 2 || !read_int(answer, &pos, &sample.at_s) ||
            !read_int(answer, &pos, &sample.ms))
            return;
        add_sample(samples, sample);
    }
}

/* Merges the samples that proxy and shards have of the event in argument 2. */
static void collect_samples(struct client *client, struct request *request,
                            struct latency_event *event)
{
    struct samples samples = {0};
    collect_own(client, request_argv(request)[2], &samples);
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        collect_shard(request_reply(request, i), &samples);
    if (samples.count)
        qsort(samples.items, samples.count, sizeof *samples.items, by_time);
    for (size_t i = 0; i < samples.count; i++)
        latency_add_sample(event, samples.items[i]);
    free(samples.items);
}

static void history_done(struct client *client, struct request *request, struct reply *reply)
{
    struct latency_event event = {0};
    collect_samples(client, request, &event);
    latency_reply_history(&event, reply);
}

void local_latency_history(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_latency(request, history_done);
}

static void graph_done(struct client *client, struct request *request, struct reply *reply)
{
    struct bytes name = request_argv(request)[2];
    char text[64];
    struct latency_event event = {.name = text};
    struct out out;
    (void)snprintf(text, sizeof text, "%.*s", (int)(name.len < 63 ? name.len : 63), name.data);
    collect_samples(client, request, &event);
    if (!event.count) {
        char error[LATENCY_ERROR_MAX];
        latency_no_samples(name, error);
        reply_error(reply, error);
        return;
    }
    out_init(&out);
    latency_print_graph(&event, loop_wall_ms(client->worker->loop) / 1000, &out);
    reply_verbatim_out(reply, "txt", &out);
}

void local_latency_graph(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes words[] = {request_argv(request)[0], BYTES("HISTORY"),
                                  request_argv(request)[2]};
    (void)client;
    (void)reply;
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, words, 3, graph_done);
}

/* ---- DOCTOR, RESET, HELP ---------------------------------------------------------------------- */

static void latency_doctor_done(struct client *client, struct request *request, struct reply *reply)
{
    struct slow_log *slow_log = latency_journal(client);
    bool is_on = client->worker->snapshot->config.latency_monitor_threshold != 0;
    struct out out;
    out_init(&out);
    out_printf(&out, "proxy: ");
    slow_log_lock(slow_log);
    latency_print_doctor(slow_log->latency, is_on, &out);
    slow_log_unlock(slow_log);
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        struct resp_value value;
        size_t pos = 0;
        if (!resp_value_next(answer->frame, &pos, &value))
            continue;
        struct bytes text = resp_value_text(&value);
        out_printf(&out, "\nshard %s: ", answer->node->name);
        out_write(&out, text.data, text.len);
    }
    reply_verbatim_out(reply, "txt", &out);
}

void local_latency_doctor(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    ask_latency(request, latency_doctor_done);
}

static void latency_reset_done(struct client *client, struct request *request, struct reply *reply)
{
    const int64_t *own = request_state(request, sizeof *own);
    int64_t count = *own;
    (void)client;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        const struct shard_reply *answer = request_reply(request, i);
        size_t pos = 0;
        uint64_t number;
        if (!read_int(answer, &pos, &number)) {
            out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
            return;
        }
        count += (int64_t)number;
    }
    reply_int(reply, count);
}

void local_latency_reset(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    struct slow_log *slow_log = latency_journal(client);
    int64_t *count = request_state(request, sizeof *count);
    (void)reply;
    slow_log_lock(slow_log);
    *count = latency_reset(slow_log->latency, argv + 2, request_argc(request) - 2);
    slow_log_unlock(slow_log);
    ask_latency(request, latency_reset_done);
}

void local_latency_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}
