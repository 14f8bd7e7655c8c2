#include "backend/copy/copy.h"

#include "shared/check.h"
#include "shared/net/loop.h"

#include <signal.h>
#include <stdlib.h>

/* Items that are handled before other events get a turn. */
enum { ITEMS_AT_ONCE = 10000, PROGRESS_MS = 200, RATE_WAIT_MS = 5 };

void copy_stop(struct copy *copy, enum copy_exit code)
{
    if (copy->exit == EXIT_DONE)
        copy->exit = code;
    copy->is_at_end = true;
    copy->has_item = false;
    loop_stop(copy->loop);
}

/* ---- the pump ---- */

/* Reads the next item. False: there is none. */
static bool next_file_item(struct copy *copy)
{
    enum input_result found = rdb_input_next(&copy->input, &copy->item);
    copy->report.offset = copy->input.offset;
    if (found == INPUT_BAD) {
        report_say(&copy->report, "scree-copy: %s", copy->input.error);
        copy_stop(copy, EXIT_SOURCE);
    }
    copy->is_at_end = found != INPUT_ITEM;
    copy->has_item = found == INPUT_ITEM;
    return copy->has_item;
}

/* Waits if the rate is used up. */
static bool may_send(struct copy *copy)
{
    uint64_t wait_ms = token_bucket_wait_ms(&copy->rate, loop_mono_ms(copy->loop));
    if (wait_ms)
        timer_start(copy->again, wait_ms < RATE_WAIT_MS ? RATE_WAIT_MS : wait_ms, 0);
    return wait_ms == 0;
}

static void send_items(struct copy *copy)
{
    for (unsigned i = 0; i < ITEMS_AT_ONCE; i++) {
        if (copy->is_at_end || copy->later.since_ms || !may_send(copy))
            return;
        if ((!copy->has_item && !next_file_item(copy)) || !copy_send(copy))
            return;
        copy->has_item = false;
        token_bucket_charge(&copy->rate, loop_mono_ms(copy->loop), copy->item.size);
    }
    timer_start(copy->again, 0, 0);
}

void copy_pump(struct copy *copy)
{
    if (!copy->is_copying)
        return;
    if (copy->exit == EXIT_DONE)
        send_items(copy);
    if (copy->is_at_end && !copy->later.first && lanes_waiting(copy->lanes) == 0)
        loop_stop(copy->loop);
}

static void on_pump_timer(void *owner)
{
    copy_pump(owner);
}

/* ---- events ---- */

static void on_ready(void *owner)
{
    copy_probe(owner);
}

static void handle_any_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    if (request->kind == REQUEST_PROBE || request->kind == REQUEST_RIGHT ||
        request->kind == REQUEST_COUNT)
        copy_probe_reply(copy, request, frame);
    else if (request->kind == REQUEST_ASK)
        copy_ask_reply(copy, request, frame);
    else if (request->kind == REQUEST_DUMP || request->kind == REQUEST_TIME ||
             request->kind == REQUEST_PAGE)
        copy_verify_reply(copy, request, frame);
    else
        copy_reply(copy, request, frame);
}

static void on_reply(void *owner, const struct request *request, struct bytes frame)
{
    struct copy *copy = owner;
    copy->later.sent -= request->is_later;
    handle_any_reply(copy, request, frame);
    if (!copy->later.first && copy->later.sent == 0)
        copy->later.since_ms = 0;
}

/* All probes have their replies: the copy begins, unless something is wrong. */
static void probes_done(struct copy *copy)
{
    if (copy->wrong) {
        copy_stop(copy, EXIT_TARGET);
    } else if (copy->options->command == COPY_CHECK) {
        loop_stop(copy->loop);
    } else {
        copy->is_copying = true;
        copy->report.offset = copy->report.shown_offset = 0; /* the file is read again */
    }
}

static void on_lane_room(void *owner)
{
    struct copy *copy = owner;
    if (!copy->is_copying && lanes_waiting(copy->lanes) == 0)
        probes_done(copy);
    copy_pump(copy);
}

static void on_fail(void *owner, const char *reason)
{
    struct copy *copy = owner;
    report_say(&copy->report, "scree-copy: %s", reason);
    copy_stop(copy, EXIT_TARGET);
}

static void on_interrupt(void *owner, int signum)
{
    struct copy *copy = owner;
    (void)signum;
    report_say(&copy->report, "scree-copy: stopped; the same command may be run again");
    copy_stop(copy, EXIT_STOPPED);
}

static void on_progress(void *owner)
{
    struct copy *copy = owner;
    report_progress(&copy->report, copy->report.verb);
}

static const struct lanes_events EVENTS = {on_ready, on_reply, on_lane_room, on_fail};

/* ---- a run ---- */

static void run_loop(struct copy *copy)
{
    loop_on_signal(copy->loop, SIGINT, on_interrupt, copy);
    loop_on_signal(copy->loop, SIGTERM, on_interrupt, copy);
    timer_start(copy->timer, PROGRESS_MS, PROGRESS_MS);
    loop_run(copy->loop);
}

static void connect_and_run(struct copy *copy)
{
    char error[LANES_ERROR_MAX];
    copy->loop = loop_new();
    copy->timer = timer_new(copy->loop, on_progress, copy);
    copy->again = timer_new(copy->loop, on_pump_timer, copy);
    copy->later.timer = timer_new(copy->loop, copy_send_later, copy);
    copy->lanes = lanes_new(copy->loop, copy->options, &EVENTS, copy, error);
    if (copy->lanes) {
        run_loop(copy);
        lanes_free(copy->lanes);
    } else {
        report_say(&copy->report, "scree-copy: %s", error);
        copy->exit = EXIT_ARGUMENTS;
    }
    timer_free(copy->timer);
    timer_free(copy->again);
    timer_free(copy->later.timer);
    while (copy->later.first) {
        struct request *request = copy->later.first;
        copy->later.first = request->next;
        request_free(request);
    }
    loop_free(copy->loop);
}

static void open_and_run(struct copy *copy)
{
    if (rdb_input_open_source(&copy->input, copy->options, COPY_PART_MAX)) {
        copy->report.size = copy->input.size;
        connect_and_run(copy);
    } else {
        report_say(&copy->report, "scree-copy: %s", copy->input.error);
        copy->exit = EXIT_SOURCE;
    }
    rdb_input_close(&copy->input);
}

/* Reads the whole file first, unless it is standard input. */
static void survey_file(struct copy *copy)
{
    bool is_once = strcmp(copy->options->file, "-") == 0 && !copy->options->to.is_null &&
                   copy->options->command != COPY_CHECK;
    if (is_once)
        return;
    copy->exit = survey_read(&copy->survey, copy->options, &copy->report, COPY_PART_MAX);
    if (copy->exit == EXIT_DONE && !copy->options->is_json &&
        (copy->options->command == COPY_CHECK || copy->options->to.is_null))
        survey_print(&copy->survey);
}

/* What `check` has found in the file. */
static void count_survey(struct copy *copy)
{
    copy->report.keys = copy->survey.keys - copy->survey.unknown_modules;
    copy->report.refused = copy->survey.unknown_modules;
    copy->report.module_data = copy->survey.module_data;
}

enum copy_exit copy_run(const struct copy_options *options)
{
    struct copy *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    copy->options = options;
    report_init(&copy->report, options);
    copy->report.verb = options->command == COPY_CHECK    ? "check"
                        : options->command == COPY_VERIFY ? "verify"
                                                          : "copy";
    token_bucket_set(&copy->rate, options->rate_bytes);
    survey_file(copy);
    if (copy->exit == EXIT_DONE && !options->to.is_null)
        open_and_run(copy);
    if (options->to.is_null || options->command == COPY_CHECK)
        count_survey(copy);
    enum copy_exit code = report_end(&copy->report, copy->exit);
    survey_fini(&copy->survey);
    free((char *)copy->parts.key.data);
    free((char *)copy->pages.held.data);
    free(copy);
    return code;
}
