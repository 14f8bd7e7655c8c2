/*
 * local_unblock.c - CLIENT UNBLOCK: the blocked client's worker requests that the backend ends the wait.
 */
#include "proxy/client/blocked.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/number.h"

enum { SPACE_MAX = 255 };

struct unblock {
    uint64_t id;
    bool with_error;
    /* 0: any client; else length of `space`: only clients in this namespace are unblocked */
    uint32_t space_len;
    char space[SPACE_MAX];
};

/* gather_visit_fn */
static void unblock_clients(struct proxy_worker *worker, const void *data, struct out *out)
{
    const struct unblock *unblock = data;
    for (struct list *link = worker->clients.all.next; link != &worker->clients.all;
         link = link->next) {
        struct client *client = container_of(link, struct client, links.all);
        if (client->id != unblock->id)
            continue;
        if (unblock->space_len && !bytes_equal(client->session.keyspace->name,
                                               (struct bytes){unblock->space, unblock->space_len}))
            return;
        if (blocked_unblock(client, unblock->with_error))
            out_write(out, "1", 1);
        return;
    }
}

static void unblock_done(struct client *client, struct request *request, struct reply *reply)
{
    int64_t count = 0;
    (void)client;
    for (uint32_t i = 0; i < request_gathered_count(request); i++)
        count += (int64_t)request_gathered(request, i)->bytes;
    reply_int(reply, count);
}

void local_client_unblock(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    int64_t id;
    bool with_error = argc == 4 && bytes_is(argv[3], "ERROR");
    if (argc > 4) {
        reply_errorf(
            reply,
            "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.",
            (int)(argv[1].len < 128 ? argv[1].len : 128), argv[1].data);
    } else if (argc == 4 && !with_error && !bytes_is(argv[3], "TIMEOUT")) {
        reply_error(reply, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    } else if (!number_parse_int64(argv[2], &id)) {
        reply_code(reply, ERR_NOT_INTEGER);
    } else {
        struct bytes space = client->session.keyspace->name;
        struct unblock unblock = {.id = (uint64_t)id, .with_error = with_error};
        unblock.space_len = space.len < SPACE_MAX ? (uint32_t)space.len : SPACE_MAX;
        memcpy(unblock.space, space.data, unblock.space_len);
        request_gather(request, unblock_clients, &unblock, sizeof unblock, unblock_done);
    }
}
