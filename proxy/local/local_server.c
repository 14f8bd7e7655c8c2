/*
 * local_server.c - TIME, ROLE and other short replies of the proxy.
 */
#include "proxy/core/client.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/net/loop.h"
#include "shared/version.h"

void local_time(struct client *client, struct request *request, struct reply *reply)
{
    uint64_t now_us = loop_wall_us(client->worker->loop);
    (void)request;
    reply_array(reply, 2);
    reply_bulk_int(reply, (int64_t)(now_us / 1000000));
    reply_bulk_int(reply, (int64_t)(now_us % 1000000));
}

void local_role(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_array(reply, 3);
    reply_bulk_text(reply, "master");
    reply_int(reply, 0);
    reply_array(reply, 0);
}

void local_lolwut(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    struct out out;
    out_init(&out);
    out_printf(&out, "A scree is a slope of loose stones: many, each on its own.\nRedis ver. %s\n",
               version_text());
    reply_verbatim_out(reply, "txt", &out);
}

void local_module_list(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    reply_array(reply, 0);
}
