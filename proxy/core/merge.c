#include "proxy/core/merge.h"

#include "shared/check.h"
#include "shared/error_code.h"
#include "shared/table.h"

#include <stdlib.h>
#include <string.h>

static bool is_error_part(const struct shard_reply *part)
{
    return part->frame.data[0] == '-' || part->frame.data[0] == '!';
}

static void forward_part(const struct shard_reply *part, struct out *out)
{
    out_write_block(out, part->block, part->frame.data, part->frame.len);
}

/* ---- errors ---------------------------------------------------------------------------------- */

void reply_shard_refusal(struct reply *reply, const struct shard_reply *part)
{
    struct resp_value value;
    size_t pos = 0;
    if (part->is_failure || !resp_value_next(part->frame, &pos, &value))
        forward_part(part, reply->out);
    else
        reply_errorf(reply, "%.*s (shard '%s')", (int)value.text.len, value.text.data, part->shard);
}

/* Writes the first error, with its shard's name unless all shards reply the same. */
static void merge_error(const struct merge *merge, const struct shard_reply *first,
                        struct reply *reply)
{
    bool all_same = true;
    for (uint32_t i = 0; i < merge->count; i++)
        all_same &= bytes_equal(merge->replies[i].frame, first->frame);
    if (all_same)
        forward_part(first, reply->out);
    else
        reply_shard_refusal(reply, first);
}

/* A shard's reply does not fit the merge rule. */
static void merge_nonsense(const struct shard_reply *part, struct reply *reply)
{
    reply_errorf(reply, "ERR shard '%s' sent a reply of an unexpected type", part->shard);
}

/* ---- integers -------------------------------------------------------------------------------- */

static int64_t combine_integers(enum command_merge rule, int64_t a, int64_t b)
{
    if (rule == MERGE_SUM)
        return (int64_t)((uint64_t)a + (uint64_t)b);
    if (rule == MERGE_MIN)
        return a < b ? a : b;
    return a > b ? a : b;
}

static void merge_integers(const struct merge *merge, struct reply *reply)
{
    int64_t result = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        struct resp_value value;
        size_t pos = 0;
        if (!resp_value_next(merge->replies[i].frame, &pos, &value) || value.type != ':') {
            merge_nonsense(&merge->replies[i], reply);
            return;
        }
        result = i == 0 ? value.count : combine_integers(merge->rule, result, value.count);
    }
    reply_int(reply, result);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static bool is_array_type(char type)
{
    return type == '*' || type == '~' || type == '>';
}

/* Finds the elements of a reply: where they begin, and their number. */
static bool open_array(const struct shard_reply *part, size_t *pos, int64_t *count)
{
    struct resp_value value;
    *pos = 0;
    if (!resp_value_next(part->frame, pos, &value) || !is_array_type(value.type))
        return false;
    *count = value.is_null ? 0 : value.count;
    return true;
}

/* Copies the next element; a large one by reference. */
static bool copy_element(const struct shard_reply *part, size_t *pos, struct out *out)
{
    size_t begin = *pos;
    if (!resp_value_skip(part->frame, pos))
        return false;
    out_write_block(out, part->block, part->frame.data + begin, *pos - begin);
    return true;
}

/* Finds where the elements of each reply begin. Returns a reply that does not fit; NULL: there is none. */
static const struct shard_reply *array_open(const struct merge *merge, size_t *at)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        int64_t count;
        if (!open_array(&merge->replies[i], &at[i], &count))
            return &merge->replies[i];
        total += count;
    }
    return total == merge->order_count ? NULL : &merge->replies[0];
}

/* Writes the elements of the keys [from, to), in their order. Returns a reply that does not fit; NULL: there is none. */
static const struct shard_reply *array_write(const struct merge *merge, size_t *at, uint32_t from,
                                             uint32_t to, struct out *out)
{
    for (uint32_t i = from; i < to; i++) {
        const struct shard_reply *part = &merge->replies[merge->order[i]];
        if (!copy_element(part, &at[merge->order[i]], out))
            return part;
    }
    return NULL;
}

/* Writes one element per key. */
static void merge_array(const struct merge *merge, struct reply *reply)
{
    size_t *at = calloc(merge->count, sizeof(*at));
    CHECK(at);
    struct out out;
    out_init(&out);
    const struct shard_reply *bad = array_open(merge, at);
    if (!bad)
        bad = array_write(merge, at, 0, merge->order_count, &out);
    if (bad) {
        merge_nonsense(bad, reply);
    } else {
        reply_array(reply, merge->order_count);
        out_move(reply->out, &out);
    }
    out_clear(&out);
    free(at);
}

enum { PORTION = 4096 /* elements: about a millisecond */ };

struct merge_state {
    uint32_t next; /* element */
    size_t at[];   /* of each reply */
};

bool merge_go_on(const struct merge *merge, void *owner, struct reply *reply)
{
    struct merge_state *state = owner;
    uint32_t from = state->next;
    uint32_t left = merge->order_count - from;
    const struct shard_reply *bad = from == 0 ? array_open(merge, state->at) : NULL;
    state->next += left < PORTION ? left : PORTION;
    if (from == 0)
        reply_array(reply, merge->order_count);
    if (!bad)
        bad = array_write(merge, state->at, from, state->next, reply->out);
    if (!bad)
        return state->next < merge->order_count;
    out_truncate(reply->out, 0);
    merge_nonsense(bad, reply);
    return false;
}

static void merge_concat(const struct merge *merge, struct reply *reply)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        size_t pos;
        int64_t count;
        if (!open_array(&merge->replies[i], &pos, &count)) {
            merge_nonsense(&merge->replies[i], reply);
            return;
        }
        total += count;
    }
    if (merge->replies[0].frame.data[0] == '~')
        reply_set(reply, total);
    else
        reply_array(reply, total);
    for (uint32_t i = 0; i < merge->count; i++) {
        const struct shard_reply *part = &merge->replies[i];
        size_t pos;
        int64_t count;
        if (open_array(part, &pos, &count) && pos < part->frame.len)
            out_write_block(reply->out, part->block, part->frame.data + pos, part->frame.len - pos);
    }
}

/* The smallest number of the shards' next elements (MERGE_LEAST), or 1 if one of them is 1 (MERGE_OR). */
static int64_t merge_element(const struct merge *merge, size_t *at)
{
    int64_t least = INT64_MAX;
    bool any = false;
    for (uint32_t i = 0; i < merge->count; i++) {
        struct resp_value value;
        int64_t number =
            resp_value_next(merge->replies[i].frame, &at[i], &value) && value.type == ':'
                ? value.count
                : 0;
        least = number < least ? number : least;
        any |= number == 1;
    }
    return merge->rule == MERGE_OR ? any : least;
}

/* Arrays of numbers, element by element. */
static void merge_elements(const struct merge *merge, struct reply *reply)
{
    size_t *at = calloc(merge->count, sizeof(*at));
    CHECK(at);
    int64_t elements = 0;
    const struct shard_reply *bad = NULL;
    for (uint32_t i = 0; i < merge->count && !bad; i++) {
        int64_t count = 0;
        if (!open_array(&merge->replies[i], &at[i], &count) || (i > 0 && count != elements))
            bad = &merge->replies[i];
        elements = count;
    }
    if (!bad)
        reply_array(reply, elements);
    for (int64_t element = 0; element < elements && !bad; element++)
        reply_int(reply, merge_element(merge, at));
    if (bad)
        merge_nonsense(bad, reply);
    free(at);
}

/* Writes the elements of all arrays without duplicates. */
static void merge_union(const struct merge *merge, struct reply *reply)
{
    struct table *seen = table_new();
    struct out out;
    out_init(&out);
    const struct shard_reply *bad = NULL;
    for (uint32_t i = 0; i < merge->count && !bad; i++) {
        const struct shard_reply *part = &merge->replies[i];
        size_t pos;
        int64_t count = 0;
        if (!open_array(part, &pos, &count))
            bad = part;
        for (; count > 0 && !bad; count--) {
            size_t begin = pos;
            if (!resp_value_skip(part->frame, &pos)) {
                bad = part;
                break;
            }
            struct bytes element = {part->frame.data + begin, pos - begin};
            if (!table_put(seen, element, seen))
                out_write(&out, element.data, element.len);
        }
    }
    if (bad) {
        merge_nonsense(bad, reply);
    } else {
        reply_array(reply, (int64_t)table_count(seen));
        out_move(reply->out, &out);
    }
    out_clear(&out);
    table_free(seen);
}

/* ---- maps ------------------------------------------------------------------------------------ */

struct tally {
    struct bytes name; /* in the frame of a reply */
    int64_t sum;
};

/* Adds the (name, number) pairs of one shard. */
static bool tally_part(const struct shard_reply *part, struct table *by_name, struct tally *tallies,
                       uint32_t *count, uint32_t max)
{
    struct resp_value header;
    size_t pos = 0;
    if (!resp_value_next(part->frame, &pos, &header) ||
        !(header.type == '*' || header.type == '%') || header.is_null)
        return false;
    int64_t pairs = header.type == '%' ? header.count : header.count / 2;
    for (; pairs > 0; pairs--) {
        struct resp_value name;
        struct resp_value number;
        if (!resp_value_next(part->frame, &pos, &name) ||
            !resp_value_next(part->frame, &pos, &number) || number.type != ':')
            return false;
        struct tally *tally = table_get(by_name, name.text);
        if (!tally) {
            if (*count == max)
                return false;
            tally = &tallies[(*count)++];
            *tally = (struct tally){.name = name.text};
            (void)table_put(by_name, name.text, tally);
        }
        tally->sum += number.count;
    }
    return true;
}

/* Number of pairs in all replies: at least the number of names. */
static uint32_t count_pairs(const struct merge *merge)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < merge->count; i++) {
        struct resp_value header;
        size_t pos = 0;
        if (resp_value_next(merge->replies[i].frame, &pos, &header) && header.count > 0 &&
            header.count <= (int64_t)merge->replies[i].frame.len)
            total += header.count;
    }
    return (uint32_t)total;
}

static void merge_map(const struct merge *merge, struct reply *reply)
{
    uint32_t max = count_pairs(merge);
    uint32_t count = 0;
    struct tally *tallies = calloc((size_t)max + 1, sizeof(*tallies));
    CHECK(tallies);
    struct table *by_name = table_new();
    const struct shard_reply *bad = NULL;
    for (uint32_t i = 0; i < merge->count && !bad; i++) {
        if (!tally_part(&merge->replies[i], by_name, tallies, &count, max))
            bad = &merge->replies[i];
    }
    if (bad) {
        merge_nonsense(bad, reply);
    } else {
        reply_map(reply, count);
        for (uint32_t i = 0; i < count; i++) {
            reply_bulk(reply, tallies[i].name);
            reply_int(reply, tallies[i].sum);
        }
    }
    table_free(by_name);
    free(tallies);
}

/* ---- the rule -------------------------------------------------------------------------------- */

/* SCRIPT KILL: an error of the shard that runs the script is preferred to NOTBUSY of the others. */
static bool says_notbusy(const struct shard_reply *reply)
{
    return error_has_code(reply->frame, "NOTBUSY");
}

static const struct shard_reply *first_error(const struct merge *merge)
{
    const struct shard_reply *first = NULL;
    for (uint32_t i = 0; i < merge->count; i++) {
        const struct shard_reply *reply = &merge->replies[i];
        if (is_error_part(reply) && (!first || (says_notbusy(first) && !says_notbusy(reply))))
            first = reply;
    }
    return first;
}

static const struct shard_reply *first_good(const struct merge *merge)
{
    for (uint32_t i = 0; i < merge->count; i++) {
        if (!is_error_part(&merge->replies[i]))
            return &merge->replies[i];
    }
    return NULL;
}

static const struct shard_reply *first_nonnull(const struct merge *merge)
{
    for (uint32_t i = 0; i < merge->count; i++) {
        struct resp_value value;
        size_t pos = 0;
        if (resp_value_next(merge->replies[i].frame, &pos, &value) && !value.is_null)
            return &merge->replies[i];
    }
    return &merge->replies[0];
}

size_t merge_state_size(const struct merge *merge)
{
    bool is_wide =
        merge->rule == MERGE_ARRAY && merge->order_count > PORTION && !first_error(merge);
    return is_wide ? sizeof(struct merge_state) + merge->count * sizeof(size_t) : 0;
}

void merge_replies(const struct merge *merge, struct reply *reply)
{
    CHECK(merge->count > 0);
    const struct shard_reply *error = first_error(merge);
    const struct shard_reply *good = first_good(merge);
    if (error && !(merge->rule == MERGE_ANY_OK && good)) {
        merge_error(merge, error, reply);
        return;
    }
    switch (merge->rule) {
    case MERGE_SUM:
    case MERGE_MIN:
    case MERGE_MAX:
        merge_integers(merge, reply);
        return;
    case MERGE_ARRAY:
        merge_array(merge, reply);
        return;
    case MERGE_CONCAT:
        merge_concat(merge, reply);
        return;
    case MERGE_LEAST:
    case MERGE_OR:
        merge_elements(merge, reply);
        return;
    case MERGE_UNION:
        merge_union(merge, reply);
        return;
    case MERGE_MAP:
        merge_map(merge, reply);
        return;
    case MERGE_FIRST_NONNULL:
        forward_part(first_nonnull(merge), reply->out);
        return;
    case MERGE_ONE:
    case MERGE_ALL_OK:
    case MERGE_ANY_OK:
    case MERGE_INFO:   /* merged by local_info.c */
    case MERGE_CURSOR: /* merged by local_scan.c */
    case MERGE_SPECIAL:
        forward_part(good, reply->out);
        return;
    }
}
