/*
 * test_session.c - sessions, dispatch and commit together: clients pipeline commands at a partition whose store
 * fails and whose process crashes.
 *
 *   test_session [seed]      one world, or SEEDS
 *
 * Every client adds to its own two keys, always both in one transaction, reads those of others, and checks
 *   (1) replies come in the order of the requests, one each, whatever waits for a commit and whatever fails;
 *   (2) what anybody has seen of a key is never taken back, by a failed commit or a crash;
 *   (3) both keys of a client are always the same;
 *   (4) the counters of keys are right after every crash and at the end.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/keyspace/space.h"
#include "backend/partition_new.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/command.h"
#include "shared/error.h"
#include "shared/log.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/store_mem.h"
#include "tests/sized.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 60,
    CLIENTS = 6,
    PENDING_MAX = 64,
    ROUNDS = 60,
    ROUND_US = 20 * 1000,
    STEPS_MAX = 20000000
};

/* What a reply must be. */
enum wanted { WANT_OK, WANT_QUEUED, WANT_PAIR, WANT_ECHO, WANT_VALUE };

struct request {
    enum wanted wanted;
    int of;          /* VALUE, PAIR: whose key */
    uint64_t floor;  /* what anybody had seen of it when this was sent */
    uint64_t number; /* ECHO */
};

struct client {
    int index;
    struct stream *stream;
    struct timer *timer;
    struct resp_skip skip;
    struct request pending[PENDING_MAX]; /* a ring, oldest at `first` */
    uint64_t first;
    uint64_t last;
    uint64_t sent; /* additions, all connections */
    uint64_t echoes;
    uint64_t replies;
    uint64_t errors;
};

static struct process *process;
static struct loop *backend_loop;
static struct loop *client_loop;
static struct partition *partition;
static struct client clients[CLIENTS];
static uint64_t seen[CLIENTS]; /* the highest value anybody was told of a client's key */
static bool is_ending;
static bool has_stopped;

/* ---- clients: replies ---- */

static void saw(int of, uint64_t value)
{
    CHECK(value <= clients[of].sent);
    if (value > seen[of])
        seen[of] = value;
    sim_note("saw", value);
}

static uint64_t number_of(struct bytes text)
{
    char copy[32] = "";
    CHECK(text.len < sizeof copy);
    memcpy(copy, text.data, text.len);
    return strtoull(copy, NULL, 10);
}

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static bool is_error(const struct resp_value *value, const char *code)
{
    return value->type == '-' && strncmp(value->text.data, code, strlen(code)) == 0;
}

static void check_reply(struct client *client, const struct request *request, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value = next_value(frame, &pos);
    client->replies++;
    if (is_error(&value, "MISCONF") || is_error(&value, "EXECABORT")) {
        client->errors++;
        return;
    }
    switch (request->wanted) {
    case WANT_OK:
        CHECK(value.type == '+' && bytes_equal(value.text, BYTES("OK")));
        break;
    case WANT_QUEUED:
        CHECK(value.type == '+' && bytes_equal(value.text, BYTES("QUEUED")));
        break;
    case WANT_ECHO:
        CHECK(value.type == '$' && number_of(value.text) == request->number);
        break;
    case WANT_VALUE:
        CHECK(value.type == '$');
        value.count = value.is_null ? 0 : (int64_t)number_of(value.text);
        CHECK((uint64_t)value.count >= request->floor);
        saw(request->of, (uint64_t)value.count);
        break;
    case WANT_PAIR:
        CHECK(value.type == '*' && value.count == 2);
        struct resp_value a = next_value(frame, &pos);
        struct resp_value b = next_value(frame, &pos);
        CHECK(a.type == ':' && b.type == ':' && a.count == b.count);
        CHECK((uint64_t)a.count > request->floor);
        saw(request->of, (uint64_t)a.count);
        break;
    }
}

static size_t on_replies(void *owner, struct block *block, const char *data, size_t len,
                         size_t *need)
{
    struct client *client = owner;
    size_t used = 0;
    (void)block;
    while (used < len) {
        enum resp_result result = resp_skip(&client->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = client->skip.need;
            break;
        }
        CHECK(client->first < client->last);
        check_reply(client, &client->pending[client->first++ % PENDING_MAX],
                    (struct bytes){data + used, client->skip.size});
        used += client->skip.size;
    }
    return used;
}

/* ---- clients: requests ---- */

static void request(struct client *client, struct request wanted, const char *text)
{
    CHECK(client->last - client->first < PENDING_MAX);
    client->pending[client->last++ % PENDING_MAX] = wanted;
    out_printf(stream_out(client->stream), "%s\r\n", text);
}

/* A command about a number, e.g. "INCR a3". */
static const char *about(const char *command, uint64_t number)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s%llu", command, (unsigned long long)number);
    return text;
}

static void request_pair(struct client *client)
{
    client->sent++;
    request(client, (struct request){.wanted = WANT_OK}, "MULTI");
    request(client, (struct request){.wanted = WANT_QUEUED},
            about("INCR a", (uint64_t)client->index));
    request(client, (struct request){.wanted = WANT_QUEUED},
            about("INCR b", (uint64_t)client->index));
    request(
        client,
        (struct request){.wanted = WANT_PAIR, .of = client->index, .floor = seen[client->index]},
        "EXEC");
}

static void request_random(struct client *client)
{
    int of = (int)sim_random(CLIENTS);
    switch (sim_random(4)) {
    case 0:
        request_pair(client);
        break;
    case 1:
        client->echoes++;
        request(client, (struct request){.wanted = WANT_ECHO, .number = client->echoes},
                about("ECHO ", client->echoes));
        break;
    default:
        request(client, (struct request){.wanted = WANT_VALUE, .of = of, .floor = seen[of]},
                about(sim_random(2) ? "GET a" : "GET b", (uint64_t)of));
    }
}

static void on_client_end(void *owner, int err);
static const struct stream_events client_events = {.on_data = on_replies, .on_end = on_client_end};

static void on_client_open(void *owner, int err)
{
    if (err)
        on_client_end(owner, err);
}

static void client_connect(struct client *client)
{
    client->skip = (struct resp_skip){0};
    client->first = client->last = 0;
    client->stream =
        stream_connect(client_loop, "backend:7401", 1000, &client_events, on_client_open, client);
}

static void on_client_end(void *owner, int err)
{
    struct client *client = owner;
    (void)err;
    stream_close(client->stream);
    client->stream = NULL;
}

static void on_client_timer(void *owner)
{
    struct client *client = owner;
    if (!client->stream) {
        if (!is_ending)
            client_connect(client);
        return;
    }
    for (uint64_t i = sim_random(8); i > 0 && client->last - client->first + 4 <= PENDING_MAX; i--)
        request_random(client);
    stream_send(client->stream);
}

/* ---- the backend ---- */

/* The counters say what the store holds, once nothing waits to be written. */
static void check_counters(void)
{
    const struct bytes all = BYTES("");
    uint64_t rows = 0;
    struct overlay_iter *iter = overlay_iter_new(partition->overlay, CF_METADATA, all, all);
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter))
        rows++;
    overlay_iter_free(iter);
    CHECK(rows == space_keys_total(partition->spaces));
}

static void backend_start(void)
{
    char error[256];
    sim_set_host("backend");
    backend_loop = loop_new();
    partition = partition_new(process, 0, backend_loop, error, sizeof error);
    CHECK(partition);
    const struct listen_options options = {.address = "backend:7401", .backlog = 16};
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    partition->listeners.tcp =
        listener_new(backend_loop, fd, &options, partition_accept, partition);
    check_counters();
}

static void backend_free(void)
{
    partition_free(partition);
    loop_free(backend_loop);
}

static void backend_crash(void)
{
    sim_crash_host("backend");
    store_mem_crash(partition->store);
    backend_free();
    backend_start();
}

static void on_stopped(void *owner)
{
    (void)owner;
    has_stopped = true;
}

static bool is_over(void *owner)
{
    (void)owner;
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].stream)
            return false;
    return has_stopped;
}

/* ---- the world ---- */

static void world_begin(struct backend_config *config, uint64_t seed)
{
    sim_init(seed);
    sim_knobs_shuffle();
    store_mem_reset();
    store_mem_seed(seed);
    memset(clients, 0, sizeof clients);
    memset(seen, 0, sizeof seen);
    is_ending = has_stopped = false;
    config_init_defaults(&config->head, &backend_schema);
    config->durability = DURABILITY_ALWAYS;
    process = process_new(config, NULL, NULL);
    if (sim_random(2)) /* less than an option may be: every effect fills the batch */
        process->snapshot->config.commit_batch_limit_bytes = 1;
    process->env = store_env_new(
        &(struct store_env_options){.block_cache_bytes = 1024 * 1024, .background_threads = 1});
    backend_start();
    sim_set_host("clients");
    client_loop = loop_new();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].index = i;
        clients[i].timer = timer_new(client_loop, on_client_timer, &clients[i]);
        timer_start(clients[i].timer, 1 + sim_random(5), 1 + sim_random(10));
        client_connect(&clients[i]);
    }
}

static void world_end(struct backend_config *config)
{
    is_ending = true;
    for (int i = 0; i < CLIENTS; i++)
        timer_stop(clients[i].timer);
    partition_stop(partition, on_stopped, NULL);
    CHECK(sim_run_until(is_over, NULL, STEPS_MAX));
    check_counters();
    for (int i = 0; i < CLIENTS; i++)
        timer_free(clients[i].timer);
    backend_free();
    loop_free(client_loop);
    store_env_free(process->env);
    process_free(process);
    config_fini(&config->head);
    sim_fini();
}

static void run_world(uint64_t seed)
{
    struct backend_config config;
    world_begin(&config, seed);
    for (int round = 0; round < ROUNDS; round++) {
        sim_run_for(1 + sim_random(ROUND_US));
        if (sim_chance(60000))
            backend_crash();
        else if (sim_chance(60000))
            store_mem_fail_next(partition->store, 1 + sim_random(3),
                                sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        else if (sim_chance(20000))
            sim_run_for(1500 * 1000); /* long enough to recover from a failed write */
    }
    uint64_t replies = 0;
    for (int i = 0; i < CLIENTS; i++)
        replies += clients[i].replies;
    CHECK(replies > 0);
    world_end(&config);
}

int main(int argc, char **argv)
{
    command_init();
    log_set_level(LOG_ERROR + 1);
    if (argc > 1) {
        run_world(strtoull(argv[1], NULL, 0));
        return 0;
    }
    for (uint64_t seed = 1; seed <= sized(SEEDS); seed++) {
        fprintf(stderr, "\rseed %llu ", (unsigned long long)seed);
        run_world(seed);
    }
    fprintf(stderr, "\rall seeds hold\n");
    return 0;
}
