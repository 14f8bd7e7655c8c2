/*
 * stream_delete.c - XDEL, XDELEX and XACKDEL: remove entries by their ids.
 */
#include "backend/commands/stream_node.h"
#include "backend/commands/stream_references.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/number.h"

bool stream_policy_option(struct bytes word, enum stream_policy *policy)
{
    static const struct {
        const char *word;
        enum stream_policy policy;
    } words[] = {
        {"KEEPREF", STREAM_KEEPREF},
        {"DELREF", STREAM_DELREF},
        {"ACKED", STREAM_ACKED},
    };
    if (*policy != STREAM_POLICY_NONE)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (bytes_is(word, words[i].word))
            *policy = words[i].policy;
    return *policy != STREAM_POLICY_NONE;
}

int stream_remove(struct call *call, struct entry *entry, struct stream_id id,
                  struct stream_removal *removal)
{
    char sub[STREAM_ID_BYTES];
    struct bytes value;
    struct metadata *meta = &entry->meta;
    int err = sub_get(call, entry, CF_STREAM, stream_id_encode(sub, id), &value);
    if (err)
        return err;
    if (stream_id_compare(id, meta->stream_first) == 0) {
        struct stream_node_limits limits = stream_node_limits(call);
        (void)stream_node_add(&meta->stream_node, &limits, id, value);
    }
    meta->stream_node_size = 0;
    sub_delete(call, entry, CF_STREAM, stream_id_encode(sub, id));
    meta->size--;
    if (stream_id_compare(id, meta->stream_max_deleted) > 0)
        meta->stream_max_deleted = id;
    removal->count++;
    if (stream_id_compare(id, meta->stream_first) == 0 ||
        stream_id_compare(id, meta->stream_last) == 0)
        removal->has_end = true;
    return OK;
}

bool stream_removal_end(struct call *call, struct entry *entry,
                        const struct stream_removal *removal)
{
    if (removal->has_end && !stream_find_ends(call, entry))
        return false;
    if (removal->count > 0) {
        entry_save(call, entry);
        call_changes(call, (int64_t)removal->count - 1);
        notify(call, NOTIFY_STREAM, "xdel", call->argv[1]);
    }
    return true;
}

void cmd_xdel(struct call *call)
{
    struct entry entry;
    struct stream_id id;
    struct stream_removal removal = {0};
    if (!keyspace_open_type(call, call->argv[1], TYPE_STREAM, OPEN_WRITE, &entry))
        return;
    for (uint32_t i = 2; entry.exists && i < call->argc; i++)
        if (!stream_id_argument(call, i, &id))
            return;
    for (uint32_t i = 2; entry.exists && i < call->argc; i++) {
        (void)stream_id_parse(call->argv[i], 0, true, &id, NULL);
        if (is_read_failure(stream_remove(call, &entry, id, &removal)))
            return;
    }
    if (stream_removal_end(call, &entry, &removal))
        reply_int(&call->reply, (int64_t)removal.count);
}

/* ---- XDELEX, XACKDEL ---- */

/* The reply for an id. */
enum { ID_MISSING = -1, ID_DELETED = 1, ID_KEPT = 2 };

struct deletion {
    enum stream_policy policy;
    uint32_t ids_at;
    uint32_t ids;
    struct entry entry;
    struct stream_references references;
    struct stream_removal removal;
};

/* Parses `[KEEPREF|DELREF|ACKED] IDS numids id …` from argument `at` on. */
static bool deletion_parse(struct call *call, uint32_t at, struct deletion *deletion)
{
    struct stream_id id;
    int64_t count;
    for (uint32_t i = at; i < call->argc; i++) {
        if (stream_policy_option(call->argv[i], &deletion->policy))
            continue;
        if (!bytes_is(call->argv[i], "IDS") || i + 1 == call->argc) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        if (!number_parse_int64(call->argv[i + 1], &count) || count < 1) {
            call_error_text(call, "ERR Number of IDs must be a positive integer");
            return false;
        }
        if (count > call->argc - i - 2) {
            call_error_text(call, "ERR The `numids` parameter must match the number of arguments");
            return false;
        }
        deletion->ids_at = i + 2;
        deletion->ids = (uint32_t)count;
        i += 1 + (uint32_t)count;
    }
    if (deletion->ids == 0) {
        call_error_text(call, "ERR IDS option is required");
        return false;
    }
    for (uint32_t i = 0; i < deletion->ids; i++)
        if (!stream_id_argument(call, deletion->ids_at + i, &id))
            return false;
    return true;
}

/* Opens the stream and reads its groups. False: an error was replied. */
static bool deletion_open(struct call *call, struct deletion *deletion)
{
    return keyspace_open_type(call, call->argv[1], TYPE_STREAM, OPEN_WRITE, &deletion->entry) &&
           (!deletion->entry.exists ||
            stream_references_read(call, &deletion->entry, &deletion->references));
}

/* Removes the entry if KEEPREF, DELREF or ACKED allows it. *what: the reply. Returns false if the store failed. */
static bool delete_id(struct call *call, struct deletion *deletion, struct stream_id id, int *what)
{
    struct entry *entry = &deletion->entry;
    char sub[STREAM_ID_BYTES];
    struct bytes row;
    *what = ID_MISSING;
    if (deletion->policy == STREAM_DELREF &&
        !stream_references_drop(call, entry, &deletion->references, id))
        return false;
    if (deletion->policy == STREAM_ACKED) {
        int err = sub_get(call, entry, CF_STREAM, stream_id_encode(sub, id), &row);
        int needed = err ? 0 : stream_references_has(call, entry, &deletion->references, id);
        if (is_read_failure(err) || needed < 0)
            return false;
        if (needed) {
            *what = ID_KEPT;
            return true;
        }
    }
    int err = stream_remove(call, entry, id, &deletion->removal);
    if (err == OK)
        *what = ID_DELETED;
    return !is_read_failure(err);
}

/* Acknowledges the entry in this group and removes it. An id that is not pending in the group is not removed. */
static bool ack_and_delete_id(struct call *call, struct deletion *deletion, uint64_t group,
                              struct stream_id id, int *what)
{
    int err = stream_references_ack(call, &deletion->entry, &deletion->references, group, id);
    *what = ID_MISSING;
    if (err == ERR_NOT_FOUND)
        return true;
    if (err || !delete_id(call, deletion, id, what))
        return false;
    if (*what == ID_MISSING)
        *what = ID_DELETED; /* acknowledged now, and removed from the stream earlier */
    return true;
}

/* Deletes the ids and replies the result for each. `group`: the number of the group that acknowledges (XACKDEL), or -1 (XDELEX). */
static void deletion_run(struct call *call, struct deletion *deletion, int64_t group)
{
    struct stream_id id;
    int64_t acked = 0;
    reply_array(&call->reply, deletion->ids);
    for (uint32_t i = 0; i < deletion->ids; i++) {
        int what;
        (void)stream_id_parse(call->argv[deletion->ids_at + i], 0, true, &id, NULL);
        if (!(group < 0 ? delete_id(call, deletion, id, &what)
                        : ack_and_delete_id(call, deletion, (uint64_t)group, id, &what)))
            return;
        acked += group >= 0 && what != ID_MISSING;
        reply_int(&call->reply, what);
    }
    stream_references_save(call, &deletion->entry, &deletion->references);
    if (acked)
        call_changes(call, acked - (int64_t)deletion->removal.count);
    (void)stream_removal_end(call, &deletion->entry, &deletion->removal);
}

static void reply_all_missing(struct call *call, const struct deletion *deletion)
{
    reply_array(&call->reply, deletion->ids);
    for (uint32_t i = 0; i < deletion->ids; i++)
        reply_int(&call->reply, ID_MISSING);
}

void cmd_xdelex(struct call *call)
{
    struct deletion deletion = {0};
    if (!deletion_parse(call, 2, &deletion) || !deletion_open(call, &deletion))
        return;
    if (deletion.entry.exists)
        deletion_run(call, &deletion, -1);
    else
        reply_all_missing(call, &deletion);
}

void cmd_xackdel(struct call *call)
{
    struct deletion deletion = {0};
    if (!deletion_parse(call, 3, &deletion) || !deletion_open(call, &deletion))
        return;
    int64_t group = stream_references_find(&deletion.references, call->argv[2]);
    if (deletion.entry.exists && group >= 0)
        deletion_run(call, &deletion, group);
    else
        reply_all_missing(call, &deletion);
}
