/*
 * stream_rows.c - ids and entries of streams: as text, as bytes and as replies.
 */
#include "backend/commands/stream.h"

#include "backend/session/reply_stream.h"
#include "shared/check.h"
#include "shared/number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ID_TEXT_LIMIT = 127 };

bool stream_id_next(struct stream_id *id)
{
    if (id->seq < UINT64_MAX) {
        id->seq++;
        return true;
    }
    if (id->ms == UINT64_MAX)
        return false;
    id->ms++;
    id->seq = 0;
    return true;
}

bool stream_id_before(struct stream_id *id)
{
    if (id->seq > 0) {
        id->seq--;
        return true;
    }
    if (id->ms == 0)
        return false;
    id->ms--;
    id->seq = UINT64_MAX;
    return true;
}

/* As lenient as Redis: a text that is no strict integer is parsed by strtoull. */
static bool parse_half(const char *text, uint64_t *value)
{
    int64_t number;
    if (number_parse_int64(bytes_of(text), &number)) {
        *value = (uint64_t)number;
        return number >= 0;
    }
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *text != '\0' && *end == '\0';
}

bool stream_id_parse(struct bytes text, uint64_t seq_missing, bool is_strict, struct stream_id *id,
                     bool *has_seq)
{
    char copy[ID_TEXT_LIMIT + 1];
    if (text.len > ID_TEXT_LIMIT)
        return false;
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (has_seq)
        *has_seq = true;
    if (strcmp(copy, "-") == 0 || strcmp(copy, "+") == 0) {
        *id = copy[0] == '-' ? STREAM_ID_MIN : STREAM_ID_MAX;
        return !is_strict;
    }
    char *dash = strchr(copy, '-');
    if (dash)
        *dash = '\0';
    if (!parse_half(copy, &id->ms))
        return false;
    id->seq = dash ? 0 : seq_missing;
    if (!dash)
        return true;
    if (has_seq && strcmp(dash + 1, "*") == 0) {
        *has_seq = false;
        return true;
    }
    return parse_half(dash + 1, &id->seq);
}

void stream_id_invalid(struct call *call)
{
    call_error_text(call, "ERR Invalid stream ID specified as stream command argument");
}

bool stream_id_argument(struct call *call, uint32_t index, struct stream_id *id)
{
    if (stream_id_parse(call->argv[index], 0, true, id, NULL))
        return true;
    stream_id_invalid(call);
    return false;
}

bool stream_bound_argument(struct call *call, uint32_t index, bool is_last, struct stream_id *id)
{
    struct bytes text = call->argv[index];
    bool is_open = text.len > 1 && text.data[0] == '(';
    if (is_open)
        text = (struct bytes){text.data + 1, text.len - 1};
    if (!stream_id_parse(text, is_last ? UINT64_MAX : 0, is_open, id, NULL)) {
        stream_id_invalid(call);
        return false;
    }
    if (!is_open || (is_last ? stream_id_before(id) : stream_id_next(id)))
        return true;
    call_error_text(call, is_last ? "ERR invalid end ID for the interval"
                                  : "ERR invalid start ID for the interval");
    return false;
}

void stream_id_reply(struct reply *reply, struct stream_id id)
{
    char text[STREAM_ID_TEXT_MAX];
    reply_bulk(reply, (struct bytes){text, stream_id_format(text, id)});
}

/* Replies the entry as an array of `parts` elements, of which the caller replies those after the first two. */
static bool reply_entry(struct reply *reply, struct stream_id id, struct bytes row, uint32_t parts)
{
    uint32_t count;
    struct bytes string;
    if (!stream_entry_count(row, &count))
        return false;
    reply_array(reply, parts);
    stream_id_reply(reply, id);
    reply_array(reply, count);
    while (row.len && stream_entry_next(&row, &string))
        reply_bulk(reply, string);
    return true;
}

bool stream_entry_reply(struct call *call, struct stream_id id, struct bytes row)
{
    bool is_good = reply_entry(&call->reply, id, row, 2);
    if (!is_good)
        call_error(call, ERR_STORE);
    return is_good;
}

bool stream_entry_reply_delivered(struct call *call, struct stream_id id, struct bytes row,
                                  uint64_t idle_ms, uint64_t deliveries)
{
    if (!reply_entry(&call->reply, id, row, 4)) {
        call_error(call, ERR_STORE);
        return false;
    }
    reply_int(&call->reply, (int64_t)idle_ms);
    reply_int(&call->reply, (int64_t)deliveries);
    return true;
}

/* reply_stream_row_fn; a damaged row is replied as null. */
static void reply_stream_row(struct reply *reply, struct bytes key, struct bytes row, unsigned how)
{
    struct stream_id id;
    (void)how;
    if (!stream_id_decode(key, &id) || !reply_entry(reply, id, row, 2))
        reply_null(reply);
}

/* Clips the range to the existing ids; false: nothing is left. */
static bool clip_range(const struct entry *entry, struct stream_id *first, struct stream_id *last)
{
    if (entry->meta.size == 0)
        return false;
    if (stream_id_compare(*first, entry->meta.stream_first) < 0)
        *first = entry->meta.stream_first;
    if (stream_id_compare(*last, entry->meta.stream_last) > 0)
        *last = entry->meta.stream_last;
    return stream_id_compare(*first, *last) <= 0;
}

int64_t stream_count(struct call *call, struct entry *entry, struct stream_id first,
                     struct stream_id last, uint64_t most)
{
    if (!clip_range(entry, &first, &last) || most == 0)
        return 0;
    if (stream_id_compare(first, entry->meta.stream_first) == 0 &&
        stream_id_compare(last, entry->meta.stream_last) == 0)
        return (int64_t)(most < entry->meta.size ? most : entry->meta.size);
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    struct stream_id id;
    uint64_t count = 0;
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, first), &it);
    while (count < most && sub_iter_next(&it) && stream_id_decode(it.sub, &id) &&
           stream_id_compare(id, last) <= 0)
        count++;
    return sub_iter_fini(&it) ? (int64_t)count : -1;
}

bool stream_range_reply(struct call *call, struct entry *entry, struct stream_id first,
                        struct stream_id last, uint64_t most, unsigned how)
{
    bool is_reverse = how & STREAM_REVERSE;
    int64_t count = stream_count(call, entry, first, last, most);
    if (count < 0)
        return false;
    reply_array(&call->reply, count);
    if (count == 0)
        return true;
    CHECK(clip_range(entry, &first, &last));
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    struct stream_id id;
    bool is_good = true;
    if (is_reverse)
        sub_iter_init_reverse(call, entry, CF_STREAM, stream_id_encode(from, last), &it);
    else
        sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, first), &it);
    if (how & STREAM_ENDS_REPLY)
        return reply_stream_rows(call, &it, (uint64_t)count, reply_stream_row, 0);
    for (; is_good && count > 0 && sub_iter_next(&it); count--)
        is_good = stream_id_decode(it.sub, &id) && stream_entry_reply(call, id, it.value);
    return sub_iter_fini(&it) && call_rows_end(call, (uint64_t)count + !is_good);
}

/* Finds the first entry of the stream, or the last one. */
static bool find_outer_id(struct call *call, struct entry *entry, bool is_last,
                          struct stream_id *id)
{
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    if (is_last)
        sub_iter_init_reverse(call, entry, CF_STREAM,
                              stream_id_encode(from, entry->meta.stream_last), &it);
    else
        sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first),
                      &it);
    bool is_found = sub_iter_next(&it) && stream_id_decode(it.sub, id);
    if (!sub_iter_fini(&it))
        return false;
    if (!is_found)
        call_error(call, ERR_STORE);
    return is_found;
}

bool stream_find_ends(struct call *call, struct entry *entry)
{
    struct metadata *meta = &entry->meta;
    struct stream_id first = STREAM_ID_MIN;
    struct stream_id last = STREAM_ID_MIN;
    if (meta->size &&
        (!find_outer_id(call, entry, false, &first) || !find_outer_id(call, entry, true, &last)))
        return false;
    meta->stream_first = meta->stream_recorded_first = first;
    meta->stream_last = last;
    meta->stream_node_size = 0;
    if (meta->size == 0)
        meta->stream_node = (struct stream_node){0};
    return true;
}
