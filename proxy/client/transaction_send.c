#include "proxy/client/transaction_send.h"

#include "proxy/client/across.h"
#include "proxy/client/lane.h"
#include "proxy/client/monitor.h"
#include "proxy/client/users.h"
#include "proxy/core/client.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/upstream/upstream.h"
#include "shared/number.h"

bool transaction_selects(const struct command *command, const struct bytes *argv, uint32_t argc,
                         uint8_t *db)
{
    int64_t number;
    if (command->id != COMMAND_select || argc != 2 || !number_parse_int64(argv[1], &number) ||
        number < 0 || number >= DATABASES)
        return false; /* for a number that is not valid the shard replies an error */
    *db = (uint8_t)number;
    return true;
}

struct upstream *transaction_upstream(struct client *client, const struct command *command,
                                      const struct transaction_target *target)
{
    const struct client_transaction *transaction = &client->session.transaction;
    size_t bytes = transaction->queue.bytes;
    if (target->is_across && !transaction->dedicated)
        return across_upstream(client, command, target->shard, target->has_script);
    if (target->is_across ? !across_may_send(client, command)
                          : !client_may_send(client, client_label(client, command, bytes)))
        return NULL;
    struct upstream *upstream = client_upstream(client, target->shard, command, bytes);
    return upstream_is_full(upstream, client) ? NULL : upstream;
}

static void write_exec_as_user(struct client *client, struct upstream *upstream, struct part *part,
                               struct out *out)
{
    if (client->session.is_limited && *client->worker->snapshot->config.upstream_secret) {
        /* the user's rules may have changed since the commands were queued */
        users_write_head(client, upstream, part, out, 1);
    } else {
        upstream_write_header(upstream, part, out, 1);
    }
    resp_write_word(out, BYTES("EXEC"));
}

void transaction_send(struct client *client, struct upstream *upstream, struct part *part,
                      const struct transaction_target *target, struct transaction_frames *frames)
{
    struct request *request = part->request;
    bool is_shown = target->has_script && monitor_is_on(client->worker->proxy);
    struct out *out = upstream_begin(upstream, part, client->session.keyspace);
    if (!out) {
        out_clear(&frames->out);
        return;
    }
    part->prefixes |=
        (uint8_t)((is_shown ? PREFIX_SHOW : 0) | (target->is_across ? PREFIX_ACROSS : 0));
    out_write(out, "*1\r\n$5\r\nMULTI\r\n", 15);
    out_move(out, &frames->out);
    write_exec_as_user(client, upstream, part, out);
    part->swallow = frames->count + 1;
    request->exec.has_db = frames->has_select;
    request->exec.db = frames->db;
    upstream_commit(upstream, part);
    if (frames->has_select) {
        upstream_forget_keyspace(upstream);
        /* whether the session is in the new database depends on the reply */
        client_hold(client, HOLD_ORDER);
    }
    if (target->is_across)
        metric_add(client->worker->metrics.process, METRIC_PROXY_ACROSS, 1);
}
