#include "backend/copy/report.h"

#include "shared/clock.h"
#include "shared/json_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEY_SHOWN_MAX = 200, SECOND_US = 1000 * 1000, QUIET_TERMINAL_US = 10 * SECOND_US };

void report_init(struct copy_report *report, const struct copy_options *options)
{
    *report = (struct copy_report){.options = options, .verb = "copy"};
    report->started_us = report->shown_us = clock_mono_us();
}

/* ---- lines ---- */

static void end_line(struct copy_report *report)
{
    if (report->is_line_open)
        (void)fputs("\r\x1b[K", stderr);
    report->is_line_open = false;
}

void report_say(struct copy_report *report, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    end_line(report);
    (void)vfprintf(stderr, format, values);
    (void)fputc('\n', stderr);
    va_end(values);
}

/* Prints the key with \xNN for bytes that are not printable. */
static void print_key_text(struct bytes key)
{
    size_t len = key.len < KEY_SHOWN_MAX ? key.len : KEY_SHOWN_MAX;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)key.data[i];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\')
            (void)fputc(byte, stderr);
        else
            (void)fprintf(stderr, "\\x%02x", byte);
    }
    if (len < key.len)
        (void)fprintf(stderr, "… (%zu bytes)", key.len);
}

/* Names a key, unless many have been named. */
static void name_key(struct copy_report *report, const char *what, uint64_t number, uint64_t db,
                     struct bytes key, struct bytes reason)
{
    end_line(report);
    if (number == REPORT_SHOWN_MAX + 1)
        (void)fprintf(stderr, "more %s keys are counted, and not named\n", what);
    if (number > REPORT_SHOWN_MAX)
        return;
    (void)fprintf(stderr, "%s db %" PRIu64 " \"", what, db);
    print_key_text(key);
    (void)fprintf(stderr, "\": %.*s\n", (int)reason.len, reason.data);
}

void report_refused(struct copy_report *report, uint64_t db, struct bytes key, struct bytes reason)
{
    name_key(report, "refused", ++report->refused, db, key, reason);
}

void report_different(struct copy_report *report, uint64_t db, struct bytes key, const char *reason)
{
    name_key(report, "different", ++report->different, db, key, bytes_of(reason));
}

/* ---- progress ---- */

static uint64_t all_keys(const struct copy_report *report)
{
    return report->keys + report->expired + report->kept + report->left_out + report->refused +
           report->different;
}

static void print_progress(struct copy_report *report, const char *verb, double seconds)
{
    uint64_t keys = all_keys(report);
    if (report->size)
        (void)fprintf(stderr, "%-7s %3" PRIu64 " %%", verb, report->offset * 100 / report->size);
    else
        (void)fprintf(stderr, "%-7s", verb);
    (void)fprintf(stderr, "  %" PRIu64 " keys  %.0f keys/s  %.1f MB/s  refused %" PRIu64, keys,
                  (double)(keys - report->shown_keys) / seconds,
                  (double)(report->offset - report->shown_offset) / seconds / 1e6, report->refused);
}

void report_progress(struct copy_report *report, const char *verb)
{
    uint64_t now_us = clock_mono_us();
    bool is_terminal = isatty(STDERR_FILENO);
    uint64_t waited_us = now_us - report->shown_us;
    if (report->options->is_quiet || waited_us < (is_terminal ? SECOND_US : QUIET_TERMINAL_US))
        return;
    end_line(report);
    print_progress(report, verb, (double)waited_us / SECOND_US);
    if (is_terminal)
        report->is_line_open = true;
    else
        (void)fputc('\n', stderr);
    report->shown_us = now_us;
    report->shown_keys = all_keys(report);
    report->shown_offset = report->offset;
}

/* ---- end ---- */

static void print_json(const struct copy_report *report, enum copy_exit code, double seconds)
{
    struct out out;
    struct json_writer json;
    out_init(&out);
    json_writer_init(&json, &out);
    json_put_object(&json, NULL);
    json_put_text(&json, "command", report->verb);
    json_put_uint(&json, "exit", code);
    json_put_uint(&json, "keys", report->keys);
    json_put_uint(&json, "expired", report->expired);
    json_put_uint(&json, "kept", report->kept);
    json_put_uint(&json, "left_out", report->left_out);
    json_put_uint(&json, "refused", report->refused);
    json_put_uint(&json, "different", report->different);
    json_put_uint(&json, "functions", report->functions);
    json_put_uint(&json, "module_data", report->module_data);
    json_put_uint(&json, "lost_pending", report->lost_pending);
    json_put_uint(&json, "bytes", report->offset);
    json_put_double(&json, "seconds", seconds);
    json_put_end(&json);
    json_writer_fini(&json);
    struct bytes text = out_take(&out);
    (void)printf("%s\n", text.data);
    free((char *)text.data);
}

static void print_count(uint64_t count, const char *what)
{
    if (count)
        (void)printf(", %" PRIu64 " %s", count, what);
}

static void print_text(const struct copy_report *report, double seconds)
{
    (void)printf("%s: %" PRIu64 " keys", report->verb, report->keys);
    print_count(report->functions, "libraries of functions");
    print_count(report->expired, "expired");
    print_count(report->kept, "kept as they were in the target");
    print_count(report->left_out, "left out");
    print_count(report->refused, "refused");
    print_count(report->different, "different");
    print_count(report->module_data, "data of modules left out");
    print_count(report->lost_pending, "pending entries of deleted messages left out");
    (void)printf("; %.1f s, %.0f keys/s\n", seconds,
                 (double)all_keys(report) / (seconds > 0 ? seconds : 1));
}

enum copy_exit report_end(struct copy_report *report, enum copy_exit code)
{
    double seconds = (double)(clock_mono_us() - report->started_us) / SECOND_US;
    if (code == EXIT_DONE && (report->refused || report->different))
        code = EXIT_REFUSED;
    end_line(report);
    if (report->options->is_json)
        print_json(report, code, seconds);
    else
        print_text(report, seconds);
    return code;
}
