/*
 * sim_greeting.h - the greeting of a connection between backends at the side that accepts it (peer/link.h); in the program a session does it.
 */
#pragma once

#include "backend/peer/frame.h"

struct stream;

/* The owner is that of the loop's listener. */
struct sim_greeter {
    const char *word; /* "PEER" or "REPLICA" */
    /* False: nothing is greeted any more. */
    bool (*is_open)(void *owner);
    /* The words of the greeting; the shard has a name of one letter. */
    bool (*admit)(void *owner, struct bytes protocol, struct bytes shard, struct bytes identity,
                  struct peer_identity *peer, const char **error);
    size_t (*identity)(void *owner, char to[PEER_IDENTITY_MAX]);
    void (*adopt)(void *owner, struct stream *stream, const struct peer_identity *peer);
};

/* Takes an accepted stream. One that is not admitted gets the error, and stays open until its other side closes it. */
void sim_greet(const struct sim_greeter *greeter, struct stream *stream, void *owner);
/* Closes the streams of the owner that are not admitted yet: its process has ended. */
void sim_greet_no_more(const void *owner);
