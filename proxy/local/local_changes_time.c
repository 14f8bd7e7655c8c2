/*
 * local_changes_time.c - the token of a time (TOKEN AT): behind all changes up to this time, before all later ones.
 *
 *   each shard: SCREE CHANGES TOKEN AT ms ─► its position, slots, is its log younger?, from which shards and logs slots have come since
 *
 *   T               now       a, c are in the map. Slots that b had at T are a's now, and b has its log no more: a names b, so there is
 *   a ─────────────►a         no token of T. Had b given its slots away before T, a would not name it: no change of b is later than T.
 *   b ─────►a                 c has joined since T: its log is read from the first batch on. But if one names c too, the slots may have
 *           c──────►c         been those of an earlier c: so there is a token only if they came from the log that c has now.
 *
 * Times of batches put no effect before its cause (hybrid_clock.h), so the batches up to a time are one moment of all shards. If a transaction was
 * decided before this moment, and some shards apply their parts after it, then only these parts come behind the token. All shards are asked twice
 * for the slots that they own. If both answers are equal and have all slots, no other shard owns a slot, and none is moving.
 */
#include "proxy/client/fan_out.h"
#include "proxy/core/worker.h"
#include "proxy/local/local_changes.h"
#include "proxy/upstream/pool.h"
#include "proxy/upstream/upstream.h"
#include "shared/error_code.h"

#include <string.h>

/* What a shard replies. */
struct shard_time {
    struct bytes position, slots;
    bool is_younger;
    int64_t origins; /* names that follow … */
    size_t pos;      /* … from here in the frame */
    size_t logs_pos; /* … and as many ids of logs from here; 0: the shard is of an older version */
};

/* A log from which slots have come after the time. */
struct slot_source {
    struct bytes shard, log; /* `log` is empty or zeros: not known */
};

static bool read_shard_time(const struct shard_reply *answer, struct shard_time *time)
{
    static const char types[] = {'*', '$', '$', ':', '*'};
    struct resp_value value[sizeof types];
    *time = (struct shard_time){0};
    for (size_t i = 0; i < sizeof types; i++)
        if (answer->is_failure || !resp_value_next(answer->frame, &time->pos, &value[i]) ||
            value[i].type != types[i])
            return false;
    time->position = value[1].text;
    time->slots = value[2].text;
    time->is_younger = value[3].count != 0;
    time->origins = value[4].count;
    return true;
}

/* Finds the ids of logs behind the names. False: the reply is not as expected. */
static bool find_logs(struct bytes frame, struct shard_time *time)
{
    struct resp_value value;
    size_t pos = time->pos;
    bool is_read = true;
    for (int64_t i = 0; is_read && i < time->origins; i++)
        is_read = resp_value_next(frame, &pos, &value) && value.type == '$';
    if (!is_read || pos == frame.len)
        return is_read;
    is_read =
        resp_value_next(frame, &pos, &value) && value.type == '*' && value.count == time->origins;
    time->logs_pos = pos;
    return is_read;
}

static bool next_source(struct bytes frame, struct shard_time *time, struct slot_source *source)
{
    struct resp_value shard, log = {.type = '$'};
    bool is_read = resp_value_next(frame, &time->pos, &shard) && shard.type == '$' &&
                   (!time->logs_pos || resp_value_next(frame, &time->logs_pos, &log)) &&
                   log.type == '$';
    if (is_read)
        *source = (struct slot_source){shard.text, log.text};
    return is_read;
}

static bool says_try_again(const struct shard_reply *answer)
{
    return !answer->is_failure && error_has_code(answer->frame, "TRYAGAIN");
}

/* Takes the positions and the slots of a round. NULL, or the reply that has none. */
static const struct shard_reply *take_times(struct changes *changes)
{
    struct shard_time time;
    changes->owned = 0;
    changes->owned_sum = 0;
    for (uint32_t i = 0; i < changes->token.count; i++) {
        const struct shard_reply *answer = request_reply(changes->request, i);
        if (!read_shard_time(answer, &time) || !changes_count_owned(changes, time.slots) ||
            !changes_part_set(&changes->token.parts[i], time.position))
            return answer;
    }
    return NULL;
}

static bool is_known_log(struct bytes log)
{
    for (size_t i = 0; i < log.len; i++)
        if (log.data[i] != '0')
            return true;
    return false;
}

/* Is it the log in which the position is? */
static bool has_log(const struct changes_part *part, struct bytes log)
{
    struct bytes position = bytes_of(part->position);
    return position.len > log.len && position.data[log.len] == '.' &&
           memcmp(position.data, log.data, log.len) == 0;
}

/* Does the shard still have the log from which the slots have come? If the name of this log is not known, the log was there at the time. */
static bool keeps_log(const struct changes *changes, uint32_t shard,
                      const struct slot_source *source)
{
    struct shard_time time;
    if (is_known_log(source->log))
        return has_log(&changes->token.parts[shard], source->log);
    return read_shard_time(request_reply(changes->request, shard), &time) && !time.is_younger;
}

/* Can the changes of this log, which had slots later than the time, be read? If not, an error is replied. */
static bool can_read_source(const struct changes *changes, const struct slot_source *source,
                            struct reply *reply)
{
    struct bytes name = source->shard;
    for (uint32_t i = 0; i < changes->token.count; i++) {
        if (!bytes_equal(bytes_of(changes->token.parts[i].name), name))
            continue;
        if (keeps_log(changes, i, source))
            return true;
        reply_errorf(reply,
                     "CHANGESLOST slots have left shard '%.*s' after this time, and it may have "
                     "another log now: it may have been replaced by an empty one",
                     (int)name.len, name.data);
        return false;
    }
    if (name.len)
        reply_errorf(reply,
                     "CHANGESLOST shard '%.*s' is not in the shard map any more, and had slots "
                     "after this time: changes of their keys may be missing",
                     (int)name.len, name.data);
    else
        reply_error(reply, "CHANGESLOST slots were claimed after this time, by a new or restored "
                           "shard or in place of a lost one: what their keys were is not known");
    return false;
}

static bool can_read_origins(const struct changes *changes, const struct shard_reply *answer,
                             struct reply *reply)
{
    struct slot_source source;
    struct shard_time time;
    bool is_read = read_shard_time(answer, &time) && find_logs(answer->frame, &time);
    for (int64_t i = 0; is_read && i < time.origins; i++) {
        is_read = next_source(answer->frame, &time, &source);
        if (is_read && !can_read_source(changes, &source, reply))
            return false;
    }
    if (!is_read)
        changes_reply_error(answer, reply);
    return is_read;
}

/* All slots were counted, twice with the same owners: replies the token, unless changes cannot be read. */
static void reply_token_of_time(struct changes *changes, struct reply *reply)
{
    for (uint32_t i = 0; i < changes->token.count; i++)
        if (!can_read_origins(changes, request_reply(changes->request, i), reply))
            return;
    changes->token.owners = (struct changes_owners){0}; /* those of now, not of the time */
    changes_reply(changes, reply);
}

/* request_done_fn */
static void ask_time_again(struct client *client, struct request *request, struct reply *reply)
{
    (void)client;
    changes_ask_time(request, reply);
}

/* request_done_fn: the shards have told their positions. */
static void time_done(struct client *client, struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    const struct shard_reply *refusal = take_times(changes);
    bool may_try = ++changes->now_tries < NOW_TRIES_MAX;
    (void)client;
    if (!refusal)
        changes_note_owners(changes);
    if (refusal && (!may_try || !says_try_again(refusal)))
        changes_reply_error(refusal, reply);
    else if (!refusal && changes->token.owners.settled)
        reply_token_of_time(changes, reply);
    else if (may_try)
        changes_pause(changes, changes->now_tries == 1 ? 0 : CHANGES_PAUSE_MS, ask_time_again);
    else
        reply_error(reply, "TRYAGAIN slots are on their way from one shard to another");
}

void changes_ask_time(struct request *request, struct reply *reply)
{
    struct changes *changes = changes_of(request);
    const struct bytes words[] = {BYTES("SCREE"), BYTES("CHANGES"), BYTES("TOKEN"), BYTES("AT"),
                                  changes->at_ms};
    const struct fan_out how = {.shard = SHARDS_ALL, .lane = LANE_LONG, .argv = words, .argc = 5};
    if (changes_check_map(changes, reply))
        request_fan_out_with(request, &how, time_done);
}
