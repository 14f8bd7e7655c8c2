#include "proxy/client/monitor.h"

#include "proxy/core/handlers.h"
#include "proxy/core/proxy.h"
#include "proxy/core/request.h"
#include "proxy/core/transaction_queue.h"
#include "proxy/core/worker.h"
#include "shared/check.h"
#include "shared/command/monitor_line.h"
#include "shared/number.h"

#include <stdlib.h>

/* The lines of one turn for one worker: name_len, line_len, name, line, … */
struct batch {
    struct task task;
    struct proxy_worker *to;
    size_t len;
    char data[];
};

struct record {
    uint32_t name_len;
    uint32_t line_len;
};

/* ---- MONITOR clients -------------------------------------------------------------------------- */

bool monitor_is_on(const struct proxy *proxy)
{
    return atomic_load_explicit(&proxy->monitors, memory_order_relaxed) > 0;
}

void local_monitor(struct client *client, struct request *request, struct reply *reply)
{
    if (client_monitors(client)) { /* a second MONITOR has no reply, as in Redis */
        request->is_silent = true;
        return;
    }
    list_push(&client->worker->monitoring.clients, &client->links.monitor);
    atomic_fetch_add(&client->worker->monitoring.count, 1);
    atomic_fetch_add(&client->worker->proxy->monitors, 1);
    reply_ok(reply);
}

void monitor_leave(struct client *client)
{
    if (!client_monitors(client))
        return;
    list_remove(&client->links.monitor);
    atomic_fetch_sub(&client->worker->monitoring.count, 1);
    atomic_fetch_sub(&client->worker->proxy->monitors, 1);
}

bool monitor_refuses(struct client *client, const struct command *command)
{
    if (!(command->flags & (CMD_WRITE | CMD_READONLY | CMD_MAY_REPLICATE)))
        return false;
    client_reply_text(client, command, "ERR Replica can't interact with the keyspace");
    return true;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* The database that a line shows; for SELECT the new one. */
static uint8_t db_of(const struct client *client, const struct command *command,
                     const struct bytes *argv)
{
    int64_t db;
    bool moves = command->id == COMMAND_select && number_parse_int64(argv[1], &db) && db >= 0 &&
                 db < DATABASES;
    return moves ? (uint8_t)db : client->session.keyspace->db;
}

/* Keeps a line until the end of the turn. The bytes are moved out of `line`. */
static void keep_line(struct client *client, struct out *line)
{
    struct proxy_worker *worker = client->worker;
    struct bytes name = client->session.keyspace->name;
    struct record record = {(uint32_t)name.len, (uint32_t)line->bytes};
    out_write(&worker->monitoring.lines, &record, sizeof record);
    out_write(&worker->monitoring.lines, name.data, name.len);
    out_move(&worker->monitoring.lines, line);
}

void monitor_show_script(struct client *client, struct bytes line)
{
    struct out out;
    out_init(&out);
    out_write(&out, line.data, line.len);
    keep_line(client, &out);
}

static void show_to_monitors(struct client *client, const struct command *command,
                             const struct bytes *argv, uint32_t argc)
{
    struct proxy_worker *worker = client->worker;
    struct out line;
    if (command->flags & CMD_ADMIN || client->is_closed)
        return;
    const struct monitor_line shown = {.at_us = loop_wall_us(worker->loop),
                                       .db = db_of(client, command, argv),
                                       .peer = stream_peer(client->stream),
                                       .command = command,
                                       .argv = argv,
                                       .argc = argc};
    out_init(&line);
    monitor_line_write(&shown, &line);
    keep_line(client, &line);
}

/* transaction_queue_fn */
static bool show_queued(void *owner, const struct command *command, const struct bytes *argv,
                        uint32_t argc)
{
    if (command)
        show_to_monitors(owner, command, argv, argc);
    return true;
}

bool monitor_dispatch(struct client *client, const struct frame *frame, dispatch_fn *dispatch)
{
    struct proxy_worker *worker = client->worker;
    struct client_transaction *transaction = &client->session.transaction;
    const struct command *before = client->last_command;
    size_t mark = worker->monitoring.lines.bytes;
    uint32_t queued = transaction->is_open ? transaction->count : 0;
    bool is_exec = transaction->is_open && bytes_is(frame_arg(frame, 0), "EXEC");
    if (is_exec && !transaction->is_aborted)
        transaction_queue_each(transaction, show_queued, client); /* EXEC empties the queue */
    client->last_command = NULL;
    bool is_done = dispatch(client, frame);
    const struct command *command = client->last_command;
    if (!command) /* the request was refused */
        client->last_command = before;
    bool is_queued = !client->is_closed && transaction->is_open && transaction->count > queued;
    if (!is_done || !command || is_queued)
        out_truncate(&worker->monitoring.lines, mark);
    else
        show_to_monitors(client, command, argv_of(worker, frame), frame->argc);
    return is_done;
}

/* ---- lines for other workers ------------------------------------------------------------------ */

static void push_line(struct proxy_worker *worker, struct bytes name, struct bytes line)
{
    for (struct list *link = worker->monitoring.clients.next;
         link != &worker->monitoring.clients;) {
        struct client *client = container_of(link, struct client, links.monitor);
        struct bytes own = client->session.keyspace->name;
        link = link->next;
        if (own.len == 0 || bytes_equal(own, name))
            client_push(client, NULL, line.data, line.len);
    }
}

static void deliver(struct task *task)
{
    struct batch *batch = container_of(task, struct batch, task);
    struct proxy_worker *worker = batch->to;
    for (size_t at = 0; at < batch->len;) {
        struct record record;
        memcpy(&record, batch->data + at, sizeof record);
        const char *name = batch->data + at + sizeof record;
        at += sizeof record + record.name_len + record.line_len;
        push_line(worker, (struct bytes){name, record.name_len},
                  (struct bytes){name + record.name_len, record.line_len});
    }
    atomic_fetch_sub(&worker->monitoring.bytes, batch->len);
    free(batch);
    while (atomic_load(&worker->monitoring.is_cut) && !list_empty(&worker->monitoring.clients))
        client_kill(container_of(worker->monitoring.clients.next, struct client, links.monitor),
                    "its MONITOR lines exceed client-output-limit");
    atomic_store(&worker->monitoring.is_cut, false);
}

static void post_lines(struct proxy_worker *from, struct proxy_worker *to)
{
    size_t len = from->monitoring.lines.bytes;
    uint64_t limit = from->snapshot->config.client_output_limit_bytes;
    if (atomic_load(&to->monitoring.bytes) > limit) {
        atomic_store(&to->monitoring.is_cut, true);
        return;
    }
    struct batch *batch = malloc(sizeof *batch + len);
    CHECK(batch);
    *batch = (struct batch){.task = {.run = deliver}, .to = to, .len = len};
    out_copy(&from->monitoring.lines, batch->data);
    atomic_fetch_add(&to->monitoring.bytes, len);
    loop_post(to->loop, &batch->task);
}

void monitor_flush(struct proxy_worker *worker)
{
    const struct proxy *proxy = worker->proxy;
    if (!worker->monitoring.lines.bytes)
        return;
    for (uint32_t i = 0; i < proxy->worker_count; i++)
        if (proxy->workers[i] && atomic_load(&proxy->workers[i]->monitoring.count) > 0)
            post_lines(worker, proxy->workers[i]);
    out_clear(&worker->monitoring.lines);
}

void monitor_stop(struct proxy_worker *worker)
{
    CHECK(list_empty(&worker->monitoring.clients));
    out_clear(&worker->monitoring.lines);
}
