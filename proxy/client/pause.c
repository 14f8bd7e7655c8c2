#include "proxy/client/pause.h"

#include "proxy/client/declared_flags.h"
#include "proxy/client/fan_out.h"
#include "proxy/core/handlers.h"
#include "proxy/core/node.h"
#include "proxy/core/request.h"
#include "proxy/core/transaction_queue.h"
#include "proxy/core/worker.h"
#include "shared/command/script_flags.h"
#include "shared/number.h"

#include <stdlib.h>

enum held { HELD_NONE, HELD_WRITES, HELD_ALL };
enum { HELD_FLAGS = CMD_WRITE | CMD_MAY_REPLICATE, SPACE_MAX = 255 };

#define KEEP_MS_MAX (UINT64_C(366) * 24 * 3600 * 1000) /* the longest time that backends accept */

struct pause {
    uint64_t until_ms; /* monotonic; in a message to a worker: duration */
    bool writes_only;
    uint32_t space_len; /* length of the namespace's name; 0: the pause is for all clients */
    char space[SPACE_MAX];
};

/* Looks for a command that may write. */
struct look {
    struct client *client;
    uint32_t at; /* commands before this one that run a script or function */
    bool is_asking;
    bool found;
};

/* The flags of a command that was looked at before the client waited for the last answer. The notes of the worker may have lost them
 * since. The commands before the last one only read: the look went on behind them. */
static uint32_t flags_before(const struct look *look, uint32_t at)
{
    const struct client_script *script = &look->client->script;
    return at + 1 == script->asked ? script->answer : SCRIPT_DECLARED | SCRIPT_NO_WRITES;
}

/* Finds the flags of a script or function. False: the shards are asked for them; of each they are asked once. */
static bool find_flags(struct look *look, const struct command *command, struct bytes script,
                       uint32_t *flags)
{
    struct client *client = look->client;
    uint32_t at = look->at++;
    bool is_known = true;
    if (at < client->script.asked)
        *flags = flags_before(look, at);
    else if (command->traits & TRAIT_SCRIPT_TEXT)
        *flags = script_text_flags(script);
    else
        is_known = declared_flags_find(client, command, script, flags);
    if (is_known)
        return true;
    client->script.asked = at + 1;
    look->is_asking = declared_flags_ask(client, command, script);
    return !look->is_asking;
}

/* transaction_queue_fn: stops at the first command that may write, or whose flags are asked for. */
static bool look_at_command(void *owner, const struct command *command, const struct bytes *argv,
                            uint32_t argc)
{
    struct look *look = owner;
    uint32_t declared = 0;
    uint32_t flags = command ? command->flags : 0;
    if (flags & CMD_SCRIPT) {
        if (argc > 1 && !find_flags(look, command, argv[1], &declared))
            return false;
        flags = script_command_flags(flags, declared);
    }
    look->found = flags & HELD_FLAGS;
    return !look->found;
}

static void look_at_request(struct look *look, const struct command *command)
{
    const struct frame *frame = look->client->worker->scratch.frame;
    struct bytes argv[2] = {bytes_of(command->name)};
    bool has_text = frame && frame->argc > 1;
    if (has_text)
        argv[1] = frame_arg(frame, 1);
    (void)look_at_command(look, command, argv, has_text ? 2 : 1);
    if (command->traits & TRAIT_RUNS_QUEUE)
        transaction_queue_each(&look->client->session.transaction, look_at_command, look);
    if (!look->is_asking)
        look->client->script.asked = 0;
}

/* Does the pause concern the client? A pause of a namespace concerns its clients, any other pause all clients. */
static bool concerns(const struct pause *pause, const struct client *client)
{
    struct bytes space = client->session.keyspace->name;
    return pause->space_len == 0 ||
           bytes_equal(space, (struct bytes){pause->space, pause->space_len});
}

/* What do the pauses that concern the client hold: nothing, writes, all? */
static enum held held_of(const struct client *client)
{
    const struct proxy_worker *worker = client->worker;
    enum held held = HELD_NONE;
    for (uint32_t i = 0; i < worker->pauses.count; i++) {
        const struct pause *pause = &worker->pauses.items[i];
        if (concerns(pause, client) && !pause->writes_only)
            return HELD_ALL;
        if (concerns(pause, client))
            held = HELD_WRITES;
    }
    return held;
}

bool pause_holds(struct client *client, const struct command *command)
{
    enum held held = held_of(client);
    struct look look = {.client = client, .found = held == HELD_ALL};
    if (held == HELD_WRITES)
        look_at_request(&look, command);
    if (look.found)
        client_hold(client, HOLD_PAUSED);
    return look.found || look.is_asking;
}

/* ---- beginning and ending --------------------------------------------------------------------- */

/* The pause in force for the same namespace; NULL: none. */
static struct pause *find_pause(const struct proxy_worker *worker, const struct pause *like)
{
    for (uint32_t i = 0; i < worker->pauses.count; i++)
        if (worker->pauses.items[i].space_len == like->space_len &&
            memcmp(worker->pauses.items[i].space, like->space, like->space_len) == 0)
            return &worker->pauses.items[i];
    return NULL;
}

/* Resumes a held client; if another pause concerns it, it is held again. */
static void resume_client(struct client *client)
{
    client_unhold(client, HOLD_PAUSED);
}

static void end_pause(struct proxy_worker *worker, struct pause *pause)
{
    *pause = worker->pauses.items[--worker->pauses.count];
    if (worker->pauses.count == 0) {
        free(worker->pauses.items);
        worker->pauses.items = NULL;
    }
}

bool pause_tick(struct proxy_worker *worker)
{
    uint64_t now_ms = loop_mono_ms(worker->loop);
    uint32_t before = worker->pauses.count;
    for (uint32_t i = before; i-- > 0;)
        if (worker->thread.is_stopping || now_ms >= worker->pauses.items[i].until_ms)
            end_pause(worker, &worker->pauses.items[i]);
    if (worker->pauses.count < before)
        client_each(worker, resume_client);
    return worker->pauses.count > 0;
}

void pause_stop(struct proxy_worker *worker)
{
    free(worker->pauses.items);
}

/* gather_visit_fn: a second pause can only be stricter and longer. */
static void pause_visit(struct proxy_worker *worker, const void *data, struct out *out)
{
    struct pause wanted = *(const struct pause *)data;
    struct pause *pause = find_pause(worker, &wanted);
    (void)out;
    wanted.until_ms += loop_mono_ms(worker->loop);
    declared_flags_forget(worker);
    if (pause) {
        pause->writes_only &= wanted.writes_only;
        if (wanted.until_ms > pause->until_ms)
            pause->until_ms = wanted.until_ms;
        return;
    }
    worker->pauses.items =
        realloc(worker->pauses.items, (worker->pauses.count + 1) * sizeof *pause);
    CHECK(worker->pauses.items);
    worker->pauses.items[worker->pauses.count++] = wanted;
    proxy_worker_need_tick(worker);
}

/* gather_visit_fn */
static void unpause_visit(struct proxy_worker *worker, const void *data, struct out *out)
{
    struct pause *pause = find_pause(worker, data);
    (void)out;
    if (!pause)
        return;
    end_pause(worker, pause);
    client_each(worker, resume_client);
}

/* ---- CLIENT PAUSE, CLIENT UNPAUSE ------------------------------------------------------------- */

static struct pause pause_of(const struct client *client)
{
    struct bytes space = client->session.keyspace->name;
    struct pause pause = {.space_len = space.len < SPACE_MAX ? (uint32_t)space.len : SPACE_MAX};
    memcpy(pause.space, space.data, pause.space_len);
    return pause;
}

static void pause_done(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
}

/* request_done_fn: the shards have replied; one that is down keeps no key. Pauses all workers. */
static void shards_keep(struct client *client, struct request *request, struct reply *reply)
{
    const struct pause *pause = request_state(request, sizeof *pause);
    (void)client;
    (void)reply;
    request_gather(request, pause_visit, pause, sizeof *pause, pause_done);
}

/* request_done_fn: the shards have replied. Ends the pause of all workers. */
static void shards_expire(struct client *client, struct request *request, struct reply *reply)
{
    const struct pause *pause = request_state(request, sizeof *pause);
    (void)client;
    (void)reply;
    request_gather(request, unpause_visit, pause, sizeof *pause, pause_done);
}

/* Sends every shard for how long no key may expire, then calls `done`. A shard expires all namespaces alike, so the pause
 * of one namespace changes nothing there. */
static void keep_expired(struct request *request, const struct pause *pause, request_done_fn *done)
{
    char text[INT64_TEXT_MAX];
    uint64_t keep_ms = pause->until_ms < KEEP_MS_MAX ? pause->until_ms : KEEP_MS_MAX;
    struct bytes number = {text, number_format_int64(text, (int64_t)keep_ms)};
    const struct bytes argv[] = {BYTES("SCREE"), BYTES("KEEP-EXPIRED"), number};
    *(struct pause *)request_state(request, sizeof *pause) = *pause;
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_CONTROL, .argv = argv, .argc = 3};
    request_fan_out_with(request, &how, done);
}

void local_client_pause(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    bool writes_only = argc == 4 && bytes_is(argv[3], "WRITE");
    int64_t timeout_ms;
    if (argc > 4) {
        reply_errorf(
            reply,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.",
            (int)(argv[1].len < 128 ? argv[1].len : 128), argv[1].data);
    } else if (argc == 4 && !writes_only && !bytes_is(argv[3], "ALL")) {
        reply_error(reply, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    } else if (!number_parse_int64(argv[2], &timeout_ms)) {
        reply_error(reply, "ERR timeout is not an integer or out of range");
    } else if (timeout_ms < 0) {
        reply_error(reply, "ERR timeout is negative");
    } else {
        struct pause pause = pause_of(client);
        pause.until_ms = (uint64_t)timeout_ms; /* a duration; each worker adds its own time */
        pause.writes_only = writes_only;
        if (pause.space_len)
            request_gather(request, pause_visit, &pause, sizeof pause, pause_done);
        else
            keep_expired(request, &pause, shards_keep);
        client_hold(client, HOLD_ORDER); /* commands after this one are paused already */
    }
}

void local_client_unpause(struct client *client, struct request *request, struct reply *reply)
{
    const struct pause pause = pause_of(client);
    (void)reply;
    if (pause.space_len)
        request_gather(request, unpause_visit, &pause, sizeof pause, pause_done);
    else
        keep_expired(request, &pause, shards_expire);
}
