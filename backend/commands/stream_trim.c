/*
 * stream_trim.c - XTRIM, and the trim options of XADD.
 *
 * With "~" only whole nodes of Redis are removed (stream_node.h).
 */
#include "backend/commands/stream_node.h"
#include "backend/commands/stream_references.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "shared/number.h"

enum {
    NODES_ROUGH = 100, /* nodes that a trim with "~" may remove, unless LIMIT is given */
    LIMIT_ROUGH_MAX = 1000000,
    LIMIT_WITHOUT_NODES = 10000,
    /* rows to read after the nodes to be removed, to get the size of the next node */
    ROWS_AHEAD = 1000,
    SINGLES_MAX = 64, /* more entries are deleted as a range */
};

static bool is_word(struct bytes text, const char *word)
{
    return bytes_equal(text, bytes_of(word));
}

/* Parses MAXLEN|MINID [=|~] value. */
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
    if (stream_policy_option(option, &trim->policy))
        return 1;
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
    return true;
}

/* ---- number of entries to remove ---- */

/* State of the search for whole nodes to remove, from the first entry on. */
struct rough {
    const struct trim *trim;
    int64_t size;    /* entries of the stream */
    int64_t limit;   /* 0: unlimited */
    int64_t to_go;   /* entries of the nodes to remove */
    int64_t live;    /* entries of the current node so far */
    bool is_stopped; /* the current node is kept; the iteration only completes its size */
    int64_t more;    /* rows that the search may still read */
};

/* LIMIT, or Redis' default. */
int64_t stream_trim_limit(const struct call *call, const struct trim *trim)
{
    if (trim->limit_given)
        return trim->limit;
    int64_t node = call->partition->snapshot->stream_node_entries;
    if (node <= 0)
        return LIMIT_WITHOUT_NODES;
    return node > LIMIT_ROUGH_MAX / NODES_ROUGH ? LIMIT_ROUGH_MAX : node * NODES_ROUGH;
}

/* Can the current node still be removed, if it also has the entry with this id? */
static bool may_go(const struct rough *rough, struct stream_id id)
{
    int64_t going = rough->to_go + rough->live + 1;
    if (rough->limit && going > rough->limit)
        return false;
    if (rough->trim->by == TRIM_ID)
        return stream_id_compare(id, rough->trim->id) < 0;
    return rough->size - rough->to_go > rough->trim->length &&
           rough->size - going >= rough->trim->length;
}

/* Could an entry be removed, or with "~" a whole node? Decides by the metadata, without reading a row. */
static bool finds_work(const struct metadata *meta, const struct trim *trim)
{
    if (meta->size == 0)
        return false;
    if (trim->by == TRIM_ID)
        return stream_id_compare(meta->stream_first, trim->id) < 0;
    bool has_node = trim->is_rough && meta->stream_node_size;
    uint64_t least = has_node ? meta->stream_node_size : 1;
    return meta->size >= least && meta->size - least >= (uint64_t)trim->length;
}

/* Number of entries in whole nodes to remove. As in Redis, a node is removed with all of its entries or not at all.
 * Stores the size of the first remaining node, as far as known, for the next call. -1: the store failed. */
static int64_t whole_nodes(struct call *call, struct entry *entry, const struct trim *trim)
{
    struct metadata *meta = &entry->meta;
    if (!finds_work(meta, trim))
        return 0;
    struct rough rough = {.trim = trim, .size = (int64_t)meta->size, .more = ROWS_AHEAD};
    struct stream_node_limits limits = stream_node_limits(call);
    struct stream_node node = meta->stream_node;
    struct sub_iter it;
    struct stream_id id;
    char from[STREAM_ID_BYTES];
    rough.limit = stream_trim_limit(call, trim);
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, meta->stream_first), &it);
    while (rough.more > 0 && sub_iter_next(&it) && stream_id_decode(it.sub, &id)) {
        if (stream_node_add(&node, &limits, id, it.value) && rough.live) {
            if (rough.is_stopped)
                break;
            rough.to_go += rough.live;
            rough.live = 0;
        }
        rough.is_stopped = rough.is_stopped || !may_go(&rough, id);
        rough.live++;
        rough.more -= rough.is_stopped;
    }
    if (!sub_iter_fini(&it))
        return -1;
    if (!rough.is_stopped) /* the last node is removed too */
        return rough.to_go + rough.live;
    meta->stream_node_size = (uint64_t)rough.live;
    return rough.to_go;
}

/* Number of entries to remove; -1: the store failed. */
static int64_t entries_to_go(struct call *call, struct entry *entry, const struct trim *trim)
{
    uint64_t size = entry->meta.size;
    if (trim->is_rough)
        return whole_nodes(call, entry, trim);
    if (trim->by == TRIM_LENGTH)
        return size > (uint64_t)trim->length ? (int64_t)(size - (uint64_t)trim->length) : 0;
    struct stream_id last = trim->id;
    return stream_id_before(&last) ? stream_count(call, entry, STREAM_ID_MIN, last, size) : 0;
}

/* ---- removal ---- */

/* Reads the first `count` entries, which will be removed: returns the ids of up to SINGLES_MAX entries and the last
 * id, and adds the entries to stream_node as the removed front of their node. False: the store failed. */
static bool look_at_first(struct call *call, struct entry *entry, int64_t count,
                          struct stream_id ids[SINGLES_MAX], struct stream_id *last)
{
    struct stream_node_limits limits = stream_node_limits(call);
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    int64_t seen = 0;
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first), &it);
    for (; seen < count && sub_iter_next(&it) && stream_id_decode(it.sub, last); seen++) {
        (void)stream_node_add(&entry->meta.stream_node, &limits, *last, it.value);
        if (seen < SINGLES_MAX)
            ids[seen] = *last;
    }
    if (!sub_iter_fini(&it))
        return false;
    if (seen < count)
        call_error(call, ERR_STORE);
    return seen == count;
}

/* Ends the pending state of the first `count` entries in all groups; false: the store failed. */
static bool drop_references(struct call *call, struct entry *entry, int64_t count,
                            struct stream_references *references)
{
    struct stream_id *ids = call_array(call, (uint64_t)count, sizeof *ids);
    char from[STREAM_ID_BYTES];
    struct sub_iter it;
    int64_t found = 0;
    if (!ids)
        return false;
    sub_iter_init(call, entry, CF_STREAM, stream_id_encode(from, entry->meta.stream_first), &it);
    while (found < count && sub_iter_next(&it) && stream_id_decode(it.sub, &ids[found]))
        found++;
    if (!sub_iter_fini(&it))
        return false;
    for (int64_t i = 0; i < found; i++)
        if (!stream_references_drop(call, entry, references, ids[i]))
            return false;
    stream_references_save(call, entry, references);
    return true;
}

/* Removes the first `count` entries. -1: the store failed. */
static int64_t trim_first(struct call *call, struct entry *entry, const struct trim *trim,
                          int64_t count)
{
    char from[STREAM_ID_BYTES];
    char end[STREAM_ID_BYTES];
    struct stream_id ids[SINGLES_MAX];
    struct stream_id id = entry->meta.stream_first;
    uint64_t node_size = entry->meta.stream_node_size;
    if (!look_at_first(call, entry, count, ids, &id))
        return -1;
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
    if (!stream_find_ends(call, entry))
        return -1;
    if (trim->is_rough) {
        entry->meta.stream_node = (struct stream_node){0};
        entry->meta.stream_node_size = entry->meta.size ? node_size : 0;
    }
    return count;
}

int64_t stream_trim(struct call *call, struct entry *entry, const struct trim *trim)
{
    struct stream_references references = {0};
    bool has_policy = trim->policy == STREAM_DELREF || trim->policy == STREAM_ACKED;
    if (!finds_work(&entry->meta, trim))
        return 0;
    if (has_policy && !stream_references_read(call, entry, &references))
        return -1;
    if (trim->policy == STREAM_ACKED && references.count)
        return stream_trim_acked(call, entry, trim, &references);
    int64_t count = entries_to_go(call, entry, trim);
    if (count > 0 && references.count && !drop_references(call, entry, count, &references))
        return -1;
    return count > 0 ? trim_first(call, entry, trim, count) : count;
}
