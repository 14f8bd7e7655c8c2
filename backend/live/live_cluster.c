#include "backend/live/live_cluster.h"

#include "backend/copy/value_reader.h"
#include "backend/live/live_find.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WATCH_MS = 100,        /* between two questions to masters */
    ANSWER_MS = 60 * 1000, /* so long a failover may take, at the start and at the end */
    CLUSTER_SHOW_MS = 1000,
    CLUSTER_SHOW_QUIET_MS = 10 * 1000,
    STREAM_SESSION_MAX = 80
};

/* One master. */
struct cluster_stream {
    struct copy_options options;
    char session[STREAM_SESSION_MAX];
    struct cluster_slots slots;
    struct live *live;
    pthread_t thread;
    _Atomic bool has_ended;
};

struct cluster_copy {
    const struct copy_options *options;
    struct copy_report report;
    struct loop *loop;
    struct timer *timer;
    struct cluster_stream *all;
    size_t count;
    size_t watched; /* this one is asked next */
    bool is_stopped;
    bool is_released; /* the sources end: nothing is missing */
    uint64_t shown_ms;
    uint64_t shown_commands;
    enum copy_exit exit;
};

static bool cluster_fail(struct cluster_copy *cluster, enum copy_exit code, const char *what,
                         const char *reason)
{
    if (cluster->exit == EXIT_DONE)
        report_say(&cluster->report, "scree-copy: %s%s%s", what, *reason ? ": " : "", reason);
    cluster->exit = cluster->exit == EXIT_DONE ? code : cluster->exit;
    return false;
}

/* A source has failed, and has said why, or was stopped. */
static bool stream_failed(struct cluster_copy *cluster, const struct cluster_stream *stream)
{
    if (cluster->exit == EXIT_DONE)
        cluster->exit = stream->live->exit;
    cluster->is_stopped |= stream->live->is_stopped;
    return false;
}

/* ---- the masters ---- */

static unsigned first_slot_of(const struct cluster_slots *slots)
{
    unsigned slot = 0;
    while (slot < SLOT_COUNT && !cluster_slots_have(slots, (uint16_t)slot))
        slot++;
    return slot;
}

static int compare_nodes(const void *a, const void *b)
{
    const struct cluster_node *left = a;
    const struct cluster_node *right = b;
    return (int)first_slot_of(&left->slots) - (int)first_slot_of(&right->slots);
}

/* The first seeds of a source are its master and its replicas, so a question seldom goes to a node that is behind. */
static void add_node_seed(struct copy_seeds *seeds, const struct cluster_node *node)
{
    if (seeds->count < COPY_SEEDS_MAX && *node->address)
        (void)snprintf(seeds->all[seeds->count++], COPY_ADDRESS_MAX, "%s", node->address);
}

static void choose_seeds(struct copy_seeds *seeds, const struct cluster_nodes *nodes,
                         const struct cluster_node *master)
{
    seeds->count = 0;
    for (size_t i = 0; i < nodes->count; i++)
        if (strcmp(nodes->all[i].master, master->id) == 0)
            add_node_seed(seeds, &nodes->all[i]);
    add_node_seed(seeds, master);
    for (size_t i = 0; i < nodes->count; i++)
        if (&nodes->all[i] != master && nodes->all[i].slots.count > 0)
            add_node_seed(seeds, &nodes->all[i]);
}

static void stream_init(struct cluster_copy *cluster, const struct cluster_nodes *nodes,
                        const struct cluster_node *master)
{
    struct cluster_stream *stream = &cluster->all[cluster->count++];
    stream->options = *cluster->options;
    stream->slots = master->slots;
    (void)snprintf(stream->session, sizeof stream->session, "%s.%zu", cluster->options->session,
                   cluster->count);
    stream->options.session = stream->session;
    stream->options.is_quiet = true;
    stream->options.has_functions &= cluster->count == 1;
    stream->options.from.seeds.slots = &stream->slots;
    (void)snprintf(stream->options.from.address, COPY_ADDRESS_MAX, "%s", master->address);
    choose_seeds(&stream->options.from.seeds, nodes, master);
}

/* Has each slot a master, and are there not too many? The nodes are sorted by their first slot. */
static bool check_masters(struct cluster_copy *cluster, const struct cluster_nodes *nodes,
                          size_t *masters)
{
    const char *seed = cluster->options->from.seeds.all[0];
    unsigned slots = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        *masters += nodes->all[i].slots.count > 0;
        slots += nodes->all[i].slots.count;
        if (nodes->all[i].slots.count > 0 && !*nodes->all[i].address)
            return cluster_fail(cluster, EXIT_SOURCE, seed, "a master's address is not known");
    }
    if (slots != SLOT_COUNT)
        return cluster_fail(cluster, EXIT_SOURCE, seed, "not every slot of the cluster is served");
    return *masters <= CLUSTER_MASTERS_MAX ||
           cluster_fail(cluster, EXIT_SOURCE, seed, "the cluster has too many masters");
}

static bool find_masters(struct cluster_copy *cluster)
{
    char error[WIRE_ERROR_MAX] = "";
    struct cluster_nodes nodes;
    size_t masters = 0;
    if (!find_nodes(cluster->loop, cluster->options, &cluster->is_stopped, &nodes, error))
        return cluster->is_stopped ||
               cluster_fail(cluster, EXIT_SOURCE, "the cluster was not found", error);
    qsort(nodes.all, nodes.count, sizeof *nodes.all, compare_nodes);
    bool is_good = check_masters(cluster, &nodes, &masters);
    cluster->all = is_good ? calloc(masters, sizeof *cluster->all) : NULL;
    CHECK(cluster->all || !is_good);
    for (size_t i = 0; is_good && i < masters; i++)
        stream_init(cluster, &nodes, &nodes.all[i]);
    cluster_nodes_free(&nodes);
    return is_good;
}

/* ---- watching ---- */

enum watched {
    WATCHED_SAME,
    WATCHED_MOVING, /* a slot is open: its keys may be on their way */
    WATCHED_MOVED,
    WATCHED_UNKNOWN
};

/* Asks a node: does it, as the master, have exactly these slots? If it is not their master, which it may be behind about, `address` becomes
 * that of the master that it names. */
static enum watched watch_node(struct cluster_copy *cluster, const struct cluster_stream *stream,
                               char address[COPY_ADDRESS_MAX])
{
    char error[WIRE_ERROR_MAX];
    struct cluster_nodes nodes;
    enum watched found = WATCHED_UNKNOWN;
    bool is_there = find_nodes_at(cluster->loop, &stream->options, &cluster->is_stopped, address,
                                  &nodes, error);
    const struct cluster_node *owner =
        is_there ? cluster_nodes_owner(&nodes, &stream->slots) : NULL;
    if (owner)
        (void)snprintf(address, COPY_ADDRESS_MAX, "%s", owner->address);
    for (size_t i = 0; is_there && i < nodes.count; i++) {
        if (!nodes.all[i].is_myself || !nodes.all[i].is_master)
            continue;
        if (owner != &nodes.all[i])
            found = owner ? WATCHED_UNKNOWN : WATCHED_MOVED;
        else
            found = nodes.all[i].is_moving ? WATCHED_MOVING : WATCHED_SAME;
    }
    cluster_nodes_free(&nodes);
    return found;
}

/* Where its stream comes from, or will. */
static void stream_address(const struct cluster_stream *stream, struct source_state *state,
                           char address[COPY_ADDRESS_MAX])
{
    *state = (struct source_state){.end = 0};
    (void)snprintf(address, COPY_ADDRESS_MAX, "%s", stream->options.from.address);
    if (!stream->live || !stream->live->source)
        return;
    live_source_state(stream->live->source, state);
    (void)snprintf(address, COPY_ADDRESS_MAX, "%s", state->address);
}

/* Does the master of these slots still have exactly them, and are some on their way? */
static enum watched watch_stream(struct cluster_copy *cluster, struct cluster_stream *stream)
{
    char address[COPY_ADDRESS_MAX];
    struct source_state state;
    stream_address(stream, &state, address);
    enum watched found = watch_node(cluster, stream, address);
    return found == WATCHED_UNKNOWN && *address ? watch_node(cluster, stream, address) : found;
}

static bool slots_moved(struct cluster_copy *cluster, const struct cluster_stream *stream)
{
    return cluster_fail(cluster, EXIT_HISTORY, stream->options.from.address, CLUSTER_MOVED);
}

static void rest_cluster(struct cluster_copy *cluster)
{
    timer_start(cluster->timer, WATCH_MS, 0);
    if (!cluster->is_stopped)
        loop_run(cluster->loop);
    timer_stop(cluster->timer);
}

/* Has a source ended that should not, so that the others must? */
static bool has_failed_stream(const struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (atomic_load(&cluster->all[i].has_ended) &&
            (cluster->all[i].live->exit != EXIT_DONE || cluster->all[i].live->is_stopped))
            return true;
    return false;
}

static bool streams_go_on(const struct cluster_copy *cluster)
{
    return !cluster->is_stopped && cluster->exit == EXIT_DONE && !has_failed_stream(cluster);
}

/* Asks a master until it is known how it stands. */
static enum watched watch_until_known(struct cluster_copy *cluster, struct cluster_stream *stream,
                                      enum watched (*watch)(struct cluster_copy *,
                                                            struct cluster_stream *))
{
    uint64_t until_ms = clock_mono_us() / 1000 + ANSWER_MS;
    enum watched found = watch(cluster, stream);
    while (found == WATCHED_UNKNOWN && streams_go_on(cluster) &&
           clock_mono_us() / 1000 < until_ms) {
        rest_cluster(cluster);
        found = watch(cluster, stream);
    }
    return found;
}

/* Slots that are not as they were end the copy, or keep it from beginning. */
static bool check_watched(struct cluster_copy *cluster, const struct cluster_stream *stream,
                          enum watched found, bool is_first)
{
    const char *address = stream->options.from.address;
    if (!streams_go_on(cluster))
        return false;
    if (found == WATCHED_SAME)
        return true;
    if (found == WATCHED_UNKNOWN)
        return cluster_fail(cluster, EXIT_SOURCE, address,
                            "the master of its slots does not answer");
    return is_first ? cluster_fail(cluster, EXIT_SOURCE, address,
                                   "slots are being moved: begin when that has ended")
                    : slots_moved(cluster, stream);
}

/* Asks each master itself. */
static bool check_cluster_slots(struct cluster_copy *cluster, bool is_first)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct cluster_stream *stream = &cluster->all[i];
        enum watched found = watch_until_known(cluster, stream, watch_stream);
        if (!check_watched(cluster, stream, found, is_first))
            return false;
    }
    return true;
}

/* ---- the beginning ---- */

static void name_slots(struct live_row *row, const struct cluster_slots *slots)
{
    (void)snprintf(row->slots, sizeof row->slots, "%016" PRIx64, slots->sum);
}

/* Reads the rows: are there all of them, or none? */
static bool read_rows(struct cluster_copy *cluster, bool *exist)
{
    size_t found = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        struct live *live = cluster->all[i].live;
        struct live_row row;
        char slots[LIVE_SLOTS_LEN + 1];
        memcpy(slots, live->row.slots, sizeof slots);
        if (!live_enter(live, &row))
            return live->is_stopped ? stream_failed(cluster, &cluster->all[i])
                                    : cluster_fail(cluster, EXIT_TARGET, live->link.error, "");
        found += row.exists;
        if (row.exists && strcmp(row.slots, slots) != 0)
            return check_cluster_slots(cluster, true) && slots_moved(cluster, &cluster->all[i]);
    }
    *exist = found > 0;
    return found == 0 || found == cluster->count ||
           cluster_fail(cluster, EXIT_HISTORY, cluster->options->to.address,
                        "it does not have the rows of all masters of this session: begin anew, "
                        "with FLUSHALL in the target");
}

/* Watches that a row is not there. */
static bool watch_no_row(struct live *link, const struct live *live)
{
    struct bytes row = bytes_of(live->row_name);
    size_t at = 0;
    return live_call(link, (struct bytes[]){BYTES("WATCH"), row}, 2) &&
           live_call(link, (struct bytes[]){BYTES("EXISTS"), row}, 2) &&
           value_number(link->link.reply, &at) == 0;
}

static bool queue_first_row(struct live *link, struct live *live)
{
    struct row_words words = {.numbers = {""}};
    struct live_row row;
    live_first_row(live, &row);
    row.exists = true;
    row.generation = 1;
    live_row_words(live, &row, &words);
    live->row = row;
    return live_call(link, words.all, ROW_WORDS);
}

/* Writes all rows in one transaction, by the connection of the first source. */
static bool write_first_rows(struct cluster_copy *cluster)
{
    struct live *link = cluster->all[0].live;
    size_t at = 0;
    bool is_good = live_connect(link);
    for (size_t i = 0; is_good && i < cluster->count; i++)
        is_good = watch_no_row(link, cluster->all[i].live);
    is_good = is_good && live_call(link, (struct bytes[]){BYTES("MULTI")}, 1);
    for (size_t i = 0; is_good && i < cluster->count; i++)
        is_good = queue_first_row(link, cluster->all[i].live);
    is_good = is_good && live_call(link, (struct bytes[]){BYTES("EXEC")}, 1) &&
              values_count(link->link.reply, &at) == cluster->count;
    if (!is_good && link->is_stopped)
        return stream_failed(cluster, &cluster->all[0]);
    return is_good || cluster_fail(cluster, EXIT_TARGET, cluster->options->to.address,
                                   "the first rows could not be written, or another scree-copy has "
                                   "begun with this session");
}

static bool begin_all_first(struct cluster_copy *cluster)
{
    if (!check_cluster_slots(cluster, true))
        return false;
    if (!live_target_is_ready(cluster->all[0].live))
        return stream_failed(cluster, &cluster->all[0]);
    for (size_t i = 0; i < cluster->count; i++)
        if (!live_first_ask(cluster->all[i].live))
            return stream_failed(cluster, &cluster->all[i]);
    for (size_t i = 0; i < cluster->count; i++)
        if (!live_first_receive(cluster->all[i].live))
            return stream_failed(cluster, &cluster->all[i]);
    return write_first_rows(cluster);
}

static bool begin_streams(struct cluster_copy *cluster)
{
    bool exist = false;
    if (!read_rows(cluster, &exist))
        return false;
    if (!exist)
        return begin_all_first(cluster);
    if (!check_cluster_slots(cluster, false))
        return false;
    for (size_t i = 0; i < cluster->count; i++)
        if (!live_begin(cluster->all[i].live))
            return stream_failed(cluster, &cluster->all[i]);
    return true;
}

static bool load_all(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (!live_load(cluster->all[i].live))
            return stream_failed(cluster, &cluster->all[i]);
    return true;
}

/* ---- following ---- */

static void *run_stream(void *owner)
{
    struct cluster_stream *stream = owner;
    live_follow(stream->live);
    atomic_store(&stream->has_ended, true);
    return NULL;
}

static bool have_all_ended(const struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (!atomic_load(&cluster->all[i].has_ended))
            return false;
    return true;
}

static void stop_streams(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        if (atomic_load(&cluster->all[i].has_ended))
            continue;
        atomic_store(&cluster->all[i].live->is_ended, true);
        loop_stop(cluster->all[i].live->link.loop);
    }
}

/* Shows the sum, and the source that is behind most. */
static void show_cluster(struct cluster_copy *cluster)
{
    bool is_terminal = isatty(STDERR_FILENO);
    uint64_t now_ms = clock_mono_us() / 1000;
    uint64_t waited_ms = now_ms - cluster->shown_ms;
    uint64_t lag = 0;
    uint64_t commands = 0;
    uint64_t refused = 0;
    uint64_t most = 0;
    size_t slowest = 0;
    if (cluster->options->is_quiet ||
        waited_ms < (is_terminal ? CLUSTER_SHOW_MS : CLUSTER_SHOW_QUIET_MS))
        return;
    for (size_t i = 0; i < cluster->count; i++) {
        struct live_shown *shown = &cluster->all[i].live->shown;
        uint64_t own = atomic_load(&shown->lag);
        lag += own;
        commands += atomic_load(&shown->commands);
        refused += atomic_load(&shown->refused);
        slowest = own > most ? i : slowest;
        most = own > most ? own : most;
    }
    (void)fprintf(stderr,
                  "%sfollow  %zu masters  lag %" PRIu64 " bytes, most %" PRIu64 " of %s  %" PRIu64
                  " commands/s  refused %" PRIu64 "%s",
                  is_terminal ? "\r\x1b[K" : "", cluster->count, lag, most,
                  cluster->all[slowest].options.from.address,
                  (commands - cluster->shown_commands) * 1000 / waited_ms, refused,
                  is_terminal ? "" : "\n");
    cluster->report.is_line_open = is_terminal;
    cluster->shown_ms = now_ms;
    cluster->shown_commands = commands;
}

static void watch_next(struct cluster_copy *cluster)
{
    struct cluster_stream *stream = &cluster->all[cluster->watched++ % cluster->count];
    enum watched found = watch_stream(cluster, stream);
    if (found != WATCHED_UNKNOWN)
        (void)check_watched(cluster, stream, found, false);
}

/* ---- the end ---- */

static bool have_all_been_silent(const struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        if (!atomic_load(&cluster->all[i].live->shown.has_been_silent))
            return false;
    return true;
}

/* Waits until the target has what the master has sent. False: its connection was made again since, so it may be another history. */
static bool await_position(struct cluster_copy *cluster, const struct cluster_stream *stream,
                           uint64_t position, uint64_t streaming_ms)
{
    struct source_state state;
    while (atomic_load(&stream->live->shown.position) < position && streams_go_on(cluster)) {
        live_source_state(stream->live->source, &state);
        if (state.streaming_ms != streaming_ms)
            return false;
        rest_cluster(cluster);
        show_cluster(cluster);
    }
    live_source_state(stream->live->source, &state);
    return state.streaming_ms == streaming_ms;
}

/* Asks the master that streams: does it have the slots, and has the target everything that it has sent until now? */
static enum watched watch_end(struct cluster_copy *cluster, struct cluster_stream *stream)
{
    char error[WIRE_ERROR_MAX];
    char asked[COPY_ADDRESS_MAX];
    char owner[COPY_ADDRESS_MAX];
    struct source_state state;
    uint64_t sent = 0;
    stream_address(stream, &state, asked);
    memcpy(owner, asked, sizeof owner);
    if (!state.streaming_ms)
        return WATCHED_UNKNOWN;
    enum watched found = watch_node(cluster, stream, owner);
    if (found != WATCHED_SAME)
        return found;
    bool is_there =
        find_sent(cluster->loop, &stream->options, &cluster->is_stopped, asked, &sent, error) &&
        await_position(cluster, stream, sent, state.streaming_ms);
    return is_there ? WATCHED_SAME : WATCHED_UNKNOWN;
}

/* Each source has been silent, but the first one may have sent more since, so all of them go on while they are asked. */
static void end_together(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct cluster_stream *stream = &cluster->all[i];
        enum watched found = watch_until_known(cluster, stream, watch_end);
        if (!check_watched(cluster, stream, found, false))
            return;
    }
    for (size_t i = 0; i < cluster->count; i++)
        atomic_store(&cluster->all[i].live->is_released, true);
    cluster->is_released = true;
}

/* ---- all sources ---- */

static void join_streams(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        CHECK(pthread_join(cluster->all[i].thread, NULL) == 0);
    for (size_t i = 0; i < cluster->count; i++)
        if (cluster->all[i].live->exit != EXIT_DONE || cluster->all[i].live->is_stopped)
            (void)stream_failed(cluster, &cluster->all[i]);
}

/* Follows all sources, each by a thread, until they end. */
static void follow_all(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++)
        CHECK(pthread_create(&cluster->all[i].thread, NULL, run_stream, &cluster->all[i]) == 0);
    while (!have_all_ended(cluster)) {
        rest_cluster(cluster);
        if (!streams_go_on(cluster)) {
            stop_streams(cluster);
            (void)usleep(WATCH_MS * 1000);
        } else if (!cluster->options->follows && have_all_been_silent(cluster)) {
            if (!cluster->is_released)
                end_together(cluster);
        } else {
            watch_next(cluster);
        }
        show_cluster(cluster);
    }
    join_streams(cluster);
}

/* ---- a run ---- */

static void on_cluster_signal(void *owner, int signum)
{
    struct cluster_copy *cluster = owner;
    (void)signum;
    cluster->is_stopped = true;
    loop_stop(cluster->loop);
}

static void on_cluster_timer(void *owner)
{
    struct cluster_copy *cluster = owner;
    loop_stop(cluster->loop);
}

static bool make_streams(struct cluster_copy *cluster)
{
    for (size_t i = 0; i < cluster->count; i++) {
        struct cluster_stream *stream = &cluster->all[i];
        stream->live = live_new(&stream->options);
        name_slots(&stream->live->row, &stream->slots);
        if (stream->live->exit != EXIT_DONE)
            return stream_failed(cluster, stream);
    }
    return cluster->count > 0;
}

static void print_cluster_json(uint64_t commands, uint64_t left_out, uint64_t refused,
                               size_t masters, enum copy_exit code)
{
    struct out out;
    struct json_writer json;
    out_init(&out);
    json_writer_init(&json, &out);
    json_put_object(&json, NULL);
    json_put_text(&json, "command", "follow");
    json_put_uint(&json, "exit", code);
    json_put_uint(&json, "masters", masters);
    json_put_uint(&json, "commands", commands);
    json_put_uint(&json, "left_out", left_out);
    json_put_uint(&json, "refused", refused);
    json_put_end(&json);
    json_writer_fini(&json);
    struct bytes text = out_take(&out);
    (void)printf("%s\n", text.data);
    free((char *)text.data);
}

static enum copy_exit end_cluster(struct cluster_copy *cluster)
{
    uint64_t commands = 0;
    uint64_t left_out = 0;
    uint64_t refused = 0;
    for (size_t i = 0; i < cluster->count && cluster->all[i].live; i++) {
        commands += cluster->all[i].live->commands;
        left_out += cluster->all[i].live->left_out;
        refused += cluster->all[i].live->report.refused;
    }
    enum copy_exit code = cluster->exit != EXIT_DONE ? cluster->exit
                          : cluster->is_stopped      ? EXIT_STOPPED
                          : refused > 0              ? EXIT_REFUSED
                                                     : EXIT_DONE;
    if (code == EXIT_STOPPED)
        report_say(&cluster->report, "scree-copy: stopped; the same command goes on");
    if (cluster->options->is_json)
        print_cluster_json(commands, left_out, refused, cluster->count, code);
    else
        (void)printf("follow: %zu masters, %" PRIu64 " commands, %" PRIu64 " refused\n",
                     cluster->count, commands, refused);
    return code;
}

enum copy_exit cluster_run(const struct copy_options *options)
{
    struct cluster_copy cluster = {.options = options, .loop = loop_new()};
    cluster.timer = timer_new(cluster.loop, on_cluster_timer, &cluster);
    loop_on_signal(cluster.loop, SIGINT, on_cluster_signal, &cluster);
    loop_on_signal(cluster.loop, SIGTERM, on_cluster_signal, &cluster);
    report_init(&cluster.report, options);
    if (find_masters(&cluster) && make_streams(&cluster) && begin_streams(&cluster) &&
        load_all(&cluster))
        follow_all(&cluster);
    enum copy_exit code = end_cluster(&cluster);
    for (size_t i = 0; i < cluster.count; i++)
        if (cluster.all[i].live)
            live_free(cluster.all[i].live);
    timer_free(cluster.timer);
    loop_free(cluster.loop);
    free(cluster.all);
    return code;
}
