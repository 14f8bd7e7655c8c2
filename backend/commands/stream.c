/*
 * stream.c - commands on the entries of a stream.
 */
#include "backend/commands/stream.h"

#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"

enum { ENTRY_BYTES_MAX = 1 << 30 };

static bool open_stream(struct call *call, enum open_flag flags, struct entry *entry)
{
    return keyspace_open_type(call, call->argv[1], TYPE_STREAM, flags, entry);
}

/* ---- adding ---- */

struct addition {
    bool is_update; /* NOMKSTREAM */
    bool id_given;
    bool has_seq;
    struct stream_id id;
    uint32_t fields_at;
    struct trim trim;
};

static bool parse_addition(struct call *call, struct addition *add)
{
    uint32_t i = 2;
    for (; i < call->argc && !bytes_equal(call->argv[i], BYTES("*")); i++) {
        int option = stream_trim_option(call, &i, &add->trim);
        if (option < 0)
            return false;
        if (option > 0)
            continue;
        if (bytes_is(call->argv[i], "nomkstream")) {
            add->is_update = true;
            continue;
        }
        add->id_given = true;
        if (!stream_id_parse(call->argv[i], 0, true, &add->id, &add->has_seq)) {
            stream_id_invalid(call);
            return false;
        }
        break;
    }
    if (!stream_trim_complete(call, &add->trim, false))
        return false;
    add->fields_at = i + 1;
    if (call->argc < i + 3 || (call->argc - i - 1) % 2 != 0) {
        call_error_arity(call);
        return false;
    }
    if (add->id_given && add->has_seq && stream_id_is_zero(add->id)) {
        call_error_text(call, "ERR The ID specified in XADD must be greater than 0-0");
        return false;
    }
    return true;
}

/* Chooses the id of the new entry; false: it would not be greater than the last id. */
static bool next_id(const struct call *call, const struct addition *add, struct stream_id last,
                    struct stream_id *id)
{
    *id = last;
    if (!add->id_given) {
        if (call->now_ms > last.ms)
            *id = (struct stream_id){call->now_ms, 0};
        else
            (void)stream_id_next(id);
    } else if (add->has_seq || add->id.ms != last.ms) {
        *id = add->id;
    } else if (last.seq < UINT64_MAX) {
        id->seq++;
    }
    return stream_id_compare(*id, last) > 0;
}

static bool entry_fits(const struct call *call, uint32_t from)
{
    uint64_t size = 0;
    for (uint32_t i = from; i < call->argc; i++)
        size += call->argv[i].len;
    return size <= ENTRY_BYTES_MAX;
}

static bool append_entry(struct call *call, struct entry *entry, const struct addition *add,
                         struct stream_id *id)
{
    struct metadata *meta = &entry->meta;
    const char *error = NULL;
    if (stream_id_compare(meta->stream_last_generated, STREAM_ID_MAX) == 0)
        error = "ERR The stream has exhausted the last possible ID, unable to add more items";
    else if (!next_id(call, add, meta->stream_last_generated, id))
        error = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    else if (!entry_fits(call, add->fields_at))
        error = "ERR Elements are too large to be stored";
    if (error) {
        call_error_text(call, error);
        return false;
    }
    char sub[STREAM_ID_BYTES];
    sub_put(
        call, entry, CF_STREAM, stream_id_encode(sub, *id),
        stream_entry_encode(call->arena, call->argv + add->fields_at, call->argc - add->fields_at));
    if (meta->size++ == 0)
        meta->stream_first = meta->stream_recorded_first = *id;
    meta->stream_last = meta->stream_last_generated = *id;
    meta->stream_entries_added++;
    return true;
}

void cmd_xadd(struct call *call)
{
    struct addition add = {0};
    struct entry entry;
    struct stream_id id;
    if (!parse_addition(call, &add) || !open_stream(call, OPEN_WRITE, &entry))
        return;
    if (!entry.exists && add.is_update) {
        reply_null(&call->reply);
        return;
    }
    if (!entry.exists)
        entry_create(call, &entry, TYPE_STREAM);
    if (!append_entry(call, &entry, &add, &id))
        return;
    int64_t trimmed = add.trim.by == TRIM_NONE ? 0 : stream_trim(call, &entry, &add.trim);
    if (trimmed < 0)
        return;
    entry_save(call, &entry);
    stream_id_reply(&call->reply, id);
    notify(call, NOTIFY_STREAM, "xadd", call->argv[1]);
    if (trimmed > 0)
        notify(call, NOTIFY_STREAM, "xtrim", call->argv[1]);
}

/* ---- removing ---- */

void cmd_xtrim(struct call *call)
{
    struct trim trim = {0};
    struct entry entry;
    for (uint32_t i = 2; i < call->argc; i++) {
        int option = stream_trim_option(call, &i, &trim);
        if (option == 0)
            call_error(call, ERR_SYNTAX);
        if (option <= 0)
            return;
    }
    if (!stream_trim_complete(call, &trim, true) || !open_stream(call, OPEN_WRITE, &entry))
        return;
    int64_t count = entry.exists ? stream_trim(call, &entry, &trim) : 0;
    if (count < 0)
        return;
    if (count > 0) {
        entry_save(call, &entry);
        call_changes(call, count - 1);
        notify(call, NOTIFY_STREAM, "xtrim", call->argv[1]);
    }
    reply_int(&call->reply, count);
}

/* ---- reading ---- */

void cmd_xlen(struct call *call)
{
    struct entry entry;
    if (open_stream(call, OPEN_READ, &entry))
        reply_int(&call->reply, entry.exists ? (int64_t)entry.meta.size : 0);
}

static void range(struct call *call, bool is_reverse)
{
    struct stream_id first;
    struct stream_id last;
    struct entry entry;
    int64_t count = -1;
    if (!stream_bound_argument(call, is_reverse ? 3 : 2, false, &first) ||
        !stream_bound_argument(call, is_reverse ? 2 : 3, true, &last))
        return;
    for (uint32_t i = 4; i < call->argc; i += 2) {
        if (i + 1 >= call->argc || !bytes_is(call->argv[i], "count")) {
            call_error(call, ERR_SYNTAX);
            return;
        }
        if (!call_int64(call, i + 1, &count))
            return;
        count = count < 0 ? 0 : count;
    }
    if (!open_stream(call, OPEN_READ, &entry))
        return;
    if (entry.exists && count == 0)
        reply_null_array(&call->reply);
    else
        (void)stream_range_reply(call, &entry, first, last,
                                 count < 0 ? UINT64_MAX : (uint64_t)count,
                                 STREAM_ENDS_REPLY | (is_reverse ? STREAM_REVERSE : 0));
}

void cmd_xrange(struct call *call)
{
    range(call, false);
}

void cmd_xrevrange(struct call *call)
{
    range(call, true);
}

/* ---- XSETID ---- */

static bool setid_options(struct call *call, struct stream_id id, int64_t *added,
                          struct stream_id *deleted)
{
    for (uint32_t i = 3; i < call->argc; i += 2) {
        bool has_value = i + 1 < call->argc;
        if (has_value && bytes_is(call->argv[i], "entriesadded")) {
            if (!call_int64(call, i + 1, added))
                return false;
            if (*added >= 0)
                continue;
            call_error_text(call, "ERR entries_added must be positive");
        } else if (has_value && bytes_is(call->argv[i], "maxdeletedid")) {
            if (!stream_id_argument(call, i + 1, deleted))
                return false;
            if (stream_id_compare(id, *deleted) >= 0)
                continue;
            call_error_text(call, "ERR The ID specified in XSETID is smaller than the provided "
                                  "max_deleted_entry_id");
        } else {
            call_error(call, ERR_SYNTAX);
        }
        return false;
    }
    return true;
}

void cmd_xsetid(struct call *call)
{
    struct stream_id id;
    struct stream_id deleted = STREAM_ID_MIN;
    struct entry entry;
    int64_t added = -1;
    if (!stream_id_argument(call, 2, &id) || !setid_options(call, id, &added, &deleted) ||
        !open_stream(call, OPEN_WRITE, &entry))
        return;
    struct metadata *meta = &entry.meta;
    const char *error = NULL;
    if (!entry.exists)
        error = "ERR no such key";
    else if (stream_id_compare(id, meta->stream_max_deleted) < 0)
        error = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
    else if (meta->size && stream_id_compare(id, meta->stream_last) < 0)
        error = "ERR The ID specified in XSETID is smaller than the target stream top item";
    else if (meta->size && added >= 0 && meta->size > (uint64_t)added)
        error =
            "ERR The entries_added specified in XSETID is smaller than the target stream length";
    if (error) {
        call_error_text(call, error);
        return;
    }
    meta->stream_last_generated = id;
    if (added >= 0)
        meta->stream_entries_added = (uint64_t)added;
    if (!stream_id_is_zero(deleted))
        meta->stream_max_deleted = deleted;
    entry.is_untold = true;
    entry_save(call, &entry);
    call_changes(call, 1);
    reply_ok(&call->reply);
    notify(call, NOTIFY_STREAM, "xsetid", call->argv[1]);
}
