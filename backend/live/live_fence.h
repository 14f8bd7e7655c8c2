/*
 * live_fence.h - a server of the source refuses writes, and takes them again.
 *
 *   ACL LIST ─► rules of before, kept in the spool ─► ACL SETUSER user -@write, for each user ─► CLIENT KILL TYPE normal
 *                             └──────────────────────────────────────────────────────────────────► lifted: ACL SETUSER user reset …
 *
 * The fence is at the source, so that also clients that are not listed anywhere get an error instead of a lost write: each user's rules end
 * with -@write, those of each selector too, and all clients are disconnected. It holds until the server is started again. A replica gets the
 * rules of its own, because its master's are not replicated: so it refuses writes when it becomes master.
 */
#pragma once

#include "backend/live/live.h"

/* A connection to a server of the source, as a client. */
struct source_client {
    struct live client;          /* only its link is used */
    char name[COPY_ADDRESS_MAX]; /* of its files in the spool */
    char *rules;                 /* a line for each user: ACL SETUSER name reset …; owned */
    bool was_fenced;             /* by a cut-over that was killed */
};

/* `name` is empty if the source has one server only. */
void client_init(struct source_client *source, const struct live *live, const char *address,
                 const char *name);
void client_fini(struct source_client *source);
/* Replies of the source may take so long. */
void client_may_wait(struct source_client *source, uint64_t wait_ms);
/* These return false if the server has failed; client.link.error says why. */
bool client_is_master(struct source_client *source, bool *is_master);
/* Reads the rules of all users, and keeps them in the spool. */
bool client_read_rules(struct source_client *source, struct spool *spool);
bool client_fence(struct source_client *source);
/* Writes the history and the position of the server, which is a master. */
bool client_point(struct source_client *source, struct source_point *point);
/* Gives the rules back, and says so. */
void client_lift_fence(struct source_client *source, struct live *live);
/* Before a fence: the rules in the spool must not be taken for those in force later. A fence of before is lifted. */
void client_forget_rules(struct source_client *source, struct live *live);
