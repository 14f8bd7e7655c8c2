#include "backend/copy/back.h"

#include "shared/check.h"
#include "shared/clock.h"
#include "shared/json_writer.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PAUSE_FIRST_MS = 50,
    PAUSE_LAST_MS = 1000,
    ROW_EACH_MS = 1000,
    BACK_SHOW_MS = 1000,
    BACK_SHOW_QUIET_MS = 10 * 1000
};

bool back_fail(struct back *back, enum copy_exit code, const char *what, const char *reason)
{
    if (back->exit == EXIT_DONE)
        report_say(&back->report, "scree-copy: %s%s%s", what, *reason ? ": " : "", reason);
    back->exit = back->exit == EXIT_DONE ? code : back->exit;
    return false;
}

static uint64_t back_now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* ---- a page ---- */

static void show_back(struct back *back, int64_t lag_ms)
{
    struct copy_report *report = &back->report;
    uint64_t waited_us = clock_mono_us() - report->shown_us;
    bool is_terminal = isatty(STDERR_FILENO);
    uint64_t each_ms = is_terminal ? BACK_SHOW_MS : BACK_SHOW_QUIET_MS;
    if (back->options->is_quiet || waited_us < each_ms * 1000)
        return;
    (void)fprintf(stderr, "%sback    lag %" PRId64 " ms  %" PRIu64 " keys/s  refused %" PRIu64 "%s",
                  is_terminal ? "\r\x1b[K" : "", lag_ms,
                  (report->keys - report->shown_keys) * 1000000 / waited_us, report->refused,
                  is_terminal ? "" : "\n");
    report->is_line_open = is_terminal;
    report->shown_us = clock_mono_us();
    report->shown_keys = report->keys;
}

/* Everything of the page is in the target. */
static bool end_back_page(struct back *back, const struct back_page *page)
{
    struct bytes next = page->begins_anew ? BYTES("0") : page->token;
    bool is_new = !bytes_equal(next, bytes_of(back->row.token));
    bool is_empty = page->keys.count == 0 && !page->must_sweep && !page->has_functions;
    if (is_new)
        back_take_token(back, next);
    back->is_row_old |= is_new;
    back->is_at_end = is_empty && page->lag_ms == 0;
    back->failing_ms = back->reached = 0;
    back->has_begun = true;
    show_back(back, page->lag_ms);
    if (back->target.is_broken) /* it may have been started again, with older data */
        return false;
    if (!back->is_row_old || !is_empty ||
        (back->options->follows && back_now_ms() - back->row_ms < ROW_EACH_MS))
        return true;
    return back_begin(back) && back_commit(back);
}

static bool copy_page(struct back *back)
{
    struct back_page page;
    bool copies_functions = back->options->has_functions;
    bool is_done = back_read_page(back, &page) && (!page.must_sweep || back_sweep(back)) &&
                   (!page.has_functions || !copies_functions || back_copy_functions(back)) &&
                   back_copy_keys(back, &page.keys);
    is_done = is_done && end_back_page(back, &page);
    back_free_page(&page);
    return is_done;
}

/* ---- the loop ---- */

static bool is_running(const struct back *back)
{
    return back->exit == EXIT_DONE && !back->is_stopped;
}

/* What is not in the row is copied, and counted, again. */
static void count_from_row(struct back *back)
{
    uint64_t refused = back->row.refused;
    if (!back->has_entered)
        back->refused_first = refused;
    back->has_entered = true;
    back->is_row_old = false;
    back->report.refused = refused > back->refused_first ? refused - back->refused_first : 0;
}

static bool connect_both(struct back *back)
{
    back->is_connected =
        wire_connect(&back->source) && wire_connect(&back->target) && back_enter(back);
    if (back->is_connected)
        count_from_row(back);
    return back->is_connected;
}

/* Which of both has failed is that with an error. */
static void give_up_back(struct back *back)
{
    bool is_source = *back->source.error != '\0';
    (void)back_fail(back, is_source ? EXIT_SOURCE : EXIT_TARGET,
                    is_source ? back->source.error : back->target.error,
                    "run the same command again");
}

/* After an error: everything is connected anew, and the page is read again, because the target may have a part of its changes. */
static void pause_back(struct back *back, uint64_t *pause_ms)
{
    back->is_connected = false;
    if (!is_running(back))
        return;
    bool may_pass = back->has_begun || back->source.does_pass || back->target.does_pass;
    if (!back->failing_ms)
        back->failing_ms = back_now_ms();
    if (back_now_ms() - back->failing_ms > BACK_RETRY_MS || !may_pass) {
        give_up_back(back);
        return;
    }
    wire_rest(&back->source, *pause_ms);
    *pause_ms = *pause_ms * 2 > PAUSE_LAST_MS ? PAUSE_LAST_MS : *pause_ms * 2;
}

static void follow_scree(struct back *back)
{
    uint64_t pause_ms = PAUSE_FIRST_MS;
    while (is_running(back) && (back->options->follows || !back->is_at_end || back->is_row_old)) {
        *back->source.error = *back->target.error = '\0';
        if ((back->is_connected || connect_both(back)) && copy_page(back))
            pause_ms = PAUSE_FIRST_MS;
        else
            pause_back(back, &pause_ms);
    }
}

/* Says what would go wrong. */
static bool check_both(struct back *back)
{
    struct bytes words[] = {BYTES("SCREE"), BYTES("CHANGES"), BYTES("TOKEN")};
    struct bytes frame;
    return wire_connect(&back->source) &&
           wire_call(&back->source, words, COUNT_OF(words), &frame) &&
           wire_connect(&back->target) && back_check_target(back);
}

static bool verify_both(struct back *back)
{
    return wire_connect(&back->source) && wire_connect(&back->target) && back_verify(back);
}

static void run_back(struct back *back)
{
    enum copy_command command = back->options->command;
    bool is_done = true;
    if (command == COPY_RUN)
        follow_scree(back);
    else
        is_done = command == COPY_CHECK ? check_both(back) : verify_both(back);
    if (!is_done && is_running(back))
        give_up_back(back);
}

/* ---- a run ---- */

static void on_back_signal(void *owner, int signum)
{
    struct back *back = owner;
    (void)signum;
    back->is_stopped = true;
    loop_stop(back->loop);
}

static void print_back_json(const struct back *back, enum copy_exit code)
{
    struct out out;
    struct json_writer json;
    out_init(&out);
    json_writer_init(&json, &out);
    json_put_object(&json, NULL);
    json_put_text(&json, "command", back->report.verb);
    json_put_uint(&json, "exit", code);
    json_put_uint(&json, "keys", back->report.keys);
    json_put_uint(&json, "refused", back->report.refused);
    json_put_uint(&json, "refused_before", back->refused_first);
    json_put_uint(&json, "different", back->report.different);
    json_put_end(&json);
    json_writer_fini(&json);
    struct bytes text = out_take(&out);
    (void)printf("%s\n", text.data);
    free((char *)text.data);
}

static enum copy_exit end_back(struct back *back)
{
    bool is_good = back->report.refused == 0 && back->report.different == 0;
    enum copy_exit code = back->exit != EXIT_DONE ? back->exit
                          : back->is_stopped      ? EXIT_STOPPED
                          : is_good               ? EXIT_DONE
                                                  : EXIT_REFUSED;
    if (back->is_stopped && back->exit == EXIT_DONE)
        report_say(&back->report, "scree-copy: stopped; the same command goes on");
    if (back->options->is_json)
        print_back_json(back, code);
    else if (back->options->command == COPY_VERIFY)
        (void)printf("verify: %" PRIu64 " keys, %" PRIu64 " different\n", back->report.keys,
                     back->report.different);
    else
        (void)printf("%s: %" PRIu64 " keys, %" PRIu64 " refused, %" PRIu64 " refused before\n",
                     back->report.verb, back->report.keys, back->report.refused,
                     back->refused_first);
    return code;
}

static void free_back(struct back *back)
{
    struct loop *loop = back->loop;
    wire_fini(&back->source);
    wire_fini(&back->target);
    selector_fini(&back->selector);
    free(back->changes.keys);
    free(back->row.token);
    loop_free(loop);
    free(back);
}

enum copy_exit back_run(const struct copy_options *options)
{
    struct back *back = calloc(1, sizeof *back);
    CHECK(back);
    back->options = options;
    back->loop = loop_new();
    selector_init(&back->selector, options);
    wire_init(&back->source, back->loop, options, &options->from, &back->is_stopped);
    wire_init(&back->target, back->loop, options, &options->to, &back->is_stopped);
    report_init(&back->report, options);
    back->report.verb = options->command == COPY_CHECK    ? "check"
                        : options->command == COPY_VERIFY ? "verify"
                                                          : "back";
    (void)snprintf(back->row_name, sizeof back->row_name, "scree-copy:back:%s", options->session);
    (void)snprintf(back->owner, sizeof back->owner, "%016" PRIx64, clock_random());
    loop_on_signal(back->loop, SIGINT, on_back_signal, back);
    loop_on_signal(back->loop, SIGTERM, on_back_signal, back);
    run_back(back);
    enum copy_exit code = end_back(back);
    free_back(back);
    return code;
}
