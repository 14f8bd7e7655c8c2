/*
 * live_cutover.c - ends a live copy: from one moment on the source takes no writes, and the target has all of them.
 *
 *   follow until nothing is missing ─► fence ─► INFO: history, offset ─► follow up to there, twice ─► roles ─► the row is deleted ─► done
 *                                        │           (a write is before it, or was refused)             │
 *                                        └────────── anything fails, or takes too long: fence lifted ◄──┘
 *
 * The fence (live_fence.h) is at the source. With Sentinel it is at each server that may become master, before the position is read. A
 * source that is a replica cannot be fenced: its master would go on.
 *
 * A failover may happen at any moment. Before the fences are up, it shows in the roles: a replica that has taken writes says that it is a
 * master. What is followed must have the history of the server that was fenced: an old master that goes on has higher offsets, too.
 */
#include "backend/copy/value_reader.h"
#include "backend/live/live_fence.h"
#include "backend/live/live_find.h"
#include "shared/check.h"
#include "shared/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The servers of the source; the first one is the master. */
struct cut_over {
    struct live *live;
    struct source_client *all;
    size_t count;
};

static bool client_failed(struct live *live, const struct source_client *source)
{
    return live_fail(live, EXIT_SOURCE, source->client.link.error, "");
}

/* ---- the end ---- */

/* The transaction that is open deletes the row, unless another tool has changed it. */
static bool delete_live_row(struct live *live)
{
    struct bytes words[] = {BYTES("DEL"), bytes_of(live->row_name)};
    size_t at = 0;
    return live_call(live, words, 2) && live_call(live, (struct bytes[]){BYTES("EXEC")}, 1) &&
           values_count(live->link.reply, &at) > 0;
}

static bool has_no_refusals(struct live *live)
{
    char hint[LIVE_ERROR_MAX];
    (void)snprintf(hint, sizeof hint,
                   "the source is not given up. verify says what differs; HSET %s refused 0, sent "
                   "to the target, forgets them",
                   live->row_name);
    return live->row.refused == 0 ||
           live_fail(live, EXIT_REFUSED, "commands were refused since the copy began", hint);
}

/* Replicas first: the source refuses writes for a shorter time. */
static bool fence_all(struct cut_over *cut)
{
    for (size_t i = cut->count; i > 0; i--) {
        client_may_wait(&cut->all[i - 1], cut->live->options->pause_ms);
        if (!client_fence(&cut->all[i - 1]))
            return client_failed(cut->live, &cut->all[i - 1]);
    }
    return true;
}

/* Is there still one master, the server that was? Another one may have taken writes before it was fenced. */
static bool roles_are_kept(struct cut_over *cut)
{
    for (size_t i = 0; i < cut->count; i++) {
        bool is_master = false;
        if (!client_is_master(&cut->all[i], &is_master))
            return client_failed(cut->live, &cut->all[i]);
        if (is_master != (i == 0))
            return live_fail(cut->live, EXIT_SOURCE, cut->all[i].client.target.to.address,
                             i ? "it was a replica, and is a master now: there was a failover. Run "
                                 "the same command again"
                               : "it was the master, and is a replica now: there was a failover. "
                                 "Run the same command again");
    }
    return true;
}

/* Follows up to what the source has, twice: after the first time only PUBLISH, PING and what expires may be new, and the server is still the
 * master. */
static bool follow_to_end(struct cut_over *cut)
{
    struct live *live = cut->live;
    struct source_state state;
    live->goal.end = LIVE_POSITION;
    live->goal.until_ms = cut->all->client.goal.until_ms;
    for (unsigned i = 0; i < 2; i++) {
        if (!client_point(cut->all, &live->goal.point))
            return client_failed(live, cut->all);
        live_source_state(live->source, &state);
        if (i > 0 && live_has_goal(live, &state))
            break;
        live_apply(live);
        if (live->exit != EXIT_DONE || live->is_stopped)
            return false;
    }
    return true;
}

/* Follows up to what the source had when it was fenced, and ends the copy. */
static bool finish_cut_over(struct cut_over *cut)
{
    struct live *live = cut->live;
    if (!fence_all(cut) || !roles_are_kept(cut) || !follow_to_end(cut) || !roles_are_kept(cut) ||
        !has_no_refusals(live))
        return false;
    return delete_live_row(live) ||
           live_fail(live, EXIT_TARGET, "the row of the live copy could not be deleted",
                     live->link.error);
}

/* ---- before ---- */

/* Can the source be fenced? */
static bool is_master(struct cut_over *cut)
{
    bool is_good = false;
    if (!client_is_master(cut->all, &is_good))
        return client_failed(cut->live, cut->all);
    return is_good ||
           live_fail(cut->live, EXIT_SOURCE, cut->all->client.target.to.address,
                     "it is a replica, whose master would go on to take writes: cut over at the "
                     "master");
}

static void add_server(struct cut_over *cut, const char *address, const char *name)
{
    client_init(&cut->all[cut->count++], cut->live, address, name);
}

/* Finds the servers that may be master, and has a client for each. */
static bool find_cut_over_servers(struct cut_over *cut)
{
    const struct copy_options *options = cut->live->options;
    struct found_servers servers = {.count = 0};
    char error[WIRE_ERROR_MAX] = "";
    bool has_many = options->from.seeds.count > 0;
    if (has_many &&
        !find_servers(cut->live->link.loop, options, &cut->live->is_stopped, &servers, error)) {
        free(servers.all);
        return live_fail(cut->live, EXIT_SOURCE, "the servers of the source were not found", error);
    }
    cut->all = calloc(has_many ? servers.count : 1, sizeof *cut->all);
    CHECK(cut->all);
    if (!has_many)
        add_server(cut, options->from.address, "");
    for (size_t i = 0; i < servers.count; i++)
        add_server(cut, servers.all[i], servers.all[i]);
    free(servers.all);
    return true;
}

static bool prepare_cut_over(struct cut_over *cut)
{
    struct live *live = cut->live;
    if (!has_no_refusals(live) || !find_cut_over_servers(cut))
        return false;
    for (size_t i = 0; i < cut->count; i++)
        if (!live_connect(&cut->all[i].client))
            return client_failed(live, &cut->all[i]);
    return is_master(cut);
}

static bool read_all_rules(struct cut_over *cut)
{
    for (size_t i = 0; i < cut->count; i++)
        if (!client_read_rules(&cut->all[i], &cut->live->spool))
            return client_failed(cut->live, &cut->all[i]);
    return true;
}

static void say_cut_over(struct cut_over *cut, uint64_t fenced_ms)
{
    char path[SPOOL_PATH_MAX];
    spool_rules_path(&cut->live->spool, cut->all->name, path);
    report_say(&cut->live->report,
               "scree-copy: the target has every write of the source, which refuses writes since "
               "%" PRIu64 " ms; to lift this: redis-cli < %s%s",
               fenced_ms, path, cut->count > 1 ? ", and likewise at its replicas" : "");
}

static void lift_all_fences(struct cut_over *cut)
{
    for (size_t i = 0; i < cut->count; i++)
        client_lift_fence(&cut->all[i], cut->live);
}

/* No server has been fenced, but by a run that was killed. */
static void forget_cut_over(struct cut_over *cut)
{
    char path[SPOOL_PATH_MAX];
    for (size_t i = 0; i < cut->count; i++)
        client_forget_rules(&cut->all[i], cut->live);
    if (spool_is_fenced(&cut->live->spool, path))
        report_say(
            &cut->live->report,
            "scree-copy: A CUT-OVER THAT WAS KILLED HAS LEFT THE SOURCE FENCED; to lift this "
            "at each server that has such a file: redis-cli < %s",
            path);
}

/* From here on a server may be fenced. */
static void cut_over_prepared(struct cut_over *cut)
{
    uint64_t start_ms = clock_mono_us() / 1000;
    if (!finish_cut_over(cut)) {
        lift_all_fences(cut);
        return;
    }
    for (size_t i = 0; i < cut->count; i++)
        spool_end_rules(&cut->live->spool, cut->all[i].name);
    say_cut_over(cut, clock_mono_us() / 1000 - start_ms);
}

void live_cut_over(struct live *live)
{
    struct cut_over cut = {.live = live};
    if (prepare_cut_over(&cut) && read_all_rules(&cut))
        cut_over_prepared(&cut);
    else
        forget_cut_over(&cut);
    for (size_t i = 0; i < cut.count; i++)
        client_fini(&cut.all[i]);
    free(cut.all);
}
