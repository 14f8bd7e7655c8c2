#include "tests/sim/sim_relay.h"

#include "backend/peer/frame.h"
#include "shared/check.h"
#include "shared/net/loop.h"
#include "shared/net/stream.h"
#include "shared/resp.h"
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

/* Replies of a greeting: to SCREE AUTH and SCREE PEER. Chances are in a million. */
enum {
    GREETING_REPLIES = 2,
    HOLD_PPM = 150000,
    DOUBLE_PPM = 100000,
    CONNECT_MS = 5000,
    LATE_MS_MAX = 2500
};

struct side {
    struct relayed *relayed;
    struct side *other;
    struct stream *stream; /* NULL: closed */
    struct out held;       /* a frame that is sent after the next one */
    struct out late;       /* of a mute client: frames that arrive when it has disconnected */
    bool is_mute;          /* its bytes are late, or dropped */
};

/* A connection and its continuation. */
struct relayed {
    struct list link;
    struct sim_relays *relays;
    struct side client, server;
    struct resp_skip reply; /* of the greeting */
    unsigned replies;
    struct timer *timer; /* until the late frames arrive */
};

static bool has_greeted(const struct relayed *relayed)
{
    return relayed->replies == GREETING_REPLIES;
}

static void relayed_end(struct relayed *relayed)
{
    struct side *sides[] = {&relayed->client, &relayed->server};
    for (int i = 0; i < 2; i++) {
        if (sides[i]->stream)
            stream_abort(sides[i]->stream);
        out_clear(&sides[i]->held);
        out_clear(&sides[i]->late);
    }
    timer_free(relayed->timer);
    list_remove(&relayed->link);
    free(relayed);
}

/* Timer. */
static void deliver_late(void *owner)
{
    struct relayed *relayed = owner;
    out_move(stream_out(relayed->server.stream), &relayed->client.late);
    stream_send(relayed->server.stream);
}

/* The end of a client that has late frames reaches the server when these have. */
static void on_end(void *owner, int err)
{
    struct side *side = owner;
    struct relayed *relayed = side->relayed;
    (void)err;
    if (side != &relayed->client || !side->late.bytes || !relayed->server.stream) {
        relayed_end(relayed);
        return;
    }
    stream_abort(side->stream);
    side->stream = NULL;
    timer_start(relayed->timer, sim_random(LATE_MS_MAX), 0);
}

/* Passes one frame: as it is, twice, or after the next one. */
static void pass_frame(struct side *from, const char *data, size_t len)
{
    struct out *to = stream_out(from->other->stream);
    bool is_faulty = from->relayed->relays->is_faulty;
    bool holds = is_faulty && from->held.bytes == 0 && sim_chance(HOLD_PPM);
    out_write(holds ? &from->held : to, data, len);
    if (holds)
        return;
    if (is_faulty && sim_chance(DOUBLE_PPM))
        out_write(to, data, len);
    out_move(to, &from->held);
}

/* Passes bytes of the greeting, which ends with the server's last reply. Returns their number. */
static size_t pass_greeting(struct side *from, const char *data, size_t len)
{
    struct relayed *relayed = from->relayed;
    size_t used = 0;
    while (from == &relayed->server && !has_greeted(relayed) && used < len &&
           resp_skip(&relayed->reply, data + used, len - used) != RESP_MORE) {
        used += relayed->reply.size;
        relayed->replies++;
    }
    if (from == &relayed->client)
        used = len;
    out_write(stream_out(from->other->stream), data, used);
    return used;
}

/* Returns the number of bytes of whole frames. */
static size_t take_late(struct side *from, const char *data, size_t len)
{
    struct peer_frame frame;
    size_t used = 0;
    size_t size;
    while (used < len &&
           peer_frame_read(data + used, len - used, &frame, &size) == PEER_FRAME_WHOLE)
        used += size;
    out_write(&from->late, data, used);
    return used;
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct side *from = owner;
    struct peer_frame frame;
    size_t used = 0;
    size_t size;
    (void)block;
    (void)need;
    if (!from->other->stream || (from->is_mute && from == &from->relayed->server))
        return len;
    if (from->is_mute)
        return take_late(from, data, len);
    if (!has_greeted(from->relayed))
        used = pass_greeting(from, data, len);
    while (has_greeted(from->relayed) && used < len &&
           peer_frame_read(data + used, len - used, &frame, &size) == PEER_FRAME_WHOLE) {
        pass_frame(from, data + used, size);
        used += size;
    }
    stream_send(from->other->stream);
    return used;
}

static void on_open(void *owner, int err)
{
    if (err)
        on_end(owner, err);
}

static const struct stream_events events = {.on_data = on_data, .on_end = on_end};

static void on_accept(void *owner, struct stream *stream)
{
    struct sim_relay *relay = owner;
    struct relayed *relayed = calloc(1, sizeof *relayed);
    CHECK(relayed);
    relayed->relays = relay->relays;
    relayed->client =
        (struct side){.relayed = relayed, .other = &relayed->server, .stream = stream};
    relayed->server = (struct side){.relayed = relayed, .other = &relayed->client};
    out_init(&relayed->client.held);
    out_init(&relayed->server.held);
    out_init(&relayed->client.late);
    out_init(&relayed->server.late);
    relayed->timer = timer_new(relay->relays->loop, deliver_late, relayed);
    list_push(&relay->relays->connections, &relayed->link);
    stream_set_owner(stream, &events, &relayed->client);
    relayed->server.stream = stream_connect(relay->relays->loop, relay->to, CONNECT_MS, &events,
                                            on_open, &relayed->server);
}

void sim_relays_init(struct sim_relays *relays)
{
    *relays = (struct sim_relays){0};
    list_init(&relays->connections);
    sim_set_host("relays");
    relays->loop = loop_new();
}

void sim_relays_add(struct sim_relays *relays, const char *address, const char *to)
{
    char error[64];
    const struct listen_options options = {.address = address, .backlog = 16};
    CHECK(relays->count < SIM_RELAYS_MAX);
    struct sim_relay *relay = &relays->all[relays->count++];
    relay->relays = relays;
    (void)snprintf(relay->to, sizeof relay->to, "%s", to);
    sim_set_host("relays");
    int fd = listen_bind(&options, error, sizeof error);
    CHECK(fd >= 0);
    relay->listener = listener_new(relays->loop, fd, &options, on_accept, relay);
}

void sim_relays_mute(struct sim_relays *relays)
{
    if (list_empty(&relays->connections))
        return;
    struct list *at = relays->connections.next;
    for (uint64_t skip = sim_random(SIM_RELAYS_MAX); skip && at->next != &relays->connections;
         skip--)
        at = at->next;
    struct relayed *relayed = container_of(at, struct relayed, link);
    if (has_greeted(relayed))
        (sim_random(2) ? &relayed->client : &relayed->server)->is_mute = true;
}

void sim_relays_stop(struct sim_relays *relays)
{
    for (unsigned i = 0; i < relays->count; i++)
        listener_free(relays->all[i].listener);
    relays->count = 0;
    while (!list_empty(&relays->connections))
        relayed_end(container_of(relays->connections.next, struct relayed, link));
}

void sim_relays_fini(struct sim_relays *relays)
{
    loop_free(relays->loop);
}
