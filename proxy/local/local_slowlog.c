/*
 * local_slowlog.c - SLOWLOG: slow requests of this proxy; SCREE SLOWLOG: with the slow logs of the shards; COMMANDLOG: slow
 * and large requests of this proxy.
 *
 * Clients in a namespace see and reset the entries of that namespace.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/node.h"
#include "proxy/core/proxy.h"
#include "proxy/core/slow_log.h"
#include "proxy/local/local.h"
#include "shared/command/command_reply.h"

static struct slow_log *slowlog_journal(const struct client *client)
{
    return client->worker->proxy->slow_log;
}

static slowlog_space slowlog_space_of(const struct client *client)
{
    const struct bytes *name = &client->session.keyspace->name;
    return name->len ? name : NULL;
}

void local_slowlog_get(struct client *client, struct request *request, struct reply *reply)
{
    char error[SLOWLOG_ERROR_MAX];
    int64_t count;
    if (!slowlog_parse_get(request_argv(request), request_argc(request), &count, error)) {
        reply_error(reply, error);
        return;
    }
    slow_log_lock(slowlog_journal(client));
    slowlog_reply(&slowlog_journal(client)->slowlogs[SLOWLOG_SLOW], slowlog_space_of(client), count,
                  reply);
    slow_log_unlock(slowlog_journal(client));
}

void local_slowlog_len(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    slow_log_lock(slowlog_journal(client));
    uint64_t count =
        slowlog_count(&slowlog_journal(client)->slowlogs[SLOWLOG_SLOW], slowlog_space_of(client));
    slow_log_unlock(slowlog_journal(client));
    reply_int(reply, (int64_t)count);
}

void local_slowlog_reset(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    slow_log_lock(slowlog_journal(client));
    slowlog_reset(&slowlog_journal(client)->slowlogs[SLOWLOG_SLOW], slowlog_space_of(client));
    slow_log_unlock(slowlog_journal(client));
    reply_ok(reply);
}

void local_slowlog_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}

/* ---- COMMANDLOG ---- */

/* The log of the kind that argument `at` names, locked; NULL: an error was replied. */
static struct slowlog *commandlog_begin(struct client *client, struct request *request, uint32_t at,
                                        int64_t *count, struct reply *reply)
{
    enum slowlog_kind kind;
    char error[SLOWLOG_ERROR_MAX];
    if (!commandlog_parse(request_argv(request), at, &kind, count, error)) {
        reply_error(reply, error);
        return NULL;
    }
    slow_log_lock(slowlog_journal(client));
    return &slowlog_journal(client)->slowlogs[kind];
}

void local_commandlog_get(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count;
    const struct slowlog *log = commandlog_begin(client, request, 3, &count, reply);
    if (!log)
        return;
    slowlog_reply(log, slowlog_space_of(client), count, reply);
    slow_log_unlock(slowlog_journal(client));
}

void local_commandlog_len(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count;
    const struct slowlog *log = commandlog_begin(client, request, 2, &count, reply);
    if (!log)
        return;
    reply_int(reply, (int64_t)slowlog_count(log, slowlog_space_of(client)));
    slow_log_unlock(slowlog_journal(client));
}

void local_commandlog_reset(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count;
    struct slowlog *log = commandlog_begin(client, request, 2, &count, reply);
    if (!log)
        return;
    slowlog_reset(log, slowlog_space_of(client));
    slow_log_unlock(slowlog_journal(client));
    reply_ok(reply);
}

void local_commandlog_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}

/* ---- SCREE SLOWLOG ---- */

static void reply_own(const struct client *client, int64_t count, struct reply *reply)
{
    const struct slowlog *log = &slowlog_journal(client)->slowlogs[SLOWLOG_SLOW];
    slow_log_lock(slowlog_journal(client));
    slowlog_space space = slowlog_space_of(client);
    int64_t all = (int64_t)slowlog_count(log, space);
    if (count < 0 || count > all)
        count = all;
    reply_bulk_text(reply, "proxy");
    reply_array(reply, count);
    for (const struct slow_entry *entry = log->newest;
         count > 0 && (entry = slowlog_next(entry, space)); entry = entry->next, count--) {
        reply_array(reply, 9);
        slowlog_reply_entry(entry, reply);
        reply_bulk(reply, entry->space);
        reply_bulk(reply, entry->shard);
        reply_int(reply, (int64_t)entry->shard_usec);
    }
    slow_log_unlock(slowlog_journal(client));
}

static void shards_done(struct client *client, struct request *request, struct reply *reply)
{
    const int64_t *count = request_state(request, sizeof *count);
    uint32_t shards = request_reply_count(request);
    reply_map(reply, shards + 1);
    reply_own(client, *count, reply);
    for (uint32_t i = 0; i < shards; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        reply_bulk_text(reply, answer->node->name);
        out_write_block(reply->out, answer->block, answer->frame.data, answer->frame.len);
    }
}

void local_scree_slowlog(struct client *client, struct request *request, struct reply *reply)
{
    static const struct bytes get[] = {{"SLOWLOG", 7}, {"GET", 3}};
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    char error[SLOWLOG_ERROR_MAX];
    int64_t count;
    if (!slowlog_parse_get(argv, argc, &count, error)) {
        reply_error(reply, error);
    } else if (slowlog_space_of(client)) {
        reply_map(reply, 1);
        reply_own(client, count, reply);
    } else {
        const struct bytes words[] = {get[0], get[1], argc == 3 ? argv[2] : BYTES("")};
        *(int64_t *)request_state(request, sizeof count) = count;
        request_fan_out(request, NULL, SHARDS_ALL, words, argc, shards_done);
    }
}
