#include "backend/live/live_source.h"

#include "backend/copy/lanes.h"
#include "backend/live/live_find.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error_code.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/number.h"
#include "shared/resp.h"
#include "shared/tls.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    CONNECT_MS = 10 * 1000,
    TICK_MS = 100,
    ACK_TICKS =
        10, /* also without news, once a second: the source drops replicas that are silent */
    SILENT_TICKS = 600 /* the source sends PING every ten seconds */
};
enum { MARK_BYTES = 40, HEADER_MAX = 512, AGAIN_TICKS_MAX = 50 };

/* What is expected from the source next. */
enum source_step {
    SOURCE_WAITS,  /* to connect again */
    SOURCE_FINDS,  /* asks where the source is */
    SOURCE_GREETS, /* replies to AUTH and REPLCONF */
    SOURCE_SYNCS,  /* the reply to PSYNC */
    SOURCE_HEADER, /* of the full copy */
    SOURCE_COPY,   /* its bytes */
    SOURCE_STREAMS,
};

struct live_source {
    const struct copy_options *options;
    struct spool *spool;
    char address[COPY_ADDRESS_MAX]; /* where the source is, or was */
    struct tls_context *tls;
    struct loop *loop;
    struct stream *stream;
    struct timer *timer;
    enum source_step step;
    unsigned greetings;    /* replies that are awaited */
    bool has_connected;    /* once; else an error ends the run */
    uint64_t copy_left;    /* bytes of a full copy with a length */
    bool has_mark;         /* the full copy ends with a mark instead */
    char mark[MARK_BYTES]; /* the mark */
    unsigned ticks;
    unsigned silent_ticks;
    unsigned again_ticks; /* to wait before the next connection */
    uint64_t acknowledged;
    struct source_point point; /* of the end of the spool */
    _Atomic uint64_t durable;
    _Atomic bool stops;
    bool is_stopped; /* the same, for this thread */
    pthread_t thread;
    pthread_mutex_t lock; /* of `state` */
    pthread_cond_t changed;
    struct source_state state;
};

/* ---- state ---- */

/* The source streams: how far, and since when. */
static void source_publish(struct live_source *source)
{
    (void)pthread_mutex_lock(&source->lock);
    memcpy(source->state.id, source->point.id, sizeof source->state.id);
    source->state.end = source->point.position;
    if (!source->state.streaming_ms)
        source->state.streaming_ms = clock_mono_us() / 1000;
    (void)pthread_cond_broadcast(&source->changed);
    (void)pthread_mutex_unlock(&source->lock);
}

/* Ends the thread; the first reason counts. */
static void source_fail(struct live_source *source, enum copy_exit code, const char *what,
                        struct bytes reason)
{
    (void)pthread_mutex_lock(&source->lock);
    if (source->state.exit == EXIT_DONE) {
        source->state.exit = code;
        (void)snprintf(source->state.error, SOURCE_ERROR_MAX, "%.200s: %.300s%.*s", source->address,
                       what, (int)(reason.len < 500 ? reason.len : 500), reason.data);
    }
    (void)pthread_cond_broadcast(&source->changed);
    (void)pthread_mutex_unlock(&source->lock);
    loop_stop(source->loop);
}

static void publish_away(struct live_source *source)
{
    (void)pthread_mutex_lock(&source->lock);
    source->state.streaming_ms = 0;
    (void)pthread_mutex_unlock(&source->lock);
}

static void disconnect(struct live_source *source)
{
    publish_away(source);
    if (source->stream)
        stream_abort(source->stream);
    source->stream = NULL;
    source->step = SOURCE_WAITS;
    source->ticks = 0;
    source->again_ticks = source->again_ticks * 2 + 1;
    if (source->again_ticks > AGAIN_TICKS_MAX)
        source->again_ticks = AGAIN_TICKS_MAX;
}

/* ---- greeting ---- */

static void say_to_source(struct live_source *source, const struct bytes *words, uint32_t count)
{
    resp_write_words(stream_out(source->stream), words, count);
    stream_send(source->stream);
}

static void greet_source(struct live_source *source)
{
    const struct copy_target *from = &source->options->from;
    struct bytes auth[] = {BYTES("AUTH"), bytes_of(from->user), bytes_of(from->password)};
    struct bytes capa[] = {BYTES("REPLCONF"), BYTES("capa"), BYTES("eof"), BYTES("capa"),
                           BYTES("psync2")};
    source->step = SOURCE_GREETS;
    source->greetings = 1;
    if (*from->user) {
        say_to_source(source, auth, 3);
        source->greetings++;
    } else if (*from->password) {
        say_to_source(source, (struct bytes[]){auth[0], auth[2]}, 2);
        source->greetings++;
    }
    say_to_source(source, capa, 5);
}

static void ask_psync(struct live_source *source)
{
    char text[INT64_TEXT_MAX];
    bool is_full = !*source->point.id;
    int64_t next = is_full ? -1 : (int64_t)source->point.position + 1;
    struct bytes words[] = {BYTES("PSYNC"),
                            is_full ? BYTES("?") : bytes_of(source->point.id),
                            {text, number_format_int64(text, next)}};
    say_to_source(source, words, 3);
    source->step = SOURCE_SYNCS;
}

/* Errors that pass: the connection is made again. */
static bool source_passes(struct bytes line)
{
    return error_has_code(line, "LOADING") || error_has_code(line, "NOMASTERLINK") ||
           error_has_code(line, "MASTERDOWN") || error_has_code(line, "BUSY") ||
           error_has_code(line, "TRYAGAIN");
}

static void handle_refusal(struct live_source *source, struct bytes line)
{
    if (source_passes(line))
        disconnect(source);
    else
        source_fail(source, EXIT_SOURCE, "refuses to have this replica: ", line);
}

static void handle_source_greeting(struct live_source *source, struct bytes line)
{
    if (*line.data == '-')
        handle_refusal(source, line);
    else if (--source->greetings == 0)
        ask_psync(source);
}

/* ---- PSYNC ---- */

static void streaming_begins(struct live_source *source)
{
    source->step = SOURCE_STREAMS;
    source->again_ticks = 0;
    source_publish(source);
}

/* "+CONTINUE" or "+CONTINUE id": after a failover the history has another name. */
static void continue_stream(struct live_source *source, struct bytes line)
{
    size_t head = strlen("+CONTINUE ");
    if (line.len >= head + REPLICATION_ID_BYTES)
        memcpy(source->point.id, line.data + head, REPLICATION_ID_BYTES);
    streaming_begins(source);
}

/* "+FULLRESYNC id position" */
static void begin_full_copy(struct live_source *source, struct bytes line)
{
    size_t head = strlen("+FULLRESYNC ");
    struct source_point point = {.position = 0};
    if (*source->point.id) {
        source_fail(source, EXIT_HISTORY,
                    "it does not have the changes any more that follow what was copied, ",
                    BYTES("so the copy must begin anew"));
        return;
    }
    if (line.len < head + REPLICATION_ID_BYTES + 2 ||
        !number_parse_uint64((struct bytes){line.data + head + REPLICATION_ID_BYTES + 1,
                                            line.len - head - REPLICATION_ID_BYTES - 1},
                             &point.position)) {
        source_fail(source, EXIT_SOURCE, "a reply to PSYNC that is not known: ", line);
        return;
    }
    memcpy(point.id, line.data + head, REPLICATION_ID_BYTES);
    (void)pthread_mutex_lock(&source->lock);
    source->state.full_position = point.position;
    memcpy(source->state.id, point.id, sizeof point.id);
    (void)pthread_mutex_unlock(&source->lock);
    source->point.position = point.position;
    source->step = SOURCE_HEADER;
}

static void handle_psync(struct live_source *source, struct bytes line)
{
    if (*line.data == '-')
        handle_refusal(source, line);
    else if (line.len >= 9 && memcmp(line.data, "+CONTINUE", 9) == 0)
        continue_stream(source, line);
    else if (line.len > 12 && memcmp(line.data, "+FULLRESYNC ", 12) == 0)
        begin_full_copy(source, line);
    else
        source_fail(source, EXIT_SOURCE, "a reply to PSYNC that is not known: ", line);
}

/* ---- the full copy ---- */

/* "$length" or "$EOF:mark" */
static void handle_copy_header(struct live_source *source, struct bytes line)
{
    size_t head = strlen("$EOF:");
    source->has_mark = line.len == head + MARK_BYTES && memcmp(line.data, "$EOF:", head) == 0;
    if (source->has_mark)
        memcpy(source->mark, line.data + head, MARK_BYTES);
    else if (*line.data == '-' || line.len < 2 ||
             !number_parse_uint64((struct bytes){line.data + 1, line.len - 1}, &source->copy_left))
        disconnect(source); /* the source could not make it */
    if (source->step == SOURCE_HEADER && !spool_rdb_begin(source->spool))
        source_fail(source, EXIT_SOURCE, "", bytes_of(source->spool->error));
    if (source->step == SOURCE_HEADER)
        source->step = SOURCE_COPY;
}

static void full_copy_ends(struct live_source *source)
{
    if (!spool_rdb_end(source->spool)) {
        source_fail(source, EXIT_SOURCE, "", bytes_of(source->spool->error));
        return;
    }
    (void)pthread_mutex_lock(&source->lock);
    source->state.has_full_copy = true;
    memcpy(source->point.id, source->state.id, sizeof source->point.id);
    (void)pthread_mutex_unlock(&source->lock);
    spool_begin(source->spool, source->point.position);
    streaming_begins(source);
}

static bool copy_add(struct live_source *source, const char *data, size_t len)
{
    if (spool_rdb_add(source->spool, (struct bytes){data, len}))
        return true;
    source_fail(source, EXIT_SOURCE, "", bytes_of(source->spool->error));
    return false;
}

/* The last bytes may be the start of the mark, so they are not taken. */
static size_t take_until_mark(struct live_source *source, const char *data, size_t len)
{
    if (len < MARK_BYTES)
        return 0;
    const char *mark = memmem(data, len, source->mark, MARK_BYTES);
    size_t used = mark ? (size_t)(mark - data) : len - MARK_BYTES + 1;
    if (!copy_add(source, data, used))
        return len;
    if (!mark)
        return used;
    full_copy_ends(source);
    return used + MARK_BYTES;
}

static size_t take_copy(struct live_source *source, const char *data, size_t len)
{
    if (source->has_mark)
        return take_until_mark(source, data, len);
    size_t used = len < source->copy_left ? len : (size_t)source->copy_left;
    if (!copy_add(source, data, used))
        return len;
    source->copy_left -= used;
    if (source->copy_left == 0)
        full_copy_ends(source);
    return used;
}

/* ---- bytes ---- */

static size_t take_stream(struct live_source *source, const char *data, size_t len)
{
    if (!spool_add(source->spool, (struct bytes){data, len})) {
        source_fail(source, EXIT_SOURCE, "", bytes_of(source->spool->error));
        return len;
    }
    source->point.position += len;
    source_publish(source);
    return len;
}

static void handle_line(struct live_source *source, struct bytes line)
{
    if (line.len == 0)
        return; /* the source says with empty lines that it is still there */
    if (source->step == SOURCE_GREETS)
        handle_source_greeting(source, line);
    else if (source->step == SOURCE_SYNCS)
        handle_psync(source, line);
    else
        handle_copy_header(source, line);
}

static size_t take_line(struct live_source *source, const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    if (!end && len > HEADER_MAX) {
        source_fail(source, EXIT_SOURCE, "it does not speak the Redis protocol", BYTES(""));
        return len;
    }
    if (!end)
        return 0;
    size_t line = (size_t)(end - data);
    handle_line(source, (struct bytes){data, line && data[line - 1] == '\r' ? line - 1 : line});
    return line + 1;
}

static size_t take_source_bytes(struct live_source *source, const char *data, size_t len)
{
    if (source->step == SOURCE_STREAMS)
        return take_stream(source, data, len);
    if (source->step == SOURCE_COPY)
        return take_copy(source, data, len);
    return take_line(source, data, len);
}

static size_t on_source_data(void *owner, struct block *block, const char *data, size_t len,
                             size_t *need)
{
    struct live_source *source = owner;
    size_t used = 0;
    (void)block;
    (void)need;
    source->silent_ticks = 0;
    while (used < len && source->step != SOURCE_WAITS) {
        size_t taken = take_source_bytes(source, data + used, len - used);
        if (taken == 0)
            break;
        used += taken;
    }
    return source->step == SOURCE_WAITS ? len : used;
}

/* ---- the connection ---- */

static void on_source_end(void *owner, int err)
{
    (void)err;
    disconnect(owner);
}

static void on_source_open(void *owner, int err)
{
    struct live_source *source = owner;
    if (err && !source->has_connected)
        source_fail(source, EXIT_SOURCE,
                    "cannot connect: ", bytes_of(stream_error(source->stream, err)));
    else if (err)
        disconnect(source);
    else
        greet_source(source);
    source->has_connected |= !err;
}

static void open_source_stream(struct live_source *source)
{
    static const struct stream_events events = {.on_data = on_source_data, .on_end = on_source_end};
    const char *address = source->address;
    source->step = SOURCE_GREETS;
    source->silent_ticks = 0;
    source->stream =
        stream_connect(source->loop, address, CONNECT_MS, &events, on_source_open, source);
    if (source->tls)
        stream_secure(source->stream, source->tls, address);
}

static void connect_source(struct live_source *source)
{
    if (source->options->from.seeds.count == 0) {
        open_source_stream(source);
        return;
    }
    source->step = SOURCE_FINDS;
    loop_stop(source->loop); /* it is found outside of the loop's callbacks: run_source */
}

/* Asks where the source is, and connects to it. */
static void find_and_connect(struct live_source *source)
{
    char error[WIRE_ERROR_MAX] = "";
    if (find_source(source->loop, source->options, &source->is_stopped, source->address, error)) {
        (void)pthread_mutex_lock(&source->lock);
        memcpy(source->state.address, source->address, sizeof source->address);
        (void)pthread_mutex_unlock(&source->lock);
        open_source_stream(source);
        return;
    }
    disconnect(source);
    if (!source->has_connected && !source->is_stopped)
        source_fail(source, EXIT_SOURCE, "the source was not found: ", bytes_of(error));
}

/* ---- time ---- */

static void tell_durable(struct live_source *source)
{
    char text[INT64_TEXT_MAX];
    uint64_t durable = atomic_load(&source->durable);
    struct bytes words[] = {
        BYTES("REPLCONF"), BYTES("ACK"), {text, number_format_int64(text, (int64_t)durable)}};
    if (durable != source->acknowledged || source->ticks % ACK_TICKS == 0)
        say_to_source(source, words, 3);
    source->acknowledged = durable;
}

static void on_source_tick(void *owner)
{
    struct live_source *source = owner;
    source->ticks++;
    source->is_stopped = atomic_load(&source->stops);
    if (source->is_stopped)
        loop_stop(source->loop);
    else if (source->step == SOURCE_WAITS && source->ticks >= source->again_ticks)
        connect_source(source);
    else if (source->stream && ++source->silent_ticks > SILENT_TICKS)
        disconnect(source);
    else if (source->step == SOURCE_STREAMS)
        tell_durable(source);
}

static void *run_source(void *owner)
{
    struct live_source *source = owner;
    source->loop = loop_new();
    source->timer = timer_new(source->loop, on_source_tick, source);
    connect_source(source);
    timer_start(source->timer, TICK_MS, TICK_MS);
    loop_run(source->loop);
    while (source->step == SOURCE_FINDS && !source->is_stopped) {
        find_and_connect(source);
        loop_run(source->loop);
    }
    disconnect(source);
    timer_free(source->timer);
    loop_free(source->loop);
    return NULL;
}

/* ---- the other thread ---- */

struct live_source *live_source_new(const struct copy_options *options, struct spool *spool,
                                    const struct source_point *from, char *error)
{
    struct live_source *source = calloc(1, sizeof *source);
    CHECK(source);
    source->options = options;
    source->spool = spool;
    (void)snprintf(source->address, sizeof source->address, "%s", options->from.address);
    memcpy(source->state.address, source->address, sizeof source->address);
    source->point = *from;
    source->durable = source->state.end = from->position;
    memcpy(source->state.id, from->id, sizeof source->state.id);
    if (options->from.is_secure && !(source->tls = lanes_new_tls(options, error))) {
        free(source);
        return NULL;
    }
    spool_begin(spool, from->position);
    CHECK(pthread_mutex_init(&source->lock, NULL) == 0);
    CHECK(pthread_cond_init(&source->changed, NULL) == 0);
    CHECK(pthread_create(&source->thread, NULL, run_source, source) == 0);
    return source;
}

void live_source_free(struct live_source *source)
{
    atomic_store(&source->stops, true);
    CHECK(pthread_join(source->thread, NULL) == 0);
    (void)pthread_mutex_destroy(&source->lock);
    (void)pthread_cond_destroy(&source->changed);
    tls_context_unref(source->tls);
    free(source);
}

void live_source_state(struct live_source *source, struct source_state *state)
{
    (void)pthread_mutex_lock(&source->lock);
    *state = source->state;
    (void)pthread_mutex_unlock(&source->lock);
}

void live_source_wait(struct live_source *source, uint64_t position, uint64_t wait_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000 * 1000;
    until.tv_sec += (time_t)(wait_ms / 1000) + until.tv_nsec / (1000 * 1000 * 1000);
    until.tv_nsec %= 1000 * 1000 * 1000;
    (void)pthread_mutex_lock(&source->lock);
    if (source->state.end <= position && source->state.exit == EXIT_DONE)
        (void)pthread_cond_timedwait(&source->changed, &source->lock, &until);
    (void)pthread_mutex_unlock(&source->lock);
}

void live_source_acknowledge(struct live_source *source, uint64_t position)
{
    atomic_store(&source->durable, position);
}
