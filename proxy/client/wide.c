#include "proxy/client/wide.h"

#include "proxy/client/across.h"
#include "proxy/core/client.h"
#include "proxy/core/next_turn.h"
#include "proxy/core/worker.h"
#include "shared/check.h"

#include <stdlib.h>

enum {
    WIDE_ARGS = 16 * 1024,     /* a request with more arguments is prepared in turns */
    WIDE_PATTERNS = 32 * 1024, /* or one that is compared with more patterns of permissions */
    PORTION_ARGS = 8 * 1024,   /* of each step: half a millisecond or less */
    BEGINNINGS_MAX = 8,
};

struct wide {
    struct client *client; /* NULL: it has left */
    struct proxy_worker *worker;
    struct proxy_snapshot *snapshot; /* by which it is prepared; with a reference */
    struct frame frame; /* with a reference to its block; the spans are the scanner's */
    const struct command *command;
    struct route_rules rules;
    size_t step;   /* of steps[] */
    uint32_t next; /* argument or key of the step */
    uint32_t beginnings;
    bool is_lent;
    struct bytes *argv;
    uint32_t argv_cap;
    bool is_checked;
    struct acl_check check; /* if is_checked */
    struct route_keys keys;
    bool is_split;
    struct split_parts parts; /* if is_split */
    struct out *outs;         /* [parts.count]; NULL: not made */
    struct out **out_of;      /* likewise: pointers to outs[] */
};

/* ---- the steps: each does a portion, and returns true when it is over ---- */

static uint32_t end_of_portion(const struct wide *wide, uint32_t count)
{
    uint32_t left = count - wide->next;
    return wide->next + (left < PORTION_ARGS ? left : PORTION_ARGS);
}

static bool list_arguments(struct wide *wide)
{
    uint32_t end = end_of_portion(wide, wide->frame.argc);
    for (uint32_t i = wide->next; i < end; i++)
        wide->argv[i] = frame_arg(&wide->frame, i);
    wide->next = end;
    return end == wide->frame.argc;
}

static bool check_rights(struct wide *wide)
{
    const struct client_session *session = &wide->client->session;
    if (!session->is_limited)
        return true;
    if (!wide->is_checked)
        acl_check_begin(&wide->check, session->user, wide->command, wide->argv, wide->frame.argc);
    wide->is_checked = true;
    return !acl_check_go_on(&wide->check, WIDE_PATTERNS);
}

static bool has_many_keys(const struct command *command, uint32_t argc)
{
    return keys_possible(command) && keys_first(command, argc) == KEYS_SEARCH;
}

static bool search_keys(struct wide *wide)
{
    if (has_many_keys(wide->command, wide->frame.argc))
        route_keys_find(wide->command, wide->argv, wide->frame.argc, &wide->keys);
    return true;
}

/* Also counts the slots, as the dispatcher does when it has sent a request. */
static bool locate_keys(struct wide *wide)
{
    struct route_keys *keys = &wide->keys;
    bool counts = !wide->client->session.transaction.is_open; /* else the queue counts them */
    uint32_t from = keys->located;
    bool has_more = route_keys_locate(&wide->rules, wide->argv, keys, PORTION_ARGS);
    for (uint32_t i = from; counts && i < keys->located; i++)
        proxy_worker_count_slot(wide->worker, keys->slots[i]);
    keys->is_prepared = !has_more && has_many_keys(wide->command, wide->frame.argc);
    return !has_more;
}

/* Will the request go to several shards, each with its keys? */
static bool goes_in_parts(struct wide *wide)
{
    return wide->keys.is_prepared && !wide->client->session.transaction.is_open &&
           route_plan(&wide->rules, wide->command, wide->argv, wide->frame.argc, &wide->keys)
                   .kind == ROUTE_KIND_PARTS;
}

static struct split split_of(const struct wide *wide)
{
    return (struct split){.command = wide->command,
                          .block = wide->frame.block,
                          .base = wide->frame.base,
                          .args = wide->frame.args,
                          .argc = wide->frame.argc,
                          .keys = &wide->keys.list,
                          .shards = wide->keys.shards};
}

static bool group_keys(struct wide *wide)
{
    struct split split = split_of(wide);
    if (wide->next == 0)
        wide->is_split = goes_in_parts(wide);
    if (!wide->is_split)
        return true;
    if (wide->next == 0)
        split_parts_init(&wide->parts);
    struct split_range range = {wide->next, end_of_portion(wide, wide->keys.list.count)};
    split_group(&split, range, wide->keys.shards, &wide->parts);
    wide->next = range.to;
    return range.to == wide->keys.list.count;
}

static void make_outs(struct wide *wide)
{
    wide->outs = calloc(wide->parts.count, sizeof *wide->outs);
    wide->out_of = calloc(wide->parts.count, sizeof(struct out *));
    CHECK(wide->outs && wide->out_of);
    for (uint32_t i = 0; i < wide->parts.count; i++) {
        out_init(&wide->outs[i]);
        wide->out_of[i] = &wide->outs[i];
    }
}

static bool write_parts(struct wide *wide)
{
    struct split split = split_of(wide);
    if (!wide->is_split)
        return true;
    if (!wide->outs)
        make_outs(wide);
    struct split_range range = {wide->next, end_of_portion(wide, wide->keys.list.count)};
    split_write(&split, range, wide->keys.shards, wide->parts.count, wide->out_of);
    wide->next = range.to;
    return range.to == wide->keys.list.count;
}

static bool (*const steps[])(struct wide *) = {list_arguments, check_rights, search_keys,
                                               locate_keys,    group_keys,   write_parts};
enum { STEPS = sizeof steps / sizeof *steps };

/* ---- begin and end ---- */

/* Forgets what was prepared. */
static void forget_prepared(struct wide *wide)
{
    if (wide->is_checked)
        acl_check_end(&wide->check);
    for (uint32_t i = 0; wide->outs && i < wide->parts.count; i++)
        out_clear(&wide->outs[i]);
    free(wide->outs);
    free(wide->out_of);
    wide->outs = NULL;
    wide->out_of = NULL;
    wide->is_checked = wide->is_split = false;
    wide->keys.is_prepared = false;
    wide->step = wide->next = 0;
    snapshot_unref(wide->snapshot);
}

/* What the preparation may take: arguments, keys, and the frames to the shards. */
static size_t bytes_of_wide(const struct wide *wide)
{
    size_t each = sizeof *wide->argv + sizeof(struct key_ref) + 2 * sizeof(uint16_t);
    return wide->frame.argc * each + wide->frame.len;
}

static void count_prepared(struct wide *wide, size_t bytes)
{
    struct client *client = wide->client;
    client->bytes.copied += bytes - client->bytes.prepared; /* a decrease wraps around */
    wide->worker->memory.copied += bytes - client->bytes.prepared;
    client->bytes.prepared = bytes;
}

static void wide_free(struct wide *wide)
{
    if (wide->client)
        count_prepared(wide, 0);
    forget_prepared(wide);
    route_keys_fini(&wide->keys);
    block_unref(wide->frame.block);
    free(wide->argv);
    free(wide);
}

static struct wide *wide_new(struct client *client, const struct frame *frame,
                             const struct command *command)
{
    struct wide *wide = calloc(1, sizeof *wide);
    CHECK(wide);
    wide->client = client;
    wide->worker = client->worker;
    wide->frame = *frame;
    if (frame->block)
        (void)block_ref(frame->block);
    wide->command = command;
    wide->argv = malloc(frame->argc * sizeof *wide->argv);
    CHECK(wide->argv);
    wide->argv_cap = frame->argc;
    route_keys_init(&wide->keys);
    count_prepared(wide, bytes_of_wide(wide));
    return wide;
}

/* request_done_fn of an internal request: a portion. */
static void prepare_some(struct client *none, struct request *request, struct reply *reply)
{
    struct wide *wide = *(struct wide **)request_state(request, sizeof wide);
    (void)none;
    (void)reply;
    if (!wide->client) {
        wide_free(wide);
        return;
    }
    if (wide->snapshot != wide->worker->snapshot) {
        wide->step = STEPS; /* the frame is dispatched, which begins again */
    } else if (steps[wide->step](wide)) {
        wide->step++;
        wide->next = 0;
    }
    if (wide->step < STEPS)
        request_next_turn(request, prepare_some);
    else
        client_unhold(wide->client, HOLD_PORTIONS);
}

static void begin_preparing(struct wide *wide)
{
    struct proxy_worker *worker = wide->worker;
    struct request *request = request_internal(worker);
    *(struct wide **)request_state(request, sizeof wide) = wide;
    wide->snapshot = snapshot_ref(worker->snapshot);
    wide->rules = across_rules(wide->client);
    wide->beginnings++;
    client_hold(wide->client, HOLD_PORTIONS);
    request_next_turn(request, prepare_some);
}

static bool is_wide(const struct client *client, const struct frame *frame,
                    const struct command *command)
{
    const struct client_session *session = &client->session;
    if (!command || !command_arity_ok(command, frame->argc))
        return false;
    uint64_t patterns = session->is_limited ? acl_user_patterns(session->user) : 0;
    return (frame->argc > WIDE_ARGS &&
            (session->is_limited || has_many_keys(command, frame->argc))) ||
           frame->argc * patterns > WIDE_PATTERNS;
}

bool wide_is_ready(struct client *client, const struct frame *frame, const struct command *command)
{
    struct wide *wide = client->next.wide;
    if (wide ? wide->snapshot == client->worker->snapshot : !is_wide(client, frame, command))
        return true;
    if (wide && wide->beginnings == BEGINNINGS_MAX) {
        client->next.wide = NULL;
        wide_free(wide);
        return true;
    }
    if (wide)
        forget_prepared(wide);
    else
        client->next.wide = wide = wide_new(client, frame, command);
    begin_preparing(wide);
    return false;
}

void wide_leave(struct client *client)
{
    struct wide *wide = client->next.wide;
    if (!wide)
        return;
    client->next.wide = NULL;
    wide->client = NULL;
    if (wide->step == STEPS && !wide->is_lent)
        wide_free(wide); /* else the next portion frees it, or wide_take_back() */
}

/* ---- for the dispatcher ---- */

/* Exchanges the arguments of the worker's scratch memory with those of the request. */
static void swap_argv(struct wide *wide)
{
    struct worker_scratch *scratch = &wide->worker->scratch;
    struct bytes *argv = scratch->argv;
    uint32_t cap = scratch->argv_cap;
    scratch->argv = wide->argv;
    scratch->argv_cap = wide->argv_cap;
    wide->argv = argv;
    wide->argv_cap = cap;
}

struct wide *wide_lend(struct client *client)
{
    struct wide *wide = client->next.wide;
    if (!wide)
        return NULL;
    struct worker_scratch *scratch = &wide->worker->scratch;
    swap_argv(wide);
    scratch->made = wide->frame.args;
    scratch->block = wide->frame.block;
    if (wide->keys.is_prepared)
        scratch->keys = &wide->keys;
    wide->is_lent = true;
    return wide;
}

void wide_take_back(struct wide *wide, bool is_done)
{
    if (!wide)
        return;
    struct worker_scratch *scratch = &wide->worker->scratch;
    swap_argv(wide);
    scratch->made = NULL;
    scratch->block = NULL;
    scratch->keys = &scratch->own_keys;
    wide->is_lent = false;
    if (wide->client && !is_done)
        return;
    if (wide->client)
        wide->client->next.wide = NULL;
    wide_free(wide);
}

bool wide_denied(const struct client *client, enum acl_denied *denied, uint32_t *index)
{
    const struct wide *wide = client->next.wide;
    if (!wide || !wide->is_lent || !wide->is_checked)
        return false;
    *denied = wide->check.denied;
    *index = wide->check.index;
    return true;
}

const struct split_parts *wide_parts(const struct client *client)
{
    const struct wide *wide = client->next.wide;
    return wide && wide->is_lent && wide->is_split ? &wide->parts : NULL;
}

void wide_move_part(struct client *client, uint32_t i, struct out *out)
{
    out_move(out, &client->next.wide->outs[i]);
}
