/*
 * test_message.c - messages under failing commits and crashes: nobody hears of what did not happen.
 *
 *   test_message [seed]      one world, or SEEDS
 *
 *   writer i: MULTI, SET k<i> n, PUBLISH news <i>:<n>, EXEC; n grows ─► partition ─► listeners of news
 *
 * (1) a message is told of at most once, in the order of the numbers, and never when its EXEC was an error;
 * (2) what anybody was told of is there for every read that begins afterwards, also after a crash;
 * (3) a listener that speaks RESP3 and writes itself gets all its replies, in order, between whole messages.
 */
#include "backend/context/partition.h"
#include "backend/context/process.h"
#include "backend/partition_new.h"
#include "backend/store/store.h"
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
    SEEDS = 30,
    CLIENTS = 5, /* the first WRITERS write, the others listen; listener 4 writes k4 too */
    WRITERS = 3,
    PENDING_MAX = 64,
    NUMBERS = 65536,
    ROUNDS = 60,
    ROUND_US = 20 * 1000,
    STEPS_MAX = 20000000
};

enum wanted { WANT_OK, WANT_QUEUED, WANT_EXEC, WANT_VALUE, WANT_HELLO, WANT_SUBSCRIBED };
enum { TOLD = 1, FAILED = 2 };

struct request {
    enum wanted wanted;
    int of;
    uint64_t number; /* EXEC: the number; VALUE: the floor */
};

struct client {
    int index;
    struct stream *stream;
    struct timer *timer;
    struct resp_skip skip;
    struct request pending[PENDING_MAX]; /* a ring, oldest at `first` */
    uint64_t first;
    uint64_t last;
    uint64_t heard[CLIENTS]; /* the last number on this connection, by writer */
};

static struct process *process;
static struct loop *backend_loop;
static struct loop *client_loop;
static struct partition *partition;
static struct client clients[CLIENTS];
static uint64_t sent[CLIENTS];                /* the last number of each key */
static uint64_t known[CLIENTS];               /* the highest number anybody was told of */
static unsigned char fates[CLIENTS][NUMBERS]; /* TOLD, FAILED */
static uint64_t messages;
static bool is_ending;
static bool has_stopped;

/* ---- what comes ---- */

static struct resp_value next_value(struct bytes frame, size_t *pos)
{
    struct resp_value value;
    CHECK(resp_value_next(frame, pos, &value));
    return value;
}

static uint64_t number_of(struct bytes text)
{
    char copy[32] = "";
    CHECK(text.len < sizeof copy);
    memcpy(copy, text.data, text.len);
    return strtoull(copy, NULL, 10);
}

static void know(int of, uint64_t number)
{
    CHECK(number <= sent[of]);
    if (number > known[of])
        known[of] = number;
    sim_note("known", number);
}

/* "<i>:<n>" */
static void hear(struct client *client, struct bytes text)
{
    int of = text.data[0] - '0';
    uint64_t number = number_of((struct bytes){text.data + 2, text.len - 2});
    CHECK(of >= 0 && of < CLIENTS);
    CHECK(number > client->heard[of]);
    CHECK(!(fates[of][number] & FAILED));
    client->heard[of] = number;
    fates[of][number] |= TOLD;
    messages++;
    know(of, number);
}

/* A message of the channel? Then it is no reply. */
static bool is_message(struct client *client, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value head = next_value(frame, &pos);
    if ((head.type != '*' && head.type != '>') || head.count != 3)
        return false;
    struct resp_value word = next_value(frame, &pos);
    if (word.type != '$' || !bytes_equal(word.text, BYTES("message")))
        return false;
    (void)next_value(frame, &pos);
    hear(client, next_value(frame, &pos).text);
    return true;
}

static void check_reply(const struct request *request, struct bytes frame)
{
    size_t pos = 0;
    struct resp_value value = next_value(frame, &pos);
    if (value.type == '-') {
        CHECK(strncmp(value.text.data, "MISCONF", 7) == 0 ||
              strncmp(value.text.data, "EXECABORT", 9) == 0);
        if (request->wanted == WANT_EXEC) {
            CHECK(!(fates[request->of][request->number] & TOLD));
            fates[request->of][request->number] |= FAILED;
        }
        return;
    }
    switch (request->wanted) {
    case WANT_OK:
    case WANT_QUEUED:
        CHECK(value.type == '+');
        break;
    case WANT_EXEC:
        CHECK(value.type == '*' && value.count == 2);
        know(request->of, request->number);
        break;
    case WANT_VALUE:
        CHECK(value.type == '$' || value.type == '_');
        value.count = value.is_null || value.type == '_' ? 0 : (int64_t)number_of(value.text);
        CHECK((uint64_t)value.count >= request->number);
        know(request->of, (uint64_t)value.count);
        break;
    case WANT_HELLO:
        CHECK(value.type == '%');
        break;
    case WANT_SUBSCRIBED:
        CHECK((value.type == '*' || value.type == '>') && value.count == 3);
        break;
    }
}

static size_t on_frames(void *owner, struct block *block, const char *data, size_t len,
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
        struct bytes frame = {data + used, client->skip.size};
        used += client->skip.size;
        if (is_message(client, frame))
            continue;
        CHECK(client->first < client->last);
        check_reply(&client->pending[client->first++ % PENDING_MAX], frame);
    }
    return used;
}

/* ---- what is sent ---- */

static void request(struct client *client, struct request wanted, const char *text)
{
    CHECK(client->last - client->first < PENDING_MAX);
    client->pending[client->last++ % PENDING_MAX] = wanted;
    out_printf(stream_out(client->stream), "%s\r\n", text);
}

static void request_change(struct client *client)
{
    char text[64];
    unsigned long long number = ++sent[client->index];
    CHECK(number < NUMBERS);
    request(client, (struct request){.wanted = WANT_OK}, "MULTI");
    (void)snprintf(text, sizeof text, "SET k%d %llu", client->index, number);
    request(client, (struct request){.wanted = WANT_QUEUED}, text);
    (void)snprintf(text, sizeof text, "PUBLISH news %d:%llu", client->index, number);
    request(client, (struct request){.wanted = WANT_QUEUED}, text);
    request(client, (struct request){.wanted = WANT_EXEC, .of = client->index, .number = number},
            "EXEC");
}

static void request_value(struct client *client)
{
    char text[64];
    int of = (int)sim_random(CLIENTS);
    (void)snprintf(text, sizeof text, "GET k%d", of);
    request(client, (struct request){.wanted = WANT_VALUE, .of = of, .number = known[of]}, text);
}

static void on_client_end(void *owner, int err);
static const struct stream_events client_events = {.on_data = on_frames, .on_end = on_client_end};

static void on_client_open(void *owner, int err)
{
    if (err)
        on_client_end(owner, err);
}

static void client_connect(struct client *client)
{
    client->skip = (struct resp_skip){0};
    client->first = client->last = 0;
    memset(client->heard, 0, sizeof client->heard);
    client->stream =
        stream_connect(client_loop, "backend:7401", 1000, &client_events, on_client_open, client);
    if (client->index == CLIENTS - 1)
        request(client, (struct request){.wanted = WANT_HELLO}, "HELLO 3");
    if (client->index >= WRITERS)
        request(client, (struct request){.wanted = WANT_SUBSCRIBED}, "SUBSCRIBE news");
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
    bool is_mute = client->index == WRITERS; /* a RESP2 listener may do nothing else */
    for (uint64_t i = is_mute ? 0 : sim_random(6);
         i > 0 && client->last - client->first + 4 <= PENDING_MAX; i--) {
        if (sim_random(2))
            request_change(client);
        else
            request_value(client);
    }
    stream_send(client->stream);
}

/* ---- the backend ---- */

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
}

static void backend_crash(void)
{
    sim_crash_host("backend");
    store_mem_crash(partition->store);
    partition_free(partition);
    loop_free(backend_loop);
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
    memset(sent, 0, sizeof sent);
    memset(known, 0, sizeof known);
    memset(fates, 0, sizeof fates);
    messages = 0;
    is_ending = has_stopped = false;
    config_init_defaults(&config->head, &backend_schema);
    config->durability = DURABILITY_ALWAYS;
    process = process_new(config, NULL, NULL);
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
    for (int i = 0; i < CLIENTS; i++)
        timer_free(clients[i].timer);
    partition_free(partition);
    loop_free(backend_loop);
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
        else if (sim_chance(80000))
            store_mem_fail_next(partition->store, 1 + sim_random(3),
                                sim_random(2) ? ERR_STORE : ERR_DISK_FULL);
        else if (sim_chance(40000))
            sim_run_for(1500 * 1000); /* long enough to recover from a failed write */
    }
    CHECK(messages > 0);
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
