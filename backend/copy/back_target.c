/*
 * back_target.c - what the target is asked and told: its kind, the row, transactions.
 *
 *   WATCH row, HGET row generation, MULTI ─► these are good ─► commands, HSET row, EXEC ─► results
 *
 * The commands are sent when the first three have been answered, so that they are never executed outside of a transaction.
 */
#include "backend/copy/back.h"
#include "backend/copy/selection.h"
#include "backend/copy/value_reader.h"
#include "backend/format/rdb.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/error_code.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TARGET_MAJOR_MIN = 7, MODULE_TYPE = 7, REFUSAL_MAX = 400, SOURCE_DBS_MAX = 16 };

/* ---- the kind of server ---- */

/* The text behind `name`, a field of INFO, up to the end of its line; empty: there is none. */
static struct bytes info_field(struct bytes text, const char *name)
{
    const char *found = memmem(text.data, text.len, name, strlen(name));
    if (!found)
        return BYTES("");
    const char *start = found + strlen(name);
    size_t left = (size_t)(text.data + text.len - start);
    const char *end = memchr(start, '\r', left);
    return (struct bytes){start, end ? (size_t)(end - start) : left};
}

/* What is wrong with the target; NULL: nothing. */
static const char *wrong_kind(struct bytes info)
{
    struct bytes version = info_field(info, "\nredis_version:");
    if (strtoul(version.len ? version.data : "0", NULL, 10) < TARGET_MAJOR_MIN)
        return "it is older than Redis 7, and does not know the format of Scree's values";
    if (bytes_is(info_field(info, "\nredis_mode:"), "cluster"))
        return "it is a Redis Cluster, which has no transactions with all keys: give a single "
               "server";
    if (bytes_is(info_field(info, "\nrole:"), "slave"))
        return "it is a replica: give its master";
    return NULL;
}

static bool has_keys(struct back *back, uint64_t db, void *owner)
{
    (void)back;
    (void)db;
    *(bool *)owner = true;
    return true;
}

static bool check_kind(struct back *back)
{
    struct bytes frame;
    size_t at = 0;
    if (!wire_call(&back->target, (struct bytes[]){BYTES("INFO")}, 1, &frame))
        return false;
    const char *wrong = wrong_kind(value_text(frame, &at));
    return !wrong || back_fail(back, EXIT_TARGET, back->options->to.address, wrong);
}

static bool check_empty(struct back *back)
{
    bool is_full = false;
    if (back->options->has_existing && back->options->existing == EXISTING_REPLACE)
        return true;
    if (!back_each_db(back, has_keys, &is_full))
        return false;
    return !is_full ||
           back_fail(back, EXIT_TARGET, back->options->to.address,
                     "it has keys. With --existing replace it becomes equal to Scree: keys that "
                     "Scree does not have are deleted");
}

/* INFO keyspace has a line for each database with keys: db0:keys=… */
bool back_each_db(struct back *back, back_db_fn *on_db, void *owner)
{
    struct bytes frame;
    size_t at = 0;
    if (!wire_call(&back->target, (struct bytes[]){BYTES("INFO"), BYTES("keyspace")}, 2, &frame))
        return false;
    struct bytes taken = wire_take(&back->target);
    struct bytes text = value_text(taken, &at);
    const char *end = text.data + text.len;
    bool goes_on = true;
    for (const char *line = text.data;
         goes_on && (line = memmem(line, (size_t)(end - line), "\ndb", 3));) {
        uint64_t db = strtoull(line += 3, NULL, 10);
        goes_on = !selector_writes_db(&back->selector, db) || on_db(back, db, owner);
    }
    free((char *)taken.data);
    return goes_on;
}

/* Has the source this database? */
static bool ask_source_db(struct back *back, uint64_t db, bool *has)
{
    char number[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("SELECT"), {number, number_format_int64(number, (int64_t)db)}};
    wire_queue(&back->source, 0, words, COUNT_OF(words));
    wire_queue(&back->source, 0, (struct bytes[]){BYTES("SELECT"), BYTES("0")}, 2);
    if (!wire_await(&back->source))
        return false;
    struct bytes frame = wire_next(&back->source);
    *has = bytes_is(frame, "+OK\r\n");
    return *has || error_has_code(frame, "ERR") || wire_refused(&back->source, frame);
}

/* INFO keyspace of a proxy would leave out a database whose keys are all at a shard that does not answer. */
bool back_each_source_db(struct back *back, back_db_fn *on_db, void *owner)
{
    bool has = true;
    for (uint64_t db = 0; has && db < SOURCE_DBS_MAX; db++) {
        if (selection_db(back->options, db) < 0)
            continue;
        if (!ask_source_db(back, db, &has) || (has && !on_db(back, db, owner)))
            return false;
    }
    return true;
}

/* ---- the row ---- */

void back_take_token(struct back *back, struct bytes token)
{
    struct back_row *row = &back->row;
    free(row->token);
    row->token = malloc(token.len + 1);
    CHECK(row->token);
    char *end = row->token;
    (void)bytes_copy_to(&end, token);
    *end = '\0';
}

static bool session_lost(struct back *back)
{
    return back_fail(back, EXIT_SESSION, back->options->to.address,
                     "another scree-copy goes on with this session");
}

static void copy_row_text(char *to, size_t size, struct bytes text)
{
    (void)snprintf(to, size, "%.*s", (int)text.len, text.len ? text.data : "");
}

static bool read_back_row(struct back *back)
{
    struct back_row *row = &back->row;
    struct bytes words[] = {BYTES("HMGET"),      bytes_of(back->row_name), BYTES("token"),
                            BYTES("generation"), BYTES("refused"),         BYTES("selection"),
                            BYTES("owner")};
    struct bytes frame;
    size_t at = 0;
    if (!wire_call(&back->target, words, COUNT_OF(words), &frame))
        return false;
    (void)values_count(frame, &at);
    struct bytes token = value_text(frame, &at);
    row->exists = token.len > 0;
    back_take_token(back, token);
    (void)number_parse_uint64(value_text(frame, &at), &row->generation);
    (void)number_parse_uint64(value_text(frame, &at), &row->refused);
    copy_row_text(row->selection, sizeof row->selection, value_text(frame, &at));
    copy_row_text(row->owner, sizeof row->owner, value_text(frame, &at));
    return true;
}

struct row_text {
    char generation[INT64_TEXT_MAX];
    char refused[INT64_TEXT_MAX];
    struct bytes words[12];
};

/* The words HSET row …, as the row is now. */
static void write_row_words(const struct back *back, struct row_text *text)
{
    uint64_t refused = back->refused_first + back->report.refused;
    const struct bytes words[COUNT_OF(text->words)] = {
        BYTES("HSET"),
        bytes_of(back->row_name),
        BYTES("token"),
        bytes_of(back->row.token),
        BYTES("generation"),
        {text->generation, number_format_int64(text->generation, (int64_t)back->row.generation)},
        BYTES("refused"),
        {text->refused, number_format_int64(text->refused, (int64_t)refused)},
        BYTES("selection"),
        bytes_of(back->selector.name),
        BYTES("owner"),
        bytes_of(back->owner)};
    memcpy(text->words, words, sizeof words);
}

/* Writes the first row, unless another tool has, since the row is watched. */
static bool create_row(struct back *back)
{
    struct row_text row;
    struct bytes frame;
    size_t at = 0;
    if (!check_empty(back))
        return false;
    back_take_token(back, BYTES("0"));
    back->row.generation = 1;
    write_row_words(back, &row);
    if (!wire_call(&back->target, (struct bytes[]){BYTES("MULTI")}, 1, &frame) ||
        !wire_call(&back->target, row.words, COUNT_OF(row.words), &frame) ||
        !wire_call(&back->target, (struct bytes[]){BYTES("EXEC")}, 1, &frame))
        return false;
    return values_count(frame, &at) > 0 ||
           back_fail(back, EXIT_SESSION, back->options->to.address,
                     "another scree-copy has just begun with this session");
}

/* Raises the generation: a tool that wrote with the one before cannot go on. */
static bool raise_generation(struct back *back, uint64_t *generation)
{
    struct bytes row = bytes_of(back->row_name);
    struct bytes raise[] = {BYTES("HINCRBY"), row, BYTES("generation"), BYTES("1")};
    struct bytes own[] = {BYTES("HSET"), row, BYTES("owner"), bytes_of(back->owner)};
    struct bytes frame;
    size_t at = 0;
    if (!wire_call(&back->target, (struct bytes[]){BYTES("UNWATCH")}, 1, &frame) ||
        !wire_call(&back->target, (struct bytes[]){BYTES("MULTI")}, 1, &frame) ||
        !wire_call(&back->target, raise, COUNT_OF(raise), &frame) ||
        !wire_call(&back->target, own, COUNT_OF(own), &frame) ||
        !wire_call(&back->target, (struct bytes[]){BYTES("EXEC")}, 1, &frame))
        return false;
    (void)values_count(frame, &at);
    *generation = (uint64_t)value_number(frame, &at);
    return true;
}

static bool take_over_row(struct back *back)
{
    uint64_t generation;
    if (strcmp(back->row.selection, back->selector.name) != 0)
        return back_fail(
            back, EXIT_ARGUMENTS, back->options->to.address,
            "this session was begun with other --db, --match, --skip, --strip, --add or "
            "--functions: give the same, or begin another --session");
    return raise_generation(back, &generation) && read_back_row(back) &&
           (back->row.generation == generation || session_lost(back));
}

static bool data_lost(struct back *back)
{
    return back_fail(back, EXIT_HISTORY, back->options->to.address,
                     "it has lost its data, and with them how far the copy was: the same command "
                     "begins anew");
}

/* Has another tool raised the generation since this one was connected? If the target was set back, its generation is lower. */
static bool was_taken_over(const struct back *back, uint64_t generation)
{
    return back->has_entered && back->row.generation > generation &&
           strcmp(back->row.owner, back->owner) != 0;
}

bool back_enter(struct back *back)
{
    struct bytes watch[] = {BYTES("WATCH"), bytes_of(back->row_name)};
    uint64_t generation = back->row.generation;
    struct bytes frame;
    if (!check_kind(back) || !wire_call(&back->target, watch, COUNT_OF(watch), &frame) ||
        !read_back_row(back))
        return false;
    if (!back->row.exists && back->has_entered)
        return data_lost(back);
    if (was_taken_over(back, generation))
        return session_lost(back);
    return back->row.exists ? take_over_row(back) : create_row(back);
}

bool back_check_target(struct back *back)
{
    return check_kind(back) && read_back_row(back) && (back->row.exists || check_empty(back));
}

/* ---- a transaction ---- */

/* Is the row still this tool's? */
static bool is_still_own_row(struct back *back, struct bytes frame)
{
    uint64_t generation;
    size_t at = 0;
    if (*frame.data == '-')
        return wire_refused(&back->target, frame);
    struct bytes text = value_text(frame, &at);
    if (!text.len)
        return data_lost(back);
    return (number_parse_uint64(text, &generation) && generation == back->row.generation) ||
           session_lost(back);
}

bool back_begin(struct back *back)
{
    struct wire *wire = &back->target;
    struct bytes row = bytes_of(back->row_name);
    wire_queue(wire, 0, (struct bytes[]){BYTES("WATCH"), row}, 2);
    wire_queue(wire, 0, (struct bytes[]){BYTES("HGET"), row, BYTES("generation")}, 3);
    wire_queue(wire, 0, (struct bytes[]){BYTES("MULTI")}, 1);
    back->changes.count = 0;
    back->changes.db = 0;
    if (!wire_await(wire))
        return false;
    struct bytes watched = wire_next(wire);
    struct bytes generation = wire_next(wire);
    struct bytes begun = wire_next(wire);
    if (!bytes_is(watched, "+OK\r\n"))
        return wire_refused(wire, watched);
    return is_still_own_row(back, generation) &&
           (bytes_is(begun, "+OK\r\n") || wire_refused(wire, begun));
}

/* Queues a command in the transaction. */
static void put_change(struct back *back, const struct back_key *key, const struct bytes *words,
                       uint32_t count)
{
    struct back_changes *changes = &back->changes;
    if (changes->count == changes->room) {
        changes->room = changes->room * 2 + 64;
        changes->keys = realloc(changes->keys, changes->room * sizeof(struct back_key *));
        CHECK(changes->keys);
    }
    changes->keys[changes->count++] = key;
    wire_queue(&back->target, 0, words, count);
}

static void put_select(struct back *back, uint64_t db)
{
    char number[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("SELECT"), {number, number_format_int64(number, (int64_t)db)}};
    if (back->changes.db != db)
        put_change(back, NULL, words, COUNT_OF(words));
    back->changes.db = db;
}

void back_put(struct back *back, uint64_t db, const struct back_key *key, const struct bytes *words,
              uint32_t count)
{
    put_select(back, db);
    put_change(back, key, words, count);
}

/* What the target probably does not know about this payload of DUMP, which ends with its version and a checksum. */
static const char *unknown_part(struct bytes payload)
{
    enum { FOOTER = 10 };
    if (payload.len <= FOOTER)
        return "";
    if (*payload.data == MODULE_TYPE)
        return "a value of a module (JSON, a filter, a sketch): ";
    uint8_t version = (uint8_t)payload.data[payload.len - FOOTER];
    return version == RDB_VERSION_HASH_TTL ? "a hash whose fields have times to live: " : "";
}

/* Names a value that the target does not take. */
static void name_refused(struct back *back, const struct back_key *key, struct bytes error)
{
    char reason[REFUSAL_MAX];
    int len = snprintf(reason, sizeof reason, "%s%.*s", unknown_part(key->value),
                       (int)(error.len < 300 ? error.len : 300), error.data);
    report_refused(&back->report, key->from, key->key, (struct bytes){reason, (size_t)len});
}

static void take_results(struct back *back, struct bytes frame)
{
    struct resp_value value;
    size_t at = 0;
    uint64_t count = values_count(frame, &at);
    for (uint64_t i = 0; i < count; i++) {
        size_t start = at;
        const struct back_key *key = i < back->changes.count ? back->changes.keys[i] : NULL;
        if (key && resp_value_next(frame, &at, &value) && value.type == '-')
            name_refused(back, key, value.text);
        at = start;
        if (!resp_value_skip(frame, &at))
            return;
    }
}

/* EXEC has done nothing: the row has changed. */
static bool row_was_touched(struct back *back)
{
    struct bytes words[] = {BYTES("HGET"), bytes_of(back->row_name), BYTES("generation")};
    struct bytes frame;
    return wire_call(&back->target, words, COUNT_OF(words), &frame) &&
           is_still_own_row(back, frame) &&
           wire_refused(&back->target, BYTES("-TRYAGAIN the row has changed\r\n"));
}

bool back_commit(struct back *back)
{
    struct wire *wire = &back->target;
    struct row_text row;
    put_select(back, 0);
    write_row_words(back, &row);
    put_change(back, NULL, row.words, COUNT_OF(row.words));
    wire_queue(wire, 0, (struct bytes[]){BYTES("EXEC")}, 1);
    if (!wire_await(wire))
        return false;
    for (size_t i = 0; i < back->changes.count; i++) {
        struct bytes queued = wire_next(wire);
        if (!bytes_is(queued, "+QUEUED\r\n"))
            return wire_refused(wire, queued);
    }
    struct bytes result = wire_next(wire);
    if (bytes_is(result, "*-1\r\n"))
        return row_was_touched(back);
    if (result.len < 2 || *result.data != '*' || result.data[1] == '-')
        return wire_refused(wire, result);
    take_results(back, result);
    back->is_row_old = false;
    back->row_ms = clock_mono_us() / 1000;
    return true;
}
