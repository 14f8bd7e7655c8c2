/*
 * local_acl_log.c - ACL LOG: refusals of this proxy and of the shards.
 *
 *   own log ──► frame ┐
 *   shard a ──► frame ├─► entries, equal ones merged, sorted by age ─► the newest
 *   shard b ──► frame ┘
 *
 *   an entry:  head count N  reason … username X  age-seconds T client-info Y
 *              └──────────┘  └────── what ─────┘  └───────── rest ─────────┘
 *
 * Shards refuse commands that only they see: those of scripts, and of transactions after the user's rules have changed.
 * Their entries describe the proxy's connection.
 */
#include "proxy/client/fan_out.h"
#include "proxy/client/users.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "proxy/local/local.h"
#include "shared/check.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SAME_EVENT_S = 60 }; /* as in acl_log.c */

/* One entry of a reply. */
struct entry {
    struct bytes head; /* up to the count */
    int64_t times;
    struct bytes what; /* reason, context, object and user name */
    struct bytes rest; /* from the age on */
    double age_s;
};

struct entries {
    struct entry *items;
    size_t count;
};

/* ---- reading replies ------------------------------------------------------------------------- */

static struct bytes between(struct bytes frame, size_t from, size_t to)
{
    return (struct bytes){frame.data + from, to - from};
}

/* Reads the entry at *pos and moves *pos after it. False: there is no valid entry. */
static bool read_entry(struct bytes frame, size_t *pos, struct entry *entry)
{
    struct resp_value head;
    struct resp_value name;
    struct resp_value value;
    size_t begin = *pos;
    size_t what = 0;
    *entry = (struct entry){0};
    if (!resp_value_next(frame, pos, &head) || (head.type != '*' && head.type != '%'))
        return false;
    for (int64_t i = head.type == '%' ? head.count : head.count / 2; i > 0; i--) {
        size_t before = *pos;
        if (!resp_value_next(frame, pos, &name))
            return false;
        size_t at = *pos;
        if (!resp_value_next(frame, pos, &value))
            return false;
        if (bytes_equal(name.text, BYTES("count"))) {
            entry->head = between(frame, begin, at);
            entry->times = value.count;
            what = *pos;
        } else if (bytes_equal(name.text, BYTES("age-seconds"))) {
            entry->what = between(frame, what, before);
            entry->rest = between(frame, before, before);
            (void)number_parse_double(value.text, &entry->age_s);
        }
    }
    if (!what || !entry->rest.data)
        return false;
    entry->rest.len = (size_t)(frame.data + *pos - entry->rest.data);
    return true;
}

static void add_entries(struct entries *entries, struct bytes frame)
{
    struct resp_value head;
    size_t pos = 0;
    if (!resp_value_next(frame, &pos, &head) || head.type != '*')
        return;
    for (int64_t i = 0; i < head.count; i++) {
        struct entry entry;
        if (!read_entry(frame, &pos, &entry))
            return;
        entries->items = realloc(entries->items, (entries->count + 1) * sizeof(*entries->items));
        CHECK(entries->items);
        entries->items[entries->count++] = entry;
    }
}

static int compare_ages(const void *a, const void *b)
{
    const struct entry *first = a;
    const struct entry *second = b;
    return (first->age_s > second->age_s) - (first->age_s < second->age_s);
}

/* Sorts equal refusals together, the newest first. */
static int compare_whats(const void *a, const void *b)
{
    const struct entry *first = a;
    const struct entry *second = b;
    int order = bytes_compare(first->what, second->what);
    return order ? order : compare_ages(a, b);
}

/* Merges equal refusals of several shards into one entry, as a single server would have counted them. */
static void add_up(struct entries *entries)
{
    size_t count = 0;
    qsort(entries->items, entries->count, sizeof(*entries->items), compare_whats);
    for (size_t i = 0; i < entries->count; i++) {
        struct entry *entry = &entries->items[i];
        struct entry *last = count ? &entries->items[count - 1] : NULL;
        if (last && bytes_equal(last->what, entry->what) &&
            entry->age_s - last->age_s <= SAME_EVENT_S)
            last->times += entry->times;
        else
            entries->items[count++] = *entry;
    }
    entries->count = count;
    qsort(entries->items, count, sizeof(*entries->items), compare_ages);
}

static void write_log_entry(struct out *out, const struct entry *entry)
{
    out_write(out, entry->head.data, entry->head.len);
    out_printf(out, ":%" PRId64 "\r\n", entry->times);
    out_write(out, entry->what.data, entry->what.len);
    out_write(out, entry->rest.data, entry->rest.len);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Writes the proxy's own reply: its entries, +OK for RESET, or an error. False: an error was replied. */
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

static void acl_log_done(struct client *client, struct request *request, struct reply *reply)
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
        add_up(&entries);
    size_t count = wanted_of(request) < entries.count ? wanted_of(request) : entries.count;
    reply_array(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        write_log_entry(reply->out, &entries.items[i]);
    out_clear(&out);
    free(text);
    free(entries.items);
}

static void acl_log_reset_done(struct client *client, struct request *request, struct reply *reply)
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
                    is_reset ? acl_log_reset_done : acl_log_done);
}
