/*
 * set.c - set commands.
 *
 * The metadata row has the number of members; each member is a row without a value, in byte order. Big sets have ranks
 * (rank.h), so that a random member is found without reading all rows before it.
 */
#include "backend/commands/sample.h"
#include "backend/commands/scan.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "backend/rank/rank.h"
#include "backend/session/notify.h"
#include "backend/session/reply_stream.h"
#include "shared/number.h"

static const struct bytes NOTHING = {"", 0};

static bool set_open(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry)
{
    return keyspace_open_type(call, call->argv[index], TYPE_SET, flags, entry);
}

/* Is `member` in the set? OK, ERR_NOT_FOUND, or a read failure (replied). */
static int member_find(struct call *call, struct entry *entry, struct bytes member)
{
    struct bytes value;
    return entry->exists || entry->fresh ? sub_get(call, entry, CF_DATA, member, &value)
                                         : ERR_NOT_FOUND;
}

/* Adds the member if it is missing; false: the store failed. */
static bool member_add(struct rank_edit *edit, struct bytes member, int64_t *added)
{
    struct entry *entry = edit->entry;
    int err = member_find(edit->call, entry, member);
    if (err != ERR_NOT_FOUND)
        return err == OK;
    sub_put(edit->call, entry, CF_DATA, member, NOTHING);
    entry->meta.size++;
    ++*added;
    return rank_edit_add(edit, member);
}

/* Removes a member that the set has; false: the store failed. */
static bool member_take(struct rank_edit *edit, struct bytes member)
{
    sub_delete(edit->call, edit->entry, CF_DATA, member);
    edit->entry->meta.size--;
    return rank_edit_remove(edit, member);
}

/* Removes the member if it exists; false: the store failed. */
static bool member_remove(struct rank_edit *edit, struct bytes member, int64_t *removed)
{
    int err = member_find(edit->call, edit->entry, member);
    if (err != OK)
        return err == ERR_NOT_FOUND;
    ++*removed;
    return member_take(edit, member);
}

/* Saves a set from which `removed` members were removed, and notifies. */
static void taken(struct call *call, struct entry *entry, int64_t removed, const char *event)
{
    entry_save(call, entry);
    call_changes(call, removed - 1);
    notify(call, NOTIFY_SET, event, entry->key);
    if (entry->meta.size == 0)
        notify(call, NOTIFY_GENERIC, "del", entry->key);
}

/* ---- writes ---- */

void cmd_sadd(struct call *call)
{
    struct entry entry;
    struct rank_edit edit;
    int64_t added = 0;
    if (!set_open(call, 1, OPEN_WRITE, &entry))
        return;
    if (!entry.exists)
        entry_create(call, &entry, TYPE_SET);
    rank_edit_begin(&edit, call, &entry, CF_DATA);
    for (uint32_t i = 2; i < call->argc; i++)
        if (!member_add(&edit, call->argv[i], &added))
            return;
    if (!rank_edit_end(&edit))
        return;
    if (added) {
        entry_save(call, &entry);
        call_changes(call, added - 1);
        notify(call, NOTIFY_SET, "sadd", call->argv[1]);
    }
    reply_int(&call->reply, added);
}

void cmd_srem(struct call *call)
{
    struct entry entry;
    struct rank_edit edit;
    int64_t removed = 0;
    if (!set_open(call, 1, OPEN_WRITE, &entry))
        return;
    rank_edit_begin(&edit, call, &entry, CF_DATA);
    for (uint32_t i = 2; i < call->argc; i++)
        if (!member_remove(&edit, call->argv[i], &removed))
            return;
    if (!rank_edit_end(&edit))
        return;
    if (removed)
        taken(call, &entry, removed, "srem");
    reply_int(&call->reply, removed);
}

/* Adds a member to the destination of SMOVE. */
static bool move_in(struct call *call, struct entry *to, struct bytes member)
{
    struct rank_edit edit;
    int64_t added = 0;
    if (!to->exists)
        entry_create(call, to, TYPE_SET);
    rank_edit_begin(&edit, call, to, CF_DATA);
    if (!member_add(&edit, member, &added) || !rank_edit_end(&edit))
        return false;
    if (added) {
        entry_save(call, to);
        notify(call, NOTIFY_SET, "sadd", to->key);
    }
    return true;
}

void cmd_smove(struct call *call)
{
    struct entry from;
    struct entry to;
    struct bytes member = call->argv[3];
    int64_t removed = 0;
    if (!keyspace_open(call, call->argv[1], OPEN_WRITE, &from))
        return;
    if (!from.exists) {
        reply_int(&call->reply, 0);
        return;
    }
    if (!set_open(call, 1, OPEN_WRITE, &from) || !set_open(call, 2, OPEN_WRITE, &to))
        return;
    int err = member_find(call, &from, member);
    if (is_read_failure(err))
        return;
    reply_int(&call->reply, err == OK);
    if (err != OK || bytes_equal(call->argv[1], call->argv[2]))
        return;
    struct rank_edit edit;
    rank_edit_begin(&edit, call, &from, CF_DATA);
    if (!member_remove(&edit, member, &removed) || !rank_edit_end(&edit))
        return;
    taken(call, &from, removed, "srem");
    (void)move_in(call, &to, member);
}

/* ---- reads ---- */

void cmd_scard(struct call *call)
{
    struct entry entry;
    if (set_open(call, 1, OPEN_READ, &entry))
        reply_int(&call->reply, (int64_t)entry.meta.size);
}

void cmd_sismember(struct call *call)
{
    struct entry entry;
    if (!set_open(call, 1, OPEN_READ, &entry))
        return;
    int err = member_find(call, &entry, call->argv[2]);
    if (!is_read_failure(err))
        reply_int(&call->reply, err == OK);
}

void cmd_smismember(struct call *call)
{
    struct entry entry;
    if (!set_open(call, 1, OPEN_READ, &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc; i++) {
        int err = member_find(call, &entry, call->argv[i]);
        if (is_read_failure(err))
            return;
        reply_int(&call->reply, err == OK);
    }
}

/* reply_stream_row_fn */
static void reply_member(struct reply *reply, struct bytes member, struct bytes value, unsigned how)
{
    (void)value;
    (void)how;
    reply_bulk(reply, member);
}

static void reply_all_members(struct call *call, struct entry *entry)
{
    struct sub_iter it;
    reply_set(&call->reply, (int64_t)entry->meta.size);
    if (!entry->exists)
        return;
    sub_iter_init(call, entry, CF_DATA, NOTHING, &it);
    reply_stream_rows(call, &it, entry->meta.size, reply_member, 0);
}

void cmd_smembers(struct call *call)
{
    struct entry entry;
    if (set_open(call, 1, OPEN_READ, &entry))
        reply_all_members(call, &entry);
}

void cmd_sscan(struct call *call)
{
    scan_collection(call, TYPE_SET, CF_DATA, false);
}

/* ---- random members ---- */

/* Removes the chosen members, whose rows have just been read, and replies them. */
static void pop_picks(struct call *call, struct entry *entry, const struct sample *picks,
                      uint64_t count)
{
    struct rank_edit edit;
    rank_edit_begin(&edit, call, entry, CF_DATA);
    for (uint64_t i = 0; i < count && !call->failed; i++) {
        reply_bulk(&call->reply, picks[i].sub);
        if (!member_take(&edit, picks[i].sub))
            return;
    }
    if (rank_edit_end(&edit))
        taken(call, entry, (int64_t)count, "spop");
}

static void pop_all(struct call *call, struct entry *entry)
{
    reply_all_members(call, entry);
    call_changes(call, (int64_t)entry->meta.size - 1);
    entry_delete(call, entry);
    notify(call, NOTIFY_SET, "spop", call->argv[1]);
    notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
}

static void pop_many(struct call *call)
{
    struct entry entry;
    int64_t count;
    if (!number_parse_int64(call->argv[2], &count) || count < 0) {
        call_error_text(call, "ERR value is out of range, must be positive");
        return;
    }
    if (!set_open(call, 1, OPEN_WRITE, &entry))
        return;
    if (!entry.exists || count == 0) {
        reply_set(&call->reply, 0);
        return;
    }
    if ((uint64_t)count >= entry.meta.size) {
        pop_all(call, &entry);
        return;
    }
    const struct sample *picks = sample_distinct(call, &entry, CF_DATA, (uint64_t)count);
    if (!picks)
        return;
    reply_set(&call->reply, count);
    pop_picks(call, &entry, picks, (uint64_t)count);
}

void cmd_spop(struct call *call)
{
    struct entry entry;
    if (call->argc > 3) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (call->argc == 3) {
        pop_many(call);
        return;
    }
    if (!set_open(call, 1, OPEN_WRITE, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    const struct sample *picks = sample_distinct(call, &entry, CF_DATA, 1);
    if (picks)
        pop_picks(call, &entry, picks, 1);
}

void cmd_srandmember(struct call *call)
{
    struct entry entry;
    struct sample_wish wish;
    if (call->argc > 3) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if (!sample_parse(call, "", &wish) || !set_open(call, 1, OPEN_READ, &entry) ||
        !sample_bound(call, &entry, &wish))
        return;
    const struct sample *picks = wish.count == 0 ? NULL
                                 : wish.repeats
                                     ? sample_repeated(call, &entry, CF_DATA, wish.count)
                                     : sample_distinct(call, &entry, CF_DATA, wish.count);
    if (wish.count && !picks)
        return;
    if (wish.has_count)
        reply_array(&call->reply, (int64_t)wish.count);
    else if (!entry.exists)
        reply_null(&call->reply);
    for (uint64_t i = 0; i < wish.count; i++)
        reply_bulk(&call->reply, picks[i].sub);
}
