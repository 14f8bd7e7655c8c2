#include "backend/live/live_batch.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>

/* A batch while it is collected. */
struct collecting {
    struct batch *batch;
    struct bytes bytes;
    size_t at;
    size_t commands; /* also of the unit that is not whole */
    uint64_t db;
    uint64_t left_out;
    bool in_multi;
};

void batch_init(struct batch *batch, const struct copy_options *options)
{
    *batch = (struct batch){.all = NULL};
    selector_init(&batch->selector, options);
}

void batch_free(struct batch *batch)
{
    free(batch->all);
    batch->all = NULL;
    selector_fini(&batch->selector);
}

struct bytes batch_frame(struct bytes bytes, const struct batch_command *command)
{
    return command->made.len ? command->made
                             : (struct bytes){bytes.data + command->at, command->len};
}

void batch_refuse(struct batch *batch, struct batch_command *command, struct bytes reason)
{
    char *text = arena_alloc(&batch->selector.arena, reason.len + 1);
    command->refusal = text;
    command->is_refused = true;
    (void)bytes_copy_to(&text, reason);
    *text = '\0';
}

struct bytes batch_word(struct bytes bytes, const struct batch_command *command, unsigned number)
{
    struct bytes frame = {bytes.data + command->at, command->len};
    struct resp_value value = {.type = 0};
    size_t at = 0;
    bool is_good = resp_value_next(frame, &at, &value) && value.count > number;
    for (unsigned i = 0; is_good && i <= number; i++)
        is_good = resp_value_next(frame, &at, &value);
    return is_good ? value.text : BYTES("");
}

static void add_stream_command(struct collecting *collecting, const struct batch_command *command)
{
    struct batch *batch = collecting->batch;
    if (collecting->commands == batch->room) {
        batch->room = batch->room ? batch->room * 2 : BATCH_COMMANDS_MAX;
        batch->all = realloc(batch->all, batch->room * sizeof *batch->all);
        CHECK(batch->all);
    }
    batch->all[collecting->commands++] = *command;
}

static bool refuse_command(struct batch *batch, const char *reason)
{
    (void)snprintf(batch->error, sizeof batch->error, "%s", reason);
    return false;
}

static bool take_select(struct collecting *collecting, const struct batch_command *command)
{
    return number_parse_uint64(batch_word(collecting->bytes, command, 1), &collecting->db) ||
           refuse_command(collecting->batch,
                          "the stream of the source has a SELECT of no database");
}

static void add_flushes(struct collecting *collecting, const struct batch_command *command)
{
    static const char flush[] = "*1\r\n$7\r\nFLUSHDB\r\n";
    const struct copy_options *options = collecting->batch->selector.options;
    struct batch_command each = *command;
    each.made = bytes_of(flush);
    for (unsigned i = 0; i < options->dbs.count; i++) {
        each.db = options->dbs.to[i];
        add_stream_command(collecting, &each);
    }
    each.db = (uint64_t)options->to.db;
    if (options->to.db >= 0)
        add_stream_command(collecting, &each);
}

/* The reason names the command, because more than its first key may be concerned. */
static void refuse_selected(struct collecting *collecting, struct batch_command *command,
                            const char *reason)
{
    char text[BATCH_ERROR_MAX];
    struct bytes name = batch_word(collecting->bytes, command, 0);
    int len = snprintf(text, sizeof text, "%.*s: %s", (int)(name.len < 64 ? name.len : 64),
                       name.data, reason);
    batch_refuse(collecting->batch, command, (struct bytes){text, (size_t)len});
}

static void add_selected(struct collecting *collecting, const struct batch_command *command)
{
    struct bytes frame = {collecting->bytes.data + command->at, command->len};
    struct selected selected = selector_take(&collecting->batch->selector, frame, collecting->db);
    struct batch_command added = *command;
    added.db = selected.as == SELECTED_REFUSED ? collecting->db : selected.db;
    added.made = selected.frame;
    if (selected.as == SELECTED_REFUSED)
        refuse_selected(collecting, &added, selected.refusal);
    if (selected.as == SELECTED_FLUSHES)
        add_flushes(collecting, command);
    else if (selected.as != SELECTED_NOTHING)
        add_stream_command(collecting, &added);
    else
        collecting->left_out++;
}

/* Of one master of a cluster: is it a command that shows that slots have moved, or that would concern the keys of other masters? */
static bool is_of_own_slots(struct collecting *collecting, const struct batch_command *command,
                            struct bytes name)
{
    struct batch *batch = collecting->batch;
    struct bytes frame = {collecting->bytes.data + command->at, command->len};
    if (!batch->selector.options->from.seeds.slots)
        return true;
    if (bytes_is(name, "FLUSHALL") || bytes_is(name, "FLUSHDB"))
        return refuse_command(batch, "a master of the source has executed FLUSHALL or FLUSHDB, "
                                     "which would delete the keys of the others, too, so the copy "
                                     "must begin anew");
    if (!bytes_is(name, "RESTORE-ASKING") && !bytes_is(name, "CLUSTER") &&
        selector_has_own_slots(&batch->selector, frame))
        return true;
    return refuse_command(batch, CLUSTER_MOVED);
}

/* Handles one command. False: it cannot be copied. */
static bool take_command(struct collecting *collecting, const struct batch_command *command)
{
    struct bytes name = batch_word(collecting->bytes, command, 0);
    if (bytes_is(name, "PING") || bytes_is(name, "REPLCONF"))
        return true;
    if (bytes_is(name, "SELECT"))
        return take_select(collecting, command);
    if (!is_of_own_slots(collecting, command, name))
        return false;
    if (bytes_is(name, "SWAPDB"))
        return refuse_command(collecting->batch,
                              "the source has executed SWAPDB, which a live copy cannot repeat "
                              "exactly once, so the copy must begin anew");
    if (bytes_is(name, "MULTI") || bytes_is(name, "EXEC"))
        collecting->in_multi = name.len == strlen("MULTI");
    else if (bytes_is(name, "PUBLISH") || bytes_is(name, "SPUBLISH") || bytes_is(name, "SCRIPT"))
        collecting->left_out++;
    else
        add_selected(collecting, command);
    return true;
}

static void end_unit(struct collecting *collecting)
{
    struct batch *batch = collecting->batch;
    batch->count = collecting->commands;
    batch->bytes = collecting->at;
    batch->db = collecting->db;
    batch->left_out = collecting->left_out;
}

static bool is_batch_full(const struct collecting *collecting, size_t limit)
{
    return !collecting->in_multi &&
           (collecting->commands >= limit || collecting->at >= BATCH_BYTES);
}

bool batch_collect(struct batch *batch, struct bytes bytes, uint64_t db, size_t limit)
{
    struct collecting collecting = {.batch = batch, .bytes = bytes, .db = db};
    arena_reset(&batch->selector.arena);
    end_unit(&collecting);
    while (collecting.at < bytes.len && !is_batch_full(&collecting, limit)) {
        struct resp_skip skip = {.pending = 0};
        enum resp_result found =
            resp_skip(&skip, bytes.data + collecting.at, bytes.len - collecting.at);
        if (found == RESP_MORE)
            break;
        if (found == RESP_BAD || bytes.data[collecting.at] != '*')
            return refuse_command(batch,
                                  "the stream of the source has bytes that are no command") ||
                   batch->bytes > 0;
        struct batch_command command = {.at = collecting.at, .len = skip.size, .db = collecting.db};
        if (!take_command(&collecting, &command))
            return batch->bytes > 0; /* what stands before it is copied first */
        collecting.at += skip.size;
        if (!collecting.in_multi)
            end_unit(&collecting);
    }
    return true;
}
