#include "proxy/pause.h"

#include "proxy/local.h"
#include "proxy/queued.h"
#include "proxy/request.h"
#include "proxy/worker.h"
#include "shared/number.h"

enum { HELD_FLAGS = CMD_WRITE | CMD_MAY_REPLICATE };

/* queued_fn: goes on until a command would write. */
static bool look_for_write(void *found, const struct command *command, const struct bytes *argv,
                           uint32_t argc)
{
    (void)argv;
    (void)argc;
    *(bool *)found = command && command->flags & HELD_FLAGS;
    return !*(bool *)found;
}

static bool is_write(const struct client *client, const struct command *command)
{
    bool found = command->flags & HELD_FLAGS;
    if (command->id == COMMAND_exec)
        queued_walk(&client->session.transaction, look_for_write, &found);
    return found;
}

bool pause_holds(struct client *client, const struct command *command)
{
    if (client->worker->paused_writes_only && !is_write(client, command))
        return false;
    client_hold(client, HOLD_PAUSED);
    return true;
}

static void end(struct proxy_worker *worker)
{
    worker->paused_until_ms = 0;
    for (struct list *link = worker->clients.next; link != &worker->clients;) {
        struct client *client = container_of(link, struct client, link);
        link = link->next;
        client_unhold(client, HOLD_PAUSED);
    }
}

bool pause_tick(struct proxy_worker *worker)
{
    if (worker->paused_until_ms &&
        (worker->is_stopping || loop_mono_ms(worker->loop) >= worker->paused_until_ms))
        end(worker);
    return worker->paused_until_ms != 0;
}

/* ---- CLIENT PAUSE, CLIENT UNPAUSE ------------------------------------------------------------- */

struct pause {
    uint64_t timeout_ms;
    bool writes_only;
};

/* gather_visit_fn */
static void pause_visit(struct proxy_worker *worker, const void *data, struct out *out)
{
    const struct pause *pause = data;
    uint64_t until_ms = loop_mono_ms(worker->loop) + pause->timeout_ms;
    bool writes_only = pause->writes_only;
    (void)out;
    if (worker->paused_until_ms) {
        writes_only = writes_only && worker->paused_writes_only;
        until_ms = until_ms > worker->paused_until_ms ? until_ms : worker->paused_until_ms;
    }
    worker->paused_until_ms = until_ms;
    worker->paused_writes_only = writes_only;
    proxy_worker_need_tick(worker);
}

/* gather_visit_fn */
static void unpause_visit(struct proxy_worker *worker, const void *data, struct out *out)
{
    (void)data;
    (void)out;
    end(worker);
}

static void done(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_ok(reply);
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
        const struct pause pause = {(uint64_t)timeout_ms, writes_only};
        request_gather(request, pause_visit, &pause, sizeof pause, done);
        client_hold(client, HOLD_ORDER); /* what follows is paused already */
    }
}

void local_client_unpause(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)reply;
    request_gather(request, unpause_visit, NULL, 0, done);
}
