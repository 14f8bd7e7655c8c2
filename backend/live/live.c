#include "backend/live/live.h"

#include "backend/copy/copy.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"
#include "shared/net/loop.h"
#include "shared/number.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    LOAD_TRIES = 10,
    LOAD_PAUSES = 20,
    PROBED_KEYS = 64,

    RECEIVE_WAIT_MS = 100,
    SHOW_MS = 1000,
    SHOW_QUIET_MS = 10 * 1000
};

bool live_fail(struct live *live, enum copy_exit code, const char *what, const char *reason)
{
    if (live->exit == EXIT_DONE)
        report_say(&live->report, "scree-copy: %s%s%s", what, *reason ? ": " : "", reason);
    live->exit = live->exit == EXIT_DONE ? code : live->exit;
    return false;
}

void live_progress(struct live *live, const char *verb, uint64_t end)
{
    uint64_t now_ms = clock_mono_us() / 1000;
    uint64_t waited_ms = now_ms - live->shown_ms;
    bool is_terminal = isatty(STDERR_FILENO);
    atomic_store(&live->shown.lag, end - live->row.point.position);
    atomic_store(&live->shown.commands, live->commands);
    atomic_store(&live->shown.refused, live->report.refused);
    atomic_store(&live->shown.position, live->row.point.position);
    if (live->options->is_quiet || waited_ms < (is_terminal ? SHOW_MS : SHOW_QUIET_MS))
        return;
    (void)fprintf(stderr,
                  "%s%-7s lag %" PRIu64 " bytes  %" PRIu64 " commands/s  refused %" PRIu64 "%s",
                  is_terminal ? "\r\x1b[K" : "", verb, end - live->row.point.position,
                  (live->commands - live->shown_commands) * 1000 / waited_ms, live->report.refused,
                  is_terminal ? "" : "\n");
    live->report.is_line_open = is_terminal;
    live->shown_ms = now_ms;
    live->shown_commands = live->commands;
}

/* ---- before the copy ---- */

static bool target_failed(struct live *live)
{
    return !live->is_stopped && live_fail(live, EXIT_TARGET, live->link.error, "");
}

/* INFO keyspace has a line for each database with keys: db0:keys=…. Has one of them that the copy writes? */
static bool has_copied_dbs(const struct live *live, struct bytes text)
{
    static const char start[] = "\ndb";
    const char *end = text.data + text.len;
    const char *line = memmem(text.data, text.len, start, strlen(start));
    for (; line; line = memmem(line, (size_t)(end - line), start, strlen(start))) {
        line += strlen(start);
        const char *colon = memchr(line, ':', (size_t)(end - line));
        uint64_t db;
        if (colon && number_parse_uint64((struct bytes){line, (size_t)(colon - line)}, &db) &&
            selector_writes_db(&live->batch.selector, db))
            return true;
    }
    return false;
}

static bool is_target_empty(struct live *live)
{
    size_t at = 0;
    if (live->options->existing == EXISTING_REPLACE && live->options->has_existing)
        return true;
    if (!live_call(live, (struct bytes[]){BYTES("INFO"), BYTES("keyspace")}, 2))
        return target_failed(live);
    struct bytes text = value_text(live->link.reply, &at);
    return !has_copied_dbs(live, text) ||
           live_fail(live, EXIT_TARGET, live->options->to.address,
                     "it has keys. A live copy begins with an empty target; with --existing "
                     "replace it does not, and keys that the source does not have stay");
}

/* Can the target execute a transaction with keys of all its shards? Those whose shards are not linked cannot. */
static bool has_transactions(struct live *live)
{
    char key[32];
    struct bytes words[] = {BYTES("EXISTS"), {key, 0}};
    bool is_good = live_call(live, (struct bytes[]){BYTES("MULTI")}, 1);
    for (unsigned i = 0; is_good && i < PROBED_KEYS; i++) {
        words[1].len = (size_t)snprintf(key, sizeof key, "scree-copy:%u", i);
        is_good = live_call(live, words, 2);
    }
    return (is_good && live_call(live, (struct bytes[]){BYTES("EXEC")}, 1)) || target_failed(live);
}

/* Waits for the full copy. */
static bool receive_full_copy(struct live *live)
{
    struct source_state state;
    for (;;) {
        live_source_state(live->source, &state);
        if (state.exit != EXIT_DONE)
            return live_fail(live, state.exit, state.error, "");
        if (live->is_stopped || state.has_full_copy)
            break;
        live_source_wait(live->source, UINT64_MAX, RECEIVE_WAIT_MS);
        loop_poll(live->link.loop);
    }
    memcpy(live->row.point.id, state.id, sizeof state.id);
    live->row.point.position = state.full_position;
    return !live->is_stopped;
}

/* Has a signal come while the loop did not run? */
static bool was_signalled(struct live *live)
{
    loop_poll(live->link.loop);
    return live->is_stopped;
}

/* Runs the copy of a file, or its check. */
static bool copy_full(struct live *live, enum copy_command command)
{
    struct copy_options options = *live->options;
    if (was_signalled(live))
        return false;
    options.file = live->spool.path;
    options.command = command;
    options.existing = EXISTING_REPLACE;
    enum copy_exit code = copy_run(&options);
    if (code == EXIT_STOPPED)
        live->is_stopped = true;
    else if (code != EXIT_DONE && code != EXIT_REFUSED)
        live->exit = code;
    live->report.refused += command == COPY_RUN && code == EXIT_REFUSED;
    return live->exit == EXIT_DONE && !was_signalled(live);
}

/* The database that the stream begins with, if the source is a replica itself; otherwise it begins with SELECT. */
static uint64_t stream_db(const struct live *live)
{
    struct rdb_input input;
    struct rdb_item item;
    uint64_t db = 0;
    if (!rdb_input_open(&input, live->spool.path, COPY_PART_MAX))
        return db;
    while (rdb_input_next(&input, &item) == INPUT_ITEM && item.kind <= RDB_AUX)
        if (item.kind == RDB_AUX && bytes_is(item.key, "repl-stream-db"))
            (void)number_parse_uint64(item.value, &db);
    rdb_input_close(&input);
    return db;
}

static bool start_source(struct live *live, const struct source_point *from)
{
    char error[LANES_ERROR_MAX];
    live->source = live_source_new(live->options, &live->spool, from, error);
    return live->source || live_fail(live, EXIT_ARGUMENTS, error, "");
}

/* Writes the row, unless another tool has. */
static bool take_session(struct live *live, const struct live_row *row)
{
    bool taken;
    if (!live_take_over(live, row, &taken))
        return target_failed(live);
    return taken || live_fail(live, EXIT_SESSION, live->options->to.address,
                              "another scree-copy has just begun with this session");
}

/* ---- the three ways to begin ---- */

bool live_target_is_ready(struct live *live)
{
    return is_target_empty(live) && has_transactions(live);
}

bool live_first_ask(struct live *live)
{
    struct source_point nothing = {.position = 0};
    spool_clear(&live->spool);
    return start_source(live, &nothing);
}

bool live_first_receive(struct live *live)
{
    return receive_full_copy(live) && copy_full(live, COPY_CHECK);
}

void live_first_row(const struct live *live, struct live_row *row)
{
    *row = (struct live_row){.is_load = true, .point = live->row.point, .db = stream_db(live)};
    memcpy(row->slots, live->row.slots, sizeof row->slots);
    (void)snprintf(row->spool, sizeof row->spool, "%s", live->spool_id);
}

static bool begin_first(struct live *live)
{
    char rules[SPOOL_PATH_MAX];
    struct live_row row;
    if (spool_is_fenced(&live->spool, rules))
        return live_fail(live, EXIT_SOURCE, rules,
                         "a cut-over that was killed has left these rules of the source's users, "
                         "who may still be refused writes: give them back with redis-cli, and "
                         "remove the file .fence beside it");
    if (!live_target_is_ready(live) || !live_first_ask(live) || !live_first_receive(live))
        return false;
    if (!live_enter(live, &row))
        return target_failed(live);
    if (row.exists)
        return live_fail(live, EXIT_SESSION, live->options->to.address,
                         "another scree-copy has begun with this session");
    live_first_row(live, &row);
    return take_session(live, &row);
}

/* The full copy was not complete: it is written again, from the spool. */
static bool begin_load_again(struct live *live, const struct live_row *row)
{
    struct source_point point = row->point;
    if (strcmp(row->spool, live->spool_id) != 0 || !spool_has_rdb(&live->spool))
        return live_fail(live, EXIT_HISTORY, live->options->to.address,
                         "the first copy was not complete, and only the spool that it began with, "
                         "if its machine was not started again since, can go on. Begin anew: "
                         "FLUSHALL in the target, then the same command");
    point.position = spool_end(&live->spool, point.position);
    return take_session(live, row) && start_source(live, &point);
}

static bool begin_follow(struct live *live)
{
    struct live_row row;
    spool_clear(&live->spool);
    if (!live_seize(live, &row))
        return target_failed(live);
    if (!row.exists)
        return live_fail(live, EXIT_SESSION, live->options->to.address,
                         "another scree-copy has just gone on with this session, or ended it");
    return start_source(live, &row.point);
}

bool live_begin(struct live *live)
{
    struct live_row row;
    if (!live_enter(live, &row))
        return target_failed(live);
    if (live->options->command == COPY_CUTOVER && (!row.exists || row.is_load))
        return live_fail(live, EXIT_TARGET, live->options->to.address,
                         "it has no live copy of this session that follows its source");
    if (!row.exists)
        return begin_first(live);
    if (strcmp(row.selection, live->batch.selector.name) != 0)
        return live_fail(
            live, EXIT_ARGUMENTS, live->options->to.address,
            "this session was begun with other --db, --match, --skip, --strip, --add, "
            "--functions, another database in --to or, beside filters of keys, another "
            "--existing: give the same, or begin another --session");
    return row.is_load ? begin_load_again(live, &row) : begin_follow(live);
}

/* The target was lost: the full copy is written again from its start, after a pause, a few times. */
static bool pause_load(struct live *live, unsigned *tries)
{
    if (--*tries == 0)
        return false;
    live->exit = EXIT_DONE;
    for (unsigned i = 0; i < LOAD_PAUSES && !live->is_stopped; i++) {
        live_source_wait(live->source, UINT64_MAX, RECEIVE_WAIT_MS);
        loop_poll(live->link.loop);
    }
    return true;
}

/* Writes the full copy into the target; then the stream follows. */
bool live_load(struct live *live)
{
    struct live_row row;
    unsigned tries = LOAD_TRIES;
    uint64_t generation = live->row.generation;
    if (!live->row.is_load)
        return true;
    while (!copy_full(live, COPY_RUN))
        if (live->exit != EXIT_TARGET || live->is_stopped || !pause_load(live, &tries))
            return false;
    if (!live_enter(live, &row))
        return target_failed(live);
    if (!row.exists || row.generation != generation)
        return live_fail(live, EXIT_SESSION, live->options->to.address,
                         "another scree-copy goes on with this session");
    row.is_load = false;
    row.refused += live->report.refused;
    if (!take_session(live, &row))
        return false;
    (void)unlink(live->spool.path);
    return true;
}

/* ---- a run ---- */

void live_follow(struct live *live)
{
    bool cuts_over = live->options->command == COPY_CUTOVER;
    live->goal.end = cuts_over                              ? LIVE_CAUGHT_UP
                     : live->options->follows               ? LIVE_NEVER
                     : live->options->from.seeds.is_cluster ? LIVE_TOGETHER
                                                            : LIVE_SILENT;
    live->link.is_broken = true; /* so it connects */
    live_apply(live);
}

static void follow_source(struct live *live)
{
    bool cuts_over = live->options->command == COPY_CUTOVER;
    live_follow(live);
    if (cuts_over && live->exit == EXIT_DONE && !live->is_stopped)
        live_cut_over(live);
    if (cuts_over && live->exit == EXIT_DONE)
        spool_clear(&live->spool);
}

static void on_live_signal(void *owner, int signum)
{
    struct live *live = owner;
    (void)signum;
    live->is_stopped = true;
    loop_stop(live->link.loop);
}

/* What the row says of the spool: a number in its folder, and the machine's start, because a spool is not synced all the time. */
static bool find_spool_id(struct live *live)
{
    char boot[64] = "";
    char number[33] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        (void)fgets(boot, sizeof boot, file);
        (void)fclose(file);
    }
    boot[strcspn(boot, "\n")] = '\0';
    if (!spool_number(&live->spool, number))
        return live_fail(live, EXIT_SOURCE, live->spool.error, "");
    (void)snprintf(live->spool_id, sizeof live->spool_id, "%s-%s", number, boot);
    return true;
}

static void print_live_json(const struct live *live, enum copy_exit code)
{
    struct out out;
    struct json_writer json;
    out_init(&out);
    json_writer_init(&json, &out);
    json_put_object(&json, NULL);
    json_put_text(&json, "command", "follow");
    json_put_uint(&json, "exit", code);
    json_put_uint(&json, "commands", live->commands);
    json_put_uint(&json, "left_out", live->left_out);
    json_put_uint(&json, "refused", live->report.refused);
    json_put_uint(&json, "position", live->row.point.position);
    json_put_end(&json);
    json_writer_fini(&json);
    struct bytes text = out_take(&out);
    (void)printf("%s\n", text.data);
    free((char *)text.data);
}

static enum copy_exit end_live(struct live *live)
{
    enum copy_exit code = live->exit != EXIT_DONE    ? live->exit
                          : live->is_stopped         ? EXIT_STOPPED
                          : live->report.refused > 0 ? EXIT_REFUSED
                                                     : EXIT_DONE;
    if (live->is_stopped && live->exit == EXIT_DONE)
        report_say(&live->report, "scree-copy: stopped; the same command goes on");
    if (live->options->is_json)
        print_live_json(live, code);
    else
        (void)printf("follow: %" PRIu64 " commands, %" PRIu64 " refused; the target is as the "
                     "source was at position %" PRIu64 "\n",
                     live->commands, live->report.refused, live->row.point.position);
    return code;
}

void live_free(struct live *live)
{
    if (live->source)
        live_source_free(live->source);
    struct loop *loop = live->link.loop;
    live_link_fini(live);
    loop_free(loop);
    spool_close(&live->spool);
    batch_free(&live->batch);
    free(live->read.data);
    free(live);
}

struct live *live_new(const struct copy_options *options)
{
    struct live *live = calloc(1, sizeof *live);
    CHECK(live);
    live->options = options;
    live->target = *options;
    live->target.lanes = 1;
    batch_init(&live->batch, options);
    live_link_init(live, loop_new());
    report_init(&live->report, options);
    (void)snprintf(live->row_name, sizeof live->row_name, "scree-copy:live:%s", options->session);
    loop_on_signal(live->link.loop, SIGINT, on_live_signal, live);
    loop_on_signal(live->link.loop, SIGTERM, on_live_signal, live);
    if (!spool_open(&live->spool, options->spool, options->session))
        (void)live_fail(live, EXIT_SESSION, live->spool.error, "");
    else
        (void)find_spool_id(live);
    return live;
}

enum copy_exit live_run(const struct copy_options *options)
{
    struct live *live = live_new(options);
    if (live->exit == EXIT_DONE && live_begin(live) && live_load(live))
        follow_source(live);
    enum copy_exit code = end_live(live);
    live_free(live);
    return code;
}
