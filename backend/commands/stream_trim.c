/*
 * stream_trim.c - how much of a stream is to stay: XTRIM, and the same options of XADD.
 *
 * With ~ Redis removes whole nodes only, of 100 entries each; here hundreds are removed, never more than asked.
 */
#include "backend/commands/stream.h"
#include "shared/number.h"

enum {
    NODE_ENTRIES = 100,
    LIMIT_ROUGH = 100 * NODE_ENTRIES, /* of one rough trim, unless LIMIT says otherwise */
    SINGLES_MAX = 64,                 /* more entries are deleted as a range */
};

static bool is_word(struct bytes text, const char *word)
{
    return bytes_equal(text, bytes_of(word));
}

/* MAXLEN|MINID [=|~] value */
static int threshold_option(struct call *call, uint32_t *index, struct trim *trim, enum trim_by by)
{
    if (trim->by != TRIM_NONE) {
        call_error_text(call, "ERR syntax error, MAXLEN and MINID options at the same time are not "
                              "compatible");
        return -1;
    }
    uint32_t at = *index + 1;
    bool has_more = at + 1 < call->argc;
    trim->is_rough = has_more && is_word(call->argv[at], "~");
    if (has_more && (trim->is_rough || is_word(call->argv[at], "=")))
        at++;
    if (by == TRIM_ID && !stream_id_argument(call, at, &trim->id))
        return -1;
    if (by == TRIM_LENGTH && !call_int64(call, at, &trim->length))
        return -1;
    if (trim->length < 0) {
        call_error_text(call, "ERR The MAXLEN argument must be >= 0.");
        return -1;
    }
    trim->by = by;
    *index = at;
    return 1;
}

int stream_trim_option(struct call *call, uint32_t *index, struct trim *trim)
{
    struct bytes option = call->argv[*index];
    if (*index + 1 >= call->argc)
        return 0;
    if (bytes_is(option, "maxlen"))
        return threshold_option(call, index, trim, TRIM_LENGTH);
    if (bytes_is(option, "minid"))
        return threshold_option(call, index, trim, TRIM_ID);
    if (!bytes_is(option, "limit"))
        return 0;
    ++*index;
    if (!call_int64(call, *index, &trim->limit))
        return -1;
    if (trim->limit < 0) {
        call_error_text(call, "ERR The LIMIT argument must be >= 0.");
        return -1;
    }
    trim->limit_given = true;
    return 1;
}

bool stream_trim_complete(struct call *call, struct trim *trim, bool is_needed)
{
    const char *error = NULL;
    if (trim->limit && trim->by == TRIM_NONE)
        error = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
    else if (is_needed && trim->by == TRIM_NONE)
        error = "ERR syntax error, XTRIM must be called with a trimming strategy";
    else if (trim->limit_given && !trim->is_rough)
        error = "ERR syntax error, LIMIT cannot be used without the special ~ option";
    if (error) {
        call_error_text(call, error);
        return false;
    }
    if (trim->is_rough && !trim->limit_given)
        trim->limit = LIMIT_ROUGH;
    return true;
}

/* How many entries are to go; -1: the store failed. */
static int64_t entries_to_go(struct call *call, struct entry *entry, const struct trim *trim)
{
    uint64_t size = entry->meta.size;
    int64_t count = 0;
    if (trim->by == TRIM_LENGTH) {
        count = size > (uint64_t)trim->length ? (int64_t)(size - (uint64_t)trim->length) : 0;
    } else {
        struct stream_id last = trim->id;
        if (!stream_id_before(&last))
            return 0;
        count = stream_count(call, entry, STREAM_ID_MIN, last, size);
    }
    if (count <= 0 || !trim->is_rough)
        return count;
    if (trim->limit && count > trim->limit)
        count = trim->limit;
    return count - count % NODE_ENTRIES;
}

int64_t stream_trim(struct call *call, struct entry *entry, const struct trim *trim)
{
    int64_t count = entries_to_go(call, entry, trim);
    if (count <= 0)
        return count;
    char from[STREAM_ID_BYTES];
    char end[STREAM_ID_BYTES];
    struct stream_id ids[SINGLES_MAX];
    struct stream_id id = entry->meta.stream_first;
    struct sub_iter it;
    int64_t seen = 0;
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, id), &it);
    for (; seen < count && sub_iter_next(&it) && stream_id_decode(it.sub, &id); seen++)
        if (seen < SINGLES_MAX)
            ids[seen] = id;
    if (!sub_iter_fini(&it))
        return -1;
    if (seen < count) {
        call_error(call, ERR_STORE);
        return -1;
    }
    for (int64_t i = 0; count <= SINGLES_MAX && i < count; i++)
        sub_delete(call, entry, CF_STREAM, stream_id_encode(from, ids[i]));
    struct stream_id next = id;
    if (count > SINGLES_MAX && stream_id_next(&next)) {
        sub_delete_range(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first),
                         stream_id_encode(end, next));
        entry->meta.stream_first = next;
    } else if (count > SINGLES_MAX) {
        sub_delete_range(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first),
                         stream_id_encode(end, id));
        sub_delete(call, entry, CF_STREAM, stream_id_encode(end, id));
    }
    entry->meta.size -= (uint64_t)count;
    return stream_find_ends(call, entry) ? count : -1;
}
