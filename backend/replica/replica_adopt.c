/*
 * replica_adopt.c - connections of other copies, which a session at home has admitted.
 *
 *   home      on_data of the session: paused ─► a letter, outside on_data: stream_move
 *   replica                                                            └─► replica_take_stream
 *
 * What was received behind the greeting, and what is not sent of its reply, moves with the connection. It moves before the replica is
 * asked to stop, or not at all: so its loop runs until the connection has arrived.
 */
#include "backend/peer/peer_set.h"
#include "backend/replica/replica_inner.h"
#include "shared/check.h"
#include "shared/net/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arrival {
    struct replica_letter letter;
    struct replica *replica;
    struct stream *stream; /* NULL: it has ended, or has moved */
    struct peer_identity peer;
};

static struct arrival *arrival_of(struct replica_letter *letter)
{
    return container_of(letter, struct arrival, letter);
}

/* A letter that is not read has its connection still. */
static void free_arrival(struct replica_letter *letter)
{
    struct arrival *arrival = arrival_of(letter);
    if (arrival->stream)
        stream_abort(arrival->stream);
    free(arrival);
}

static struct arrival *arrival_new(struct replica *replica, const struct peer_identity *peer)
{
    struct arrival *arrival = calloc(1, sizeof *arrival);
    CHECK(arrival);
    arrival->letter.free = free_arrival;
    arrival->replica = replica;
    arrival->peer = *peer;
    return arrival;
}

/* accept_fn, on the replica's thread */
static void on_arrived(void *owner, struct stream *stream)
{
    struct arrival *arrival = owner;
    replica_mail_release(&arrival->letter);
    stream_resume(stream);
    replica_take_stream(arrival->replica, stream, &arrival->peer);
    free(arrival);
}

static void move_stream(struct replica *replica, struct stream *stream,
                        const struct peer_identity *peer)
{
    struct arrival *moving = arrival_new(replica, peer);
    replica_mail_hold(&replica->home.mail, &moving->letter);
    stream_move(stream, replica->options.loop, on_arrived, moving);
}

static void read_arrival(struct replica_letter *letter)
{
    struct arrival *arrival = arrival_of(letter);
    struct stream *stream = arrival->stream;
    if (!stream || arrival->replica->home.is_stopping)
        return; /* free_arrival ends it */
    arrival->stream = NULL;
    move_stream(arrival->replica, stream, &arrival->peer);
}

/* The stream is paused. */
static size_t receive_nothing(void *owner, struct block *block, const char *data, size_t len,
                              size_t *need)
{
    (void)owner, (void)block, (void)data, (void)len, (void)need;
    return 0;
}

static void on_ended(void *owner, int err)
{
    struct arrival *arrival = owner;
    (void)err;
    stream_abort(arrival->stream);
    arrival->stream = NULL;
}

void replica_adopt(struct replica *replica, struct stream *stream, const struct peer_identity *peer)
{
    static const struct stream_events events = {.on_data = receive_nothing, .on_end = on_ended};
    struct arrival *arrival = arrival_new(replica, peer);
    arrival->stream = stream;
    arrival->letter.read = read_arrival;
    stream_pause(stream);
    stream_set_owner(stream, &events, arrival);
    replica_mail_send(&replica->home.mail, replica->options.home, &arrival->letter);
}

bool replica_admit(const struct replica *replica, struct bytes protocol, struct bytes shard,
                   struct bytes identity, struct peer_identity *peer, const char **error)
{
    if (replica->home.self.address[0])
        return peer_admit_copy(&replica->home.self, protocol, shard, identity, peer, error);
    *error = "ERR this backend's address is not in its shard map: check advertise-host and "
             "advertise-port";
    return false;
}

bool replica_is_of_shard(const struct replica *replica, const char *shard)
{
    return strcmp(replica->home.self.shard, shard) == 0;
}

size_t replica_identity(const struct replica *replica, char to[PEER_IDENTITY_MAX])
{
    return peer_identity_write(&replica->home.self, to);
}

void replica_note_settings(struct replica *replica, const struct replica_settings *settings)
{
    struct peer_identity *self = &replica->home.self;
    *self = (struct peer_identity){.map_epoch = settings->epoch};
    (void)snprintf(self->run_id, sizeof self->run_id, "%s", replica->self.run_id);
    (void)snprintf(self->version, sizeof self->version, "%s", replica->self.version);
    (void)snprintf(self->shard, sizeof self->shard, "%s", settings->links.shard);
    (void)snprintf(self->address, sizeof self->address, "%s", settings->links.address);
}
