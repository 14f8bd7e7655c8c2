#include "shared/log.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];
static char moved[80];

/* Opens a new log file. */
static void begin(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/test_log_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    (void)snprintf(moved, sizeof(moved), "%s.1", path);
    ck_assert(log_set_file(path));
}

static void end(void)
{
    ck_assert(log_set_file(NULL));
    log_set_level(LOG_INFO);
    (void)unlink(path);
    (void)unlink(moved);
}

/* The whole file; valid until the next call. */
static const char *content(const char *name)
{
    static char text[1 << 20];
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

/* The sum of the numbers behind this text in the file. */
static unsigned long sum_of(const char *before)
{
    unsigned long sum = 0;
    for (const char *at = content(path); (at = strstr(at, before)); at += strlen(before))
        sum += strtoul(at + strlen(before), NULL, 10);
    return sum;
}

START_TEST(many_warnings_and_errors_of_one_event_are_counted_and_dropped)
{
    enum { LINES = 5000 };
    begin();
    for (int i = 0; i < LINES; i++)
        log_event(i % 2 ? LOG_WARN : LOG_ERROR, "flood", "one=1 i=%d", i);
    log_event(LOG_WARN, "other", "i=0");
    log_event(LOG_ERROR, "grave", "i=0");
    log_event(LOG_INFO, "flood", "asked=1");
    ck_assert_ptr_nonnull(strstr(content(path), " other i=0"));
    ck_assert_ptr_nonnull(strstr(content(path), " grave i=0"));
    ck_assert_ptr_nonnull(strstr(content(path), " flood asked=1"));
    ck_assert_uint_lt(sum_of(" flood one="), LINES / 2);
    while (sum_of(" flood one=") + sum_of(" log_dropped event=flood lines=") < LINES) {
        (void)usleep(10000);
        log_event(LOG_INFO, "later", "%s", "");
    }
    ck_assert_uint_eq(sum_of(" flood one=") + sum_of(" log_dropped event=flood lines="), LINES);
    end();
}
END_TEST

START_TEST(a_line_has_time_level_event_and_pairs)
{
    begin();
    log_event(LOG_WARN, "upstream_down", "shard=%s port=%d", "b", 7402);
    const char *line = content(path);
    int year;
    int tail = 0;
    (void)sscanf(line, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ %n", &year, &tail);
    ck_assert_int_ge(year, 2024);
    ck_assert_int_eq(tail, 25);
    ck_assert_str_eq(line + tail, "warn upstream_down shard=b port=7402\n");
    end();
}
END_TEST

START_TEST(in_the_journal_a_line_begins_with_its_priority_and_in_a_file_it_does_not)
{
    static const char *const heads[] = {"<7>", "<6>", "<4>", "<3>"};
    struct stat found;
    char stream[64];
    begin();
    int kept = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert(kept >= 0 && fd >= 0 && fstat(fd, &found) == 0);
    ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    (void)snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)found.st_dev,
                   (unsigned long long)found.st_ino);
    ck_assert_int_eq(setenv("JOURNAL_STREAM", stream, 1), 0);
    log_detect_journal();
    log_event(LOG_ERROR, "to_a_file", "%s", "");
    ck_assert_ptr_null(strchr(content(path), '<'));
    ck_assert(log_set_file(NULL));
    log_set_level(LOG_DEBUG);
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        log_event((enum log_level)level, "to_the_journal", "%s", "");
        ck_assert_int_eq(strncmp(content(path), heads[level], 3), 0);
    }
    ck_assert_int_eq(setenv("JOURNAL_STREAM", "1:1", 1), 0); /* standard error was redirected */
    log_detect_journal();
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    log_event(LOG_ERROR, "elsewhere", "%s", "");
    ck_assert_ptr_null(strchr(content(path), '<'));
    ck_assert_int_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    (void)close(kept);
    (void)close(fd);
    end();
}
END_TEST

START_TEST(an_event_without_pairs_has_no_blank_at_its_end)
{
    begin();
    log_event(LOG_INFO, "started", "%s", "");
    const char *line = content(path);
    ck_assert_str_eq(line + strlen(line) - strlen("info started\n"), "info started\n");
    end();
}
END_TEST

START_TEST(control_characters_are_escaped)
{
    begin();
    log_event(LOG_ERROR, "odd", "reason=" LOG_QUOTED,
              "a\nb\rc\td\v\f\x01"
              "e\x7f\xc3\xa4");
    ck_assert_ptr_nonnull(
        strstr(content(path), "reason=\"a\\nb\\rc\\td\\v\\f\\x01e\\x7f\xc3\xa4\"\n"));
    end();
}
END_TEST

START_TEST(lines_below_the_level_are_not_written)
{
    begin();
    log_set_level(LOG_WARN);
    ck_assert(!log_on(LOG_INFO));
    ck_assert(log_on(LOG_ERROR));
    log_event(LOG_INFO, "quiet", "a=%d", 1);
    ck_assert_str_eq(content(path), "");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "loud", "a=%d", 1);
    ck_assert_ptr_nonnull(strstr(content(path), " debug loud a=1\n"));
    end();
}
END_TEST

START_TEST(setting_the_file_again_reopens_it_after_a_rotation)
{
    begin();
    log_event(LOG_INFO, "first", "a=%d", 1);
    ck_assert_int_eq(rename(path, moved), 0);
    log_event(LOG_INFO, "second", "a=%d", 1);
    ck_assert(log_set_file(path));
    log_event(LOG_INFO, "third", "a=%d", 1);
    ck_assert_ptr_nonnull(strstr(content(moved), "second"));
    ck_assert_ptr_null(strstr(content(moved), "third"));
    ck_assert_ptr_nonnull(strstr(content(path), "third"));
    end();
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_leaves_the_old_one)
{
    begin();
    ck_assert(!log_set_file("/nonexistent-directory/log"));
    log_event(LOG_INFO, "still_here", "a=%d", 1);
    ck_assert_ptr_nonnull(strstr(content(path), "still_here"));
    end();
}
END_TEST

START_TEST(a_very_long_line_is_cut_but_ends)
{
    static char text[10000];
    memset(text, 'x', sizeof(text) - 1);
    begin();
    log_event(LOG_INFO, "long", "text=%s", text);
    log_event(LOG_INFO, "long", "text=%s\n\n\n\n", text);
    const char *lines = content(path);
    ck_assert_uint_le(strlen(lines), 2 * 4096);
    ck_assert_int_eq(lines[strlen(lines) - 1], '\n');
    end();
}
END_TEST

START_TEST(errno_survives)
{
    begin();
    errno = ENOENT;
    log_event(LOG_INFO, "event", "a=%d", 1);
    ck_assert_int_eq(errno, ENOENT);
    end();
}
END_TEST

static void *write_lines(void *name)
{
    for (int i = 0; i < 200; i++)
        log_event(LOG_INFO, "line", "from=%s%s", (const char *)name, " end=1");
    return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
    begin();
    pthread_t threads[4];
    char names[4][2] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    int count = 0;
    for (const char *line = content(path); *line; line = strchr(line, '\n') + 1, count++)
        ck_assert(strncmp(line + 25, "info line from=", 15) == 0 &&
                  strncmp(line + 41, " end=1\n", 7) == 0);
    ck_assert_int_eq(count, 800);
    end();
}
END_TEST

/* Without room for a line, a thread must go on, and the lines are counted. */
START_TEST(a_pipe_that_is_not_read_stops_no_thread)
{
    enum { LINES = 5000 };
    static char text[1 << 20];
    begin();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(reader, 0);
    ck_assert(log_set_file(path));
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "line", "one=1 with some more bytes to fill the pipe");
    ssize_t before = read(reader, text, sizeof text - 1);
    ck_assert_int_gt(before, 0);
    log_event(LOG_INFO, "line", "one=1");
    ssize_t after = read(reader, text + before, sizeof text - 1 - (size_t)before);
    ck_assert_int_gt(after, 0);
    unsigned long lines = 0;
    for (const char *at = text; (at = strstr(at, " line one=1")); at++)
        lines++;
    const char *dropped = strstr(text, " warn log_dropped event=all lines=");
    ck_assert_ptr_nonnull(dropped);
    lines += strtoul(strstr(dropped, "lines=") + strlen("lines="), NULL, 10);
    ck_assert_uint_eq(lines, LINES + 1);
    (void)close(reader);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, a_line_has_time_level_event_and_pairs);
    tcase_add_test(tests, in_the_journal_a_line_begins_with_its_priority_and_in_a_file_it_does_not);
    tcase_add_test(tests, an_event_without_pairs_has_no_blank_at_its_end);
    tcase_add_test(tests, control_characters_are_escaped);
    tcase_add_test(tests, lines_below_the_level_are_not_written);
    tcase_add_test(tests, setting_the_file_again_reopens_it_after_a_rotation);
    tcase_add_test(tests, a_file_that_cannot_be_opened_leaves_the_old_one);
    tcase_add_test(tests, a_very_long_line_is_cut_but_ends);
    tcase_add_test(tests, errno_survives);
    tcase_add_test(tests, lines_of_threads_do_not_mix);
    tcase_add_test(tests, many_warnings_and_errors_of_one_event_are_counted_and_dropped);
    tcase_add_test(tests, a_pipe_that_is_not_read_stops_no_thread);
    return suite_run(suite);
}
