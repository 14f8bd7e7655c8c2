/*
 * local_command.c - COMMAND and its subcommands, made of the command table.
 */
#include "proxy/core/request.h"
#include "proxy/local/local.h"
#include "shared/command/command_reply.h"

void local_command(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    command_reply_all(reply);
}

void local_command_count(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    (void)request;
    command_reply_count(reply);
}

void local_command_info(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_info(reply, request_argv(request), request_argc(request));
}

void local_command_docs(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_docs(reply, request_argv(request), request_argc(request));
}

void local_command_list(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_list(reply, request_argv(request), request_argc(request));
}

void local_command_getkeys(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_getkeys(reply, request_argv(request), request_argc(request));
}

void local_command_getkeysandflags(struct client *client, struct request *request,
                                   struct reply *reply)
{
    (void)client;
    command_reply_getkeysandflags(reply, request_argv(request), request_argc(request));
}

static void reply_help(const struct request *request, struct reply *reply)
{
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}

void local_command_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_help(request, reply);
}

void local_client_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_help(request, reply);
}

void local_config_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_help(request, reply);
}

void local_cluster_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_help(request, reply);
}

void local_scree_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    reply_help(request, reply);
}
