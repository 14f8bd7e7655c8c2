/*
 * local_acl_log.c - ACL LOG: what users were refused here, and what the shards refused for them.
 *
 *   own log ──► frame ┐
 *   shard a ──► frame ├─► entries, by their age ─► the newest
 *   shard b ──► frame ┘
 *
 * Shards refuse what only they see: commands of scripts, and of transactions whose user's rules have changed. Their
 * entries describe the connection it came on.
 */
#include "proxy/local.h"
#include "proxy/users.h"
#include "proxy/worker.h"
#include "shared/check.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

/* An entry in somebody's reply. */
struct entry {
    struct bytes frame;
    double age_s;
};

struct entries {
    struct entry *items;
    size_t count;
};

/* ---- reading replies ------------------------------------------------------------------------- */

/* The field "age-seconds" of the entry at *pos, which moves behind it. False: it is not an entry. */
static bool read_entry(struct bytes frame, size_t *pos, double *age_s)
{
    struct resp_value head;
    struct resp_value name;
    if (!resp_value_next(frame, pos, &head) || (head.type != '*' && head.type != '%'))
        return false;
    *age_s = 0;
    for (int64_t i = head.type == '%' ? head.count : head.count / 2; i > 0; i--) {
        size_t at;
        struct resp_value value;
        if (!resp_value_next(frame, pos, &name))
            return false;
        at = *pos;
        if (!resp_value_skip(frame, pos))
            return false;
        if (bytes_equal(name.text, BYTES("age-seconds")) && resp_value_next(frame, &at, &value))
            (void)number_parse_double(value.text, age_s);
    }
    return true;
}

static void add_entries(struct entries *entries, struct bytes frame)
{
    struct resp_value head;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &head) || head.type != '*' || head.count <= 0)
        return;
    for (int64_t i = 0; i < head.count; i++) {
        size_t at = pos;
        double age_s;
        if (!read_entry(frame, &pos, &age_s))
            return;
        entries->items = realloc(entries->items, (entries->count + 1) * sizeof(*entries->items));
        CHECK(entries->items);
        entries->items[entries->count++] = (struct entry){{frame.data + at, pos - at}, age_s};
    }
}

static int compare_ages(const void *a, const void *b)
{
    const struct entry *first = a;
    const struct entry *second = b;
    if (first->age_s != second->age_s)
        return first->age_s < second->age_s ? -1 : 1;
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The own answer; an error is one too. False: it is. */
static bool answer_alone(struct client *client, struct request *request, struct reply *reply)
{
    char error[ACL_ERROR_MAX];
    if (users_reply_log(client, reply, request_argv(request), request_argc(request), error))
        return true;
    reply_error(reply, error);
    return false;
}

static void add_shards(struct request *request, struct entries *entries)
{
    for (uint32_t i = 0; i < request_reply_count(request); i++)
        if (!request_reply(request, i)->is_failure)
            add_entries(entries, request_reply(request, i)->frame);
}

static size_t wanted_of(const struct request *request)
{
    int64_t wanted = 10;
    if (request_argc(request) == 3)
        (void)number_parse_int64(request_argv(request)[2], &wanted);
    return wanted > 0 ? (size_t)wanted : 0;
}

static void list_done(struct client *client, struct request *request, struct reply *reply)
{
    struct entries entries = {0};
    struct out out;
    struct reply own = {.out = &out, .resp = reply->resp};
    out_init(&out);
    CHECK(answer_alone(client, request, &own));
    char *text = malloc(out.bytes + 1);
    CHECK(text);
    out_copy(&out, text);
    add_shards(request, &entries);
    add_entries(&entries, (struct bytes){text, out.bytes});
    if (entries.count)
        qsort(entries.items, entries.count, sizeof(*entries.items), compare_ages);
    size_t count = wanted_of(request) < entries.count ? wanted_of(request) : entries.count;
    reply_array(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        out_write(reply->out, entries.items[i].frame.data, entries.items[i].frame.len);
    out_clear(&out);
    free(text);
    free(entries.items);
}

static void reset_done(struct client *client, struct request *request, struct reply *reply)
{
    (void)answer_alone(client, request, reply);
}

void local_acl_log(struct client *client, struct request *request, struct reply *reply)
{
    const struct bytes *argv = request_argv(request);
    bool is_reset = request_argc(request) == 3 && bytes_is(argv[2], "RESET");
    char error[ACL_ERROR_MAX];
    struct out out;
    struct reply trial = {.out = &out, .resp = reply->resp};
    if (local_acl_is_tenant(client, reply))
        return;
    if (!*client->worker->snapshot->config.upstream_secret) {
        (void)answer_alone(client, request, reply);
        return;
    }
    out_init(&out);
    bool good = is_reset || users_reply_log(client, &trial, argv, request_argc(request), error);
    out_clear(&out);
    if (!good) {
        reply_error(reply, error);
        return;
    }
    request_keep(request);
    request_fan_out(request, NULL, SHARDS_ALL, request_argv(request), request_argc(request),
                    is_reset ? reset_done : list_done);
}
