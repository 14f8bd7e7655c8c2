/*
 * local_acl.c - ACL at the proxy: users of the aclfile and of ACL SETUSER.
 *
 *   SETUSER ─► main thread: copy, change, publish ─► all workers have the new snapshot ─► +OK
 *
 * A change applies to this proxy only; ACL SAVE writes it to the aclfile. Clients in a namespace can neither see nor
 * change users (CMD_OPERATOR).
 */
#include "proxy/client/users.h"
#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/command/command_reply.h"
#include "shared/log.h"

#include <errno.h>
#include <stdlib.h>

static const struct acl *users_of(const struct client *client)
{
    return client->worker->snapshot->users;
}

/* ---- reading users --------------------------------------------------------------------------- */

void local_acl_whoami(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    reply_bulk(reply, users_name(client));
}

void local_acl_users(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    acl_reply_users(reply, users_of(client));
}

void local_acl_list(struct client *client, struct request *request, struct reply *reply)
{
    (void)request;
    acl_reply_list(reply, users_of(client));
}

void local_acl_getuser(struct client *client, struct request *request, struct reply *reply)
{
    acl_reply_getuser(reply, users_of(client), request_argv(request));
}

void local_acl_cat(struct client *client, struct request *request, struct reply *reply)
{
    char error[ACL_ERROR_MAX];
    (void)client;
    if (!acl_reply_cat(reply, request_argv(request), request_argc(request), error))
        reply_error(reply, error);
}

void local_acl_genpass(struct client *client, struct request *request, struct reply *reply)
{
    char error[ACL_ERROR_MAX];
    (void)client;
    if (!acl_reply_genpass(reply, request_argv(request), request_argc(request), error))
        reply_error(reply, error);
}

void local_acl_dryrun(struct client *client, struct request *request, struct reply *reply)
{
    char error[ACL_ERROR_MAX];
    if (!acl_reply_dryrun(reply, users_of(client), request_argv(request), request_argc(request),
                          error))
        reply_error(reply, error);
}

void local_acl_help(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    command_reply_help(reply, command_of(request->command->parent), HANDLER_PROXY);
}

/* ---- changing users -------------------------------------------------------------------------- */

/* Result of the main thread: an error, or none; and for DELUSER the number of users. */
struct outcome {
    int64_t count;
    char error[ACL_ERROR_MAX];
};

/* All workers have the new users. */
static void change_done(struct client *client, struct request *request, struct reply *reply)
{
    const struct outcome *outcome = request_state(request, sizeof(*outcome));
    (void)client;
    if (request->command->id == COMMAND_acl_deluser) /* the only one that replies a number */
        reply_int(reply, outcome->count);
    else
        reply_ok(reply);
}

static void work_done(struct client *client, struct request *request, struct reply *reply)
{
    struct outcome *outcome = request_state(request, sizeof(*outcome));
    (void)client;
    out_copy(request_gathered(request, 0), (char *)outcome);
    if (*outcome->error)
        reply_error(reply, outcome->error);
    else
        local_when_published(request, change_done);
}

/* Publishes the snapshot with the new users; NULL: nothing changed. */
static void finish_change(struct proxy *proxy, struct proxy_snapshot *fresh,
                          const struct outcome *outcome, struct out *out)
{
    if (fresh)
        proxy->calls->publish(proxy, fresh);
    out_write(out, outcome, sizeof(*outcome));
}

/* Passes the request to the main thread; later commands of the client wait for the new users. */
static void go_to_main(struct client *client, struct request *request, main_work_fn *work,
                       const void *data, size_t size)
{
    request_on_main(request, work, data, size, work_done);
    client_hold(client, HOLD_ORDER);
}

/* A request as it is sent to the main thread: lengths of the arguments, then their bytes. */
struct sentence {
    uint32_t argc;
    uint32_t lens[];
};

static struct sentence *sentence_new(const struct request *request, size_t *size)
{
    const struct bytes *argv = request_argv(request);
    uint32_t argc = request_argc(request);
    *size = sizeof(struct sentence) + argc * sizeof(uint32_t);
    for (uint32_t i = 0; i < argc; i++)
        *size += argv[i].len;
    struct sentence *sentence = malloc(*size);
    CHECK(sentence);
    sentence->argc = argc;
    char *at = (char *)&sentence->lens[argc];
    for (uint32_t i = 0; i < argc; i++) {
        sentence->lens[i] = (uint32_t)argv[i].len;
        memcpy(at, argv[i].data, argv[i].len);
        at += argv[i].len;
    }
    return sentence;
}

static struct bytes *sentence_argv(const struct sentence *sentence)
{
    const char *at = (const char *)&sentence->lens[sentence->argc];
    struct bytes *argv = calloc(sentence->argc, sizeof(*argv));
    CHECK(argv);
    for (uint32_t i = 0; i < sentence->argc; i++) {
        argv[i] = (struct bytes){at, sentence->lens[i]};
        at += sentence->lens[i];
    }
    return argv;
}

/* SETUSER and DELUSER, on the main thread. */
static void change_work(struct proxy *proxy, const void *data, struct out *out)
{
    const struct sentence *sentence = data;
    const struct proxy_snapshot *snapshot = proxy->snapshot;
    struct bytes *argv = sentence_argv(sentence);
    struct acl *users = acl_copy(snapshot->users);
    struct outcome outcome = {0};
    bool all_channels = snapshot->config.acl_pubsub_default == ACL_CHANNELS_ALL;
    bool good = bytes_is(argv[1], "SETUSER")
                    ? acl_setuser(users, argv, sentence->argc, all_channels, outcome.error)
                    : acl_deluser(users, argv, sentence->argc, &outcome.count, outcome.error);
    finish_change(proxy, good ? snapshot_with_users(snapshot, acl_ref(users)) : NULL, &outcome,
                  out);
    acl_unref(users);
    free(argv);
}

static void change_users(struct client *client, struct request *request)
{
    size_t size;
    struct sentence *sentence = sentence_new(request, &size);
    go_to_main(client, request, change_work, sentence, size);
    free(sentence);
}

void local_acl_setuser(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    change_users(client, request);
}

void local_acl_deluser(struct client *client, struct request *request, struct reply *reply)
{
    (void)reply;
    change_users(client, request);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void load_work(struct proxy *proxy, const void *data, struct out *out)
{
    char reason[RELOAD_TEXT_MAX - 256];
    struct outcome outcome = {0};
    (void)data;
    struct proxy_snapshot *fresh = snapshot_load_users(proxy->snapshot, reason, sizeof(reason));
    if (!fresh)
        acl_load_error(reason, outcome.error);
    finish_change(proxy, fresh, &outcome, out);
}

static void save_work(struct proxy *proxy, const void *data, struct out *out)
{
    struct outcome outcome = {0};
    (void)data;
    struct proxy_snapshot *fresh = snapshot_save_users(proxy->snapshot);
    if (!fresh) {
        log_event(LOG_ERROR, "acl_save_failed", "path=" LOG_QUOTED " reason=" LOG_QUOTED,
                  proxy->snapshot->users_path, strerror(errno));
        (void)snprintf(outcome.error, sizeof(outcome.error), "%s", acl_save_error);
    }
    finish_change(proxy, fresh, &outcome, out);
}

static void with_file(struct client *client, struct request *request, struct reply *reply,
                      main_work_fn *work)
{
    if (client->worker->snapshot->users_path)
        go_to_main(client, request, work, NULL, 0);
    else
        reply_error(reply, acl_no_file_error);
}

void local_acl_load(struct client *client, struct request *request, struct reply *reply)
{
    with_file(client, request, reply, load_work);
}

void local_acl_save(struct client *client, struct request *request, struct reply *reply)
{
    with_file(client, request, reply, save_work);
}
