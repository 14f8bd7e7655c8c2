#include "proxy/cluster/map_truth.h"

#include "proxy/core/line_fields.h"
#include "proxy/core/request.h"
#include "shared/check.h"
#include "shared/map_change.h"
#include "shared/resp.h"

#include <inttypes.h>
#include <stdlib.h>

struct map_truth *map_truth_new(struct shard_map *wish)
{
    struct map_truth *truth = calloc(1, sizeof *truth);
    CHECK(truth);
    truth->wish = shard_map_ref(wish);
    truth->owners = shard_map_new(wish->epoch);
    truth->shards = calloc(wish->shard_count, sizeof *truth->shards);
    CHECK(truth->shards);
    for (size_t i = 0; i < wish->shard_count; i++)
        CHECK(shard_map_add(truth->owners, bytes_of(wish->shards[i].name)) == (int)i);
    return truth;
}

void map_truth_free(struct map_truth *truth)
{
    if (!truth)
        return;
    shard_map_unref(truth->wish);
    shard_map_unref(truth->owners);
    free(truth->shards);
    free(truth->moves);
    free(truth);
}

/* ---- replies ---- */

/* Calls the function for each line of a reply. False: it is an error, whose text is the reason. */
typedef void map_line_fn(struct map_truth *truth, uint32_t shard, struct bytes line);

static bool each_line(struct map_truth *truth, uint32_t shard, struct bytes frame,
                      map_line_fn *on_line)
{
    char *reason = truth->shards[shard].reason;
    struct resp_value value;
    size_t pos = 0;
    bool is_good = resp_value_next(frame, &pos, &value);
    if (is_good && value.type == '-') {
        (void)snprintf(reason, MAP_REASON_MAX, "%.*s", (int)value.text.len, value.text.data);
        return false;
    }
    int64_t lines = is_good && value.type == '*' ? value.count : -1;
    for (int64_t i = 0; i < lines; i++) {
        if (!resp_value_next(frame, &pos, &value) || (value.type != '$' && value.type != '+'))
            lines = -1;
        else
            on_line(truth, shard, value.text);
    }
    if (lines < 0)
        (void)snprintf(reason, MAP_REASON_MAX, "its reply is no list of lines");
    return lines >= 0;
}

/* Index of the name in the owners; SHARD_NONE: it cannot be one. */
static uint16_t find_owner(struct map_truth *truth, struct bytes name)
{
    int index = shard_map_named(truth->owners, name);
    if (index < 0)
        index = shard_map_add(truth->owners, name);
    return index < 0 ? SHARD_NONE : (uint16_t)index;
}

static void add_owner(struct map_truth *truth, uint16_t slot, uint16_t owner, uint64_t epoch,
                      bool is_here)
{
    if (is_here && truth->is_told[slot] && truth->owners->slot_shard[slot] != owner)
        truth->twice++;
    bool is_better = is_here != truth->is_told[slot] ? is_here : epoch > truth->epoch[slot];
    if (truth->owners->slot_shard[slot] != SHARD_NONE && !is_better)
        return;
    truth->owners->slot_shard[slot] = owner;
    truth->epoch[slot] = epoch;
    truth->is_told[slot] |= is_here;
}

/* map_line_fn: "slots=0-5460 shard=p0 epoch=1 here=yes" */
static void add_owner_line(struct map_truth *truth, uint32_t shard, struct bytes line)
{
    unsigned first, last;
    bool is_here = field_is(line, "here", "yes");
    uint16_t owner = is_here ? (uint16_t)shard : find_owner(truth, field_text(line, "shard"));
    if (owner == SHARD_NONE || !field_slots(line, "slots", &first, &last))
        return;
    for (unsigned slot = first; slot <= last; slot++)
        add_owner(truth, (uint16_t)slot, owner, field_number(line, "epoch"), is_here);
    if (is_here)
        truth->shards[shard].owned += last - first + 1;
}

void map_truth_add_owners(struct map_truth *truth, uint32_t shard, struct bytes frame)
{
    truth->shards[shard].has_owners = each_line(truth, shard, frame, add_owner_line);
}

static void cut_text(char *to, size_t size, struct bytes from)
{
    size_t len = from.len < size - 1 ? from.len : size - 1;
    memcpy(to, from.data, len);
    to[len] = 0;
}

static uint64_t parse_hash(struct bytes text)
{
    char copy[20];
    cut_text(copy, sizeof copy, text);
    return strtoull(copy, NULL, 16);
}

static void add_summary(struct map_shard *shard, struct bytes line)
{
    shard->map_epoch = field_number(line, "map_epoch");
    shard->map_hash = parse_hash(field_text(line, "map_hash"));
    shard->to_send = field_number(line, "to_send");
    shard->to_get = field_number(line, "to_get");
    shard->is_paused = field_is(line, "paused", "yes");
    shard->is_settled = field_is(line, "settled", "yes");
    cut_text(shard->reason, sizeof shard->reason, field_text(line, "reason"));
}

/* map_line_fn: the first line is the shard's summary, the others are its moves. */
static void add_move_line(struct map_truth *truth, uint32_t shard, struct bytes line)
{
    struct map_move move = {.shard = shard,
                            .role = field_is(line, "role", "target") ? MAP_TARGET : MAP_SOURCE,
                            .id = field_number(line, "move"),
                            .keys = field_number(line, "keys"),
                            .bytes = field_number(line, "bytes"),
                            .done_bytes = field_number(line, "done_bytes"),
                            .tail_bytes = field_number(line, "tail_bytes"),
                            .rate = field_number(line, "rate"),
                            .since_ms = field_number(line, "since_ms")};
    if (!field_text(line, "move").len) {
        add_summary(&truth->shards[shard], line);
        return;
    }
    if (!field_slots(line, "slots", &move.first, &move.last))
        return;
    cut_text(move.peer, sizeof move.peer, field_text(line, "peer"));
    cut_text(move.state, sizeof move.state, field_text(line, "state"));
    cut_text(move.reason, sizeof move.reason, field_text(line, "reason"));
    truth->moves = reallocarray(truth->moves, truth->moves_count + 1, sizeof move);
    CHECK(truth->moves);
    truth->moves[truth->moves_count++] = move;
}

void map_truth_add_moves(struct map_truth *truth, uint32_t shard, struct bytes frame)
{
    truth->shards[shard].has_moves = each_line(truth, shard, frame, add_move_line);
}

/* Does the source of this move of a target report it too? */
static bool is_reported_by_source(const struct map_truth *truth, const struct map_move *move)
{
    for (size_t i = 0; i < truth->moves_count; i++) {
        const struct map_move *other = &truth->moves[i];
        if (other->role == MAP_SOURCE && other->id == move->id && other->first == move->first &&
            strcmp(truth->wish->shards[other->shard].name, move->peer) == 0)
            return true;
    }
    return false;
}

/* Is the slot being moved? Then its two shards may have replied before and after the handover. */
static bool is_slot_moving(const struct map_truth *truth, unsigned slot)
{
    for (size_t i = 0; i < truth->moves_count; i++)
        if (slot >= truth->moves[i].first && slot <= truth->moves[i].last)
            return true;
    return false;
}

/* If other shards name a shard as the owner of a slot, but its own reply does not, the shard has lost the slot, which has no owner. */
static void forget_lost(struct map_truth *truth)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        uint16_t owner = truth->owners->slot_shard[slot];
        if (!truth->is_told[slot] && owner < truth->wish->shard_count &&
            truth->shards[owner].has_owners && !is_slot_moving(truth, slot))
            truth->owners->slot_shard[slot] = SHARD_NONE;
    }
}

void map_truth_complete(struct map_truth *truth)
{
    size_t kept = 0;
    bool *is_double = calloc(truth->moves_count + 1, sizeof *is_double);
    CHECK(is_double);
    for (size_t i = 0; i < truth->moves_count; i++)
        is_double[i] =
            truth->moves[i].role == MAP_TARGET && is_reported_by_source(truth, &truth->moves[i]);
    for (size_t i = 0; i < truth->moves_count; i++)
        if (!is_double[i])
            truth->moves[kept++] = truth->moves[i];
    truth->moves_count = kept;
    free(is_double);
    forget_lost(truth);
}

void map_truth_add_all(struct map_truth *truth, const struct request *request)
{
    uint32_t count = request_reply_count(request);
    for (uint32_t i = 0; i < count; i++) {
        const struct shard_reply *answer = request_reply(request, i);
        int shard = shard_map_named(truth->wish, bytes_of(answer->shard));
        if (shard < 0)
            continue;
        if (i < count / 2)
            map_truth_add_owners(truth, (uint32_t)shard, answer->frame);
        else
            map_truth_add_moves(truth, (uint32_t)shard, answer->frame);
    }
    map_truth_complete(truth);
}

/* ---- questions ---- */

unsigned map_truth_silent(const struct map_truth *truth)
{
    unsigned silent = 0;
    for (size_t i = 0; i < truth->wish->shard_count; i++)
        silent += !truth->shards[i].has_owners;
    return silent;
}

bool map_truth_same_map(const struct map_truth *truth, uint32_t shard)
{
    return truth->shards[shard].has_moves && truth->shards[shard].map_epoch == truth->wish->epoch &&
           truth->shards[shard].map_hash == shard_map_slots_hash(truth->wish);
}

bool map_truth_drained(const struct map_truth *truth, uint32_t shard)
{
    const struct map_shard *answer = &truth->shards[shard];
    return answer->has_owners && !answer->owned && !truth->wish->shards[shard].slot_count &&
           answer->is_settled && map_truth_same_map(truth, shard);
}

/* Why the shard is not settled; NULL: it is. */
static const char *unsettled_reason(const struct map_truth *truth, uint32_t shard)
{
    const struct map_shard *answer = &truth->shards[shard];
    if (!answer->has_owners || !answer->has_moves)
        return *answer->reason ? answer->reason : "it has not replied";
    if (answer->map_epoch != truth->wish->epoch)
        return "its map has another epoch";
    if (!map_truth_same_map(truth, shard))
        return "its map has other slots";
    if (answer->is_settled)
        return NULL;
    return *answer->reason ? answer->reason : "it has slots to move";
}

bool map_truth_settled(const struct map_truth *truth, char reason[MAP_REASON_MAX])
{
    *reason = 0;
    for (uint32_t i = 0; i < truth->wish->shard_count; i++) {
        const char *why = unsettled_reason(truth, i);
        if (!why)
            continue;
        (void)snprintf(reason, MAP_REASON_MAX, "shard %.60s: %.80s", truth->wish->shards[i].name,
                       why);
        return false;
    }
    struct map_change change = map_change_find(truth->owners, truth->wish);
    if (change.slots)
        (void)snprintf(reason, MAP_REASON_MAX, "%u slots are not where the map wants them",
                       change.slots);
    map_change_free(&change);
    return !*reason;
}

int64_t map_move_eta_s(const struct map_move *move)
{
    bool is_copying = strcmp(move->state, "copying") == 0;
    uint64_t left = move->bytes > move->done_bytes ? move->bytes - move->done_bytes : 0;
    if (is_copying && (!left || !move->rate))
        return -1; /* the sizes are estimates */
    left = is_copying ? left + move->tail_bytes : move->tail_bytes;
    if (left && !move->rate)
        return -1;
    return left ? (int64_t)((left + move->rate - 1) / move->rate) : 0;
}

/* ---- text ---- */

static void print_map_shard(const struct map_truth *truth, uint32_t shard,
                            const struct shard_map *map, struct out *out)
{
    const struct shard *wish = &truth->wish->shards[shard];
    const struct shard *found = &map->shards[shard];
    const struct map_shard *answer = &truth->shards[shard];
    out_printf(out,
               "shard_%s:address=%s,state=%s,map_epoch=%" PRIu64
               ",same_map=%s,owned=%u,wanted=%u,to_send=%" PRIu64 ",to_get=%" PRIu64
               ",paused=%s,settled=%s,drained=%s,reason=\"%s\"\r\n",
               wish->name, found->address_count ? found->addresses[0] : "",
               answer->has_owners ? "up" : "silent", answer->map_epoch,
               map_truth_same_map(truth, shard) ? "yes" : "no", answer->owned, wish->slot_count,
               answer->to_send, answer->to_get, answer->is_paused ? "yes" : "no",
               answer->is_settled ? "yes" : "no", map_truth_drained(truth, shard) ? "yes" : "no",
               answer->reason);
}

/* Shards that own slots but are not in the wish. */
static void print_removed(const struct map_truth *truth, struct out *out)
{
    for (size_t i = truth->wish->shard_count; i < truth->owners->shard_count; i++) {
        unsigned owned = 0;
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
            owned += truth->owners->slot_shard[slot] == i;
        if (owned)
            out_printf(out, "shard_%s:address=,state=removed,owned=%u,wanted=0\r\n",
                       truth->owners->shards[i].name, owned);
    }
}

static void print_change(const struct map_change *change, struct out *out)
{
    for (size_t i = 0; i < change->count; i++)
        out_printf(out, "difference_%zu:from=%s,to=%s,slots=%u\r\n", i,
                   change->flows[i].from ? change->flows[i].from : "", change->flows[i].to,
                   change->flows[i].slots);
}

static void print_move(const struct map_truth *truth, const struct map_move *move, size_t index,
                       struct out *out)
{
    const char *own = truth->wish->shards[move->shard].name;
    bool is_source = move->role == MAP_SOURCE;
    out_printf(out,
               "move_%zu:id=%" PRIu64 ",from=%s,to=%s,slots=%u-%u,state=%s,keys=%" PRIu64
               ",bytes=%" PRIu64 ",done_bytes=%" PRIu64 ",tail_bytes=%" PRIu64 ",rate=%" PRIu64
               ",since_ms=%" PRIu64 ",eta_s=%" PRId64 ",reason=\"%s\"\r\n",
               index, move->id, is_source ? own : move->peer, is_source ? move->peer : own,
               move->first, move->last, move->state, move->keys, move->bytes, move->done_bytes,
               move->tail_bytes, move->rate, move->since_ms, map_move_eta_s(move), move->reason);
}

/* "drained:p3 p4", the shards whose processes may stop. */
static void print_drained(const struct map_truth *truth, struct out *out)
{
    bool is_first = true;
    out_printf(out, "drained:");
    for (uint32_t i = 0; i < truth->wish->shard_count; i++) {
        if (!map_truth_drained(truth, i))
            continue;
        out_printf(out, "%s%s", is_first ? "" : " ", truth->wish->shards[i].name);
        is_first = false;
    }
    out_printf(out, "\r\n");
}

void map_truth_print(const struct map_truth *truth, const struct shard_map *map, struct out *out)
{
    char reason[MAP_REASON_MAX];
    struct map_change change = map_change_find(truth->owners, truth->wish);
    bool is_settled = map_truth_settled(truth, reason);
    unsigned paused = 0;
    for (size_t i = 0; i < truth->wish->shard_count; i++)
        paused += truth->shards[i].is_paused;
    out_printf(out,
               "# Map\r\nepoch:%" PRIu64 "\r\nhash:%016" PRIx64
               "\r\nsettled:%d\r\nreason:%s\r\nshards:%zu\r\nshards_silent:%u\r\nshards_paused:%u"
               "\r\nslots_to_move:%u\r\nslots_unknown:%u\r\nslots_owned_twice:%u\r\nmoves:%zu\r\n",
               truth->wish->epoch, shard_map_slots_hash(truth->wish), is_settled, reason,
               truth->wish->shard_count, map_truth_silent(truth), paused,
               change.slots - change.unknown, change.unknown, truth->twice, truth->moves_count);
    print_drained(truth, out);
    for (uint32_t i = 0; i < truth->wish->shard_count; i++)
        print_map_shard(truth, i, map, out);
    print_removed(truth, out);
    print_change(&change, out);
    for (size_t i = 0; i < truth->moves_count; i++)
        print_move(truth, &truth->moves[i], i, out);
    map_change_free(&change);
}
