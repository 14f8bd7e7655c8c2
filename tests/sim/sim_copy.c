#include "tests/sim/sim_copy.h"

#include "shared/check.h"
#include "tests/sim/sim_break.h"

#include <string.h>

/* ---- records of the members -------------------------------------------------------------------- */

enum { NUMBERS_MAX = 4096 };

static struct consensus_members numbered[NUMBERS_MAX];
static uint32_t numbered_count;

static bool are_equal(const struct consensus_members *a, const struct consensus_members *b)
{
    bool equal = a->epoch == b->epoch && a->count == b->count;
    for (unsigned i = 0; equal && i < a->count; i++)
        equal = a->list[i].id == b->list[i].id && a->list[i].kind == b->list[i].kind;
    return equal;
}

uint32_t sim_members_number(const struct consensus_members *members)
{
    for (uint32_t i = 0; i < numbered_count; i++)
        if (are_equal(&numbered[i], members))
            return i + 1;
    CHECK(numbered_count < NUMBERS_MAX);
    numbered[numbered_count++] = *members;
    return numbered_count;
}

void sim_members_reset(void)
{
    numbered_count = 0;
}

const struct consensus_members *sim_members_get(uint32_t number)
{
    return &numbered[number - 1];
}

static struct consensus_members members_at(const struct sim_log *log, uint64_t index)
{
    struct consensus_members members = *sim_members_get(log->record[index - 1].members);
    members.index = index;
    return members;
}

struct consensus_members sim_log_members(const struct sim_log *log, uint64_t upto)
{
    for (uint64_t index = upto; index > 0; index--)
        if (log->record[index - 1].members)
            return members_at(log, index);
    return (struct consensus_members){0};
}

/* ---- life -------------------------------------------------------------------------------------- */

void sim_copy_new(struct sim_copy *copy, uint64_t id, const struct consensus_members *members)
{
    memset(copy, 0, sizeof *copy);
    copy->id = id;
    if (!members)
        return;
    copy->written.record[0] =
        (struct sim_record){.term = 1, .batch_term = 1, .members = sim_members_number(members)};
    copy->written.last = copy->filed = copy->term = 1;
    copy->durable = copy->written;
}

static unsigned runs_of(const struct sim_copy *copy, struct term_run runs[SIM_RECORDS_MAX])
{
    uint64_t term = copy->base ? copy->written.record[copy->base - 1].term : 0;
    unsigned count = 0;
    for (uint64_t index = copy->base + 1; index <= copy->written.last; index++) {
        if (copy->written.record[index - 1].term == term)
            continue;
        term = copy->written.record[index - 1].term;
        runs[count++] = (struct term_run){index, term};
    }
    return count;
}

/* A sync that waits behind another one has what comes in the meantime, as in a group commit. */
static void push_sync(struct sim_copy *copy)
{
    struct sim_sync *last = &copy->syncs[copy->sync_count ? copy->sync_count - 1 : 0];
    if (copy->sync_count > 1 && last->cuts == copy->core.cuts) {
        last->upto = copy->written.last;
        return;
    }
    CHECK(copy->sync_count < SIM_QUEUE_MAX);
    copy->syncs[copy->sync_count++] = (struct sim_sync){copy->written.last, copy->core.cuts};
}

static uint64_t greater_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void sim_copy_start(struct sim_copy *copy, const struct sim_copy_options *options, uint64_t now_us)
{
    struct term_run runs[SIM_RECORDS_MAX];
    if (sim_broken == BREAK_LOG_TAIL_DROPPED)
        copy->written.last = greater_of(copy->filed, copy->base);
    struct consensus_start start = {
        .id = copy->id,
        .random = options->random,
        .election_us = options->election_us,
        .window = options->window,
        .term = copy->term,
        .vote = copy->vote,
        .base = copy->base,
        .base_term = copy->base ? copy->written.record[copy->base - 1].term : 0,
        .run = runs,
        .run_count = runs_of(copy, runs),
        .last = copy->written.last,
        .committed = greater_of(copy->filed, copy->base),
        .synced = sim_broken == BREAK_CACHE_COUNTS ? copy->written.last : 0,
        .members = sim_log_members(&copy->written, copy->written.last),
    };
    start.members_before =
        sim_log_members(&copy->written, start.members.index ? start.members.index - 1 : 0);
    copy->is_up = true;
    copy->save_count = copy->sync_count = copy->mail_count = 0;
    copy->saves_begun = copy->saves_done = 0;
    memset(&copy->update, 0, sizeof copy->update);
    consensus_init(&copy->core, &start, now_us);
    if (copy->written.last && sim_broken != BREAK_CACHE_COUNTS)
        push_sync(copy);
}

static void end_save(struct sim_copy *copy)
{
    if (sim_broken != BREAK_VOTE_UNSAVED) {
        copy->term = copy->saves[0].term;
        copy->vote = copy->saves[0].vote;
    }
    copy->save_count--;
    memmove(copy->saves, copy->saves + 1, copy->save_count * sizeof *copy->saves);
    memset(copy->saves + copy->save_count, 0, sizeof *copy->saves);
    copy->saves_done++;
}

void sim_copy_stop(struct sim_copy *copy, unsigned saved, bool has_power)
{
    while (saved-- > 0 && copy->save_count > 0)
        end_save(copy);
    if (!has_power)
        copy->written = copy->durable;
    copy->is_up = false;
    copy->save_count = copy->sync_count = copy->mail_count = 0;
    copy->saves_begun = copy->saves_done = 0;
    memset(&copy->core, 0, sizeof copy->core);
    memset(&copy->update, 0, sizeof copy->update);
    memset(copy->saves, 0, sizeof copy->saves);
    memset(copy->syncs, 0, sizeof copy->syncs);
}

void sim_copy_install(struct sim_copy *copy, const struct sim_log *from, uint64_t index,
                      uint64_t term, uint64_t vote)
{
    copy->written = *from;
    copy->written.last = index;
    copy->durable = copy->written;
    copy->base = copy->filed = index;
    copy->term = term;
    copy->vote = vote;
}

/* ---- updates ----------------------------------------------------------------------------------- */

/* The mail's records are those of the log, whose terms are written before its messages leave. */
static void push_mail(struct sim_copy *copy, const struct consensus_message *message)
{
    if (copy->mail_count == SIM_OUTBOX_MAX)
        return; /* lost */
    struct sim_mail *mail = &copy->outbox[copy->mail_count++];
    memset(mail, 0, sizeof *mail);
    mail->message = *message;
    mail->after_saves = sim_broken == BREAK_MESSAGE_BEFORE_SAVE ? 0 : copy->saves_begun;
    CHECK(message->count <= SIM_PARTS_MAX);
    if (message->count)
        memcpy(mail->record, copy->written.record + message->index,
               message->count * sizeof *mail->record);
}

static void truncate_written(struct sim_copy *copy, uint64_t after)
{
    CHECK(after <= copy->written.last);
    memset(copy->written.record + after, 0,
           (copy->written.last - after) * sizeof *copy->written.record);
    copy->written.last = after;
}

static void write_record(struct sim_copy *copy, struct sim_record record)
{
    CHECK(copy->written.last < SIM_RECORDS_MAX);
    copy->written.record[copy->written.last++] = record;
}

/* `records` are those of the message, from `first` on. */
static void obey(struct sim_copy *copy, const struct sim_record *records, uint64_t first)
{
    const struct consensus_update *update = &copy->update;
    if (update->fault)
        return;
    if (update->has_save) {
        CHECK(copy->save_count < SIM_QUEUE_MAX);
        copy->saves[copy->save_count++] = (struct sim_save){update->save_term, update->save_vote};
        copy->saves_begun++;
    }
    if (update->has_truncate)
        truncate_written(copy, update->truncate_after);
    for (uint64_t i = update->append_first; update->append && i <= update->append_last; i++) {
        CHECK(copy->written.last == i - 1);
        write_record(copy, update->append == CONSENSUS_APPEND_PROBE
                               ? (struct sim_record){.term = (uint32_t)update->term,
                                                     .batch_term = (uint32_t)update->term}
                               : records[i - first]);
    }
    if (update->append)
        push_sync(copy);
    for (unsigned i = 0; i < update->message_count; i++)
        push_mail(copy, &update->messages[i]);
}

/* A batch is written before the core's messages with it leave. */
static bool begin_batch(struct sim_copy *copy, struct consensus_event *event, uint32_t value)
{
    if (event->kind != CONSENSUS_APPENDED && event->kind != CONSENSUS_MEMBERS)
        return false;
    event->index = copy->written.last + 1;
    write_record(copy, (struct sim_record){.term = (uint32_t)copy->core.term,
                                           .batch_term = (uint32_t)event->term,
                                           .value = value,
                                           .members = event->kind == CONSENSUS_MEMBERS
                                                          ? sim_members_number(event->members)
                                                          : 0});
    return true;
}

void sim_copy_step(struct sim_copy *copy, struct consensus_event event, uint32_t value)
{
    bool is_batch = begin_batch(copy, &event, value);
    consensus_step(&copy->core, &event, &copy->update);
    if (is_batch && copy->update.is_refused)
        truncate_written(copy, copy->written.last - 1);
    else if (is_batch)
        push_sync(copy);
    obey(copy, NULL, 0);
}

/* Gives the message to the core in parts, so that a record of the members is the last one of its part. */
void sim_copy_hear(struct sim_copy *copy, const struct sim_mail *mail, uint64_t now_us)
{
    struct consensus_message part = mail->message;
    uint32_t done = 0;
    do {
        struct consensus_members members = {0};
        uint32_t count = 0;
        while (done + count < mail->message.count && !members.count) {
            uint32_t number = mail->record[done + count++].members;
            if (number)
                members = *sim_members_get(number);
        }
        part.count = count;
        part.records_term = count ? mail->message.records_term : 0;
        members.index = part.index + count;
        struct consensus_event event = {.kind = CONSENSUS_MESSAGE,
                                        .now_us = now_us,
                                        .message = &part,
                                        .members = members.count ? &members : NULL};
        consensus_step(&copy->core, &event, &copy->update);
        obey(copy, mail->record + done, part.index + 1);
        done += count;
        part.index += count;
        part.index_term = count ? mail->message.records_term : part.index_term;
    } while (done < mail->message.count && !copy->update.fault);
}

void sim_copy_save(struct sim_copy *copy, uint64_t now_us)
{
    end_save(copy);
    sim_copy_step(copy, (struct consensus_event){.kind = CONSENSUS_SAVED, .now_us = now_us}, 0);
}

/* What is written up to there is durable, whatever was durable before. */
void sim_copy_sync(struct sim_copy *copy, uint64_t now_us)
{
    struct sim_sync sync = copy->syncs[0];
    uint64_t upto = sync.upto < copy->written.last ? sync.upto : copy->written.last;
    copy->sync_count--;
    memmove(copy->syncs, copy->syncs + 1, copy->sync_count * sizeof *copy->syncs);
    memset(copy->syncs + copy->sync_count, 0, sizeof *copy->syncs);
    copy->durable = copy->written;
    memset(copy->durable.record + upto, 0,
           (copy->written.last - upto) * sizeof *copy->durable.record);
    copy->durable.last = upto;
    sim_copy_step(
        copy,
        (struct consensus_event){
            .kind = CONSENSUS_SYNCED, .now_us = now_us, .index = sync.upto, .cuts = sync.cuts},
        0);
}

void sim_copy_lose_tail(struct sim_copy *copy, uint64_t index, uint64_t now_us)
{
    truncate_written(copy, index);
    sim_copy_step(
        copy,
        (struct consensus_event){.kind = CONSENSUS_NOT_WRITTEN, .now_us = now_us, .index = index},
        0);
    push_sync(copy);
}

bool sim_copy_take_mail(struct sim_copy *copy, struct sim_mail *mail)
{
    if (!copy->mail_count || copy->outbox[0].after_saves > copy->saves_done)
        return false;
    *mail = copy->outbox[0];
    copy->mail_count--;
    memmove(copy->outbox, copy->outbox + 1, copy->mail_count * sizeof *copy->outbox);
    return true;
}
