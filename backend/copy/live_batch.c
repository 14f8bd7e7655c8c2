#include "backend/copy/live_batch.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/resp.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

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

static void forget_refusals(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        free(batch->all[i].refusal);
    batch->count = 0;
}

void batch_free(struct batch *batch)
{
    forget_refusals(batch);
    free(batch->all);
    batch->all = NULL;
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

static bool is_command_name(struct bytes word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
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

/* Handles one command. False: it cannot be copied. */
static bool take_command(struct collecting *collecting, const struct batch_command *command)
{
    struct bytes name = batch_word(collecting->bytes, command, 0);
    if (is_command_name(name, "PING") || is_command_name(name, "REPLCONF"))
        return true;
    if (is_command_name(name, "SELECT"))
        return take_select(collecting, command);
    if (is_command_name(name, "SWAPDB"))
        return refuse_command(collecting->batch,
                              "the source has executed SWAPDB, which a live copy cannot repeat "
                              "exactly once, so the copy must begin anew");
    if (is_command_name(name, "MULTI") || is_command_name(name, "EXEC"))
        collecting->in_multi = name.len == strlen("MULTI");
    else if (is_command_name(name, "PUBLISH") || is_command_name(name, "SPUBLISH") ||
             is_command_name(name, "SCRIPT"))
        collecting->left_out++;
    else
        add_stream_command(collecting, command);
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
    forget_refusals(batch);
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
