/*
 * test_watch.c - a watched file that is written, replaced, or changed by a symlink on its path.
 */
#include "shared/net/loop.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct loop *loop;
static struct await await;
static char dir[64];
static char path[128];
static int changes;

static const char *at(const char *name)
{
    static char texts[4][128];
    static unsigned next;
    char *text = texts[next++ % 4];
    (void)snprintf(text, sizeof(texts[0]), "%s/%s", dir, name);
    return text;
}

static void write_file(const char *to, const char *text)
{
    FILE *file = fopen(to, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    strcpy(dir, "/tmp/test_watch.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    strcpy(path, at("file.ini"));
    loop = loop_new();
    await_init(&await, loop);
    changes = 0;
}

static void teardown(void)
{
    char command[128];
    loop_free(loop);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void on_change(void *owner)
{
    (void)owner;
    changes++;
}

static bool has_changed(void *owner)
{
    return changes >= *(int *)owner;
}

static bool await_changes(int count)
{
    return await_until(&await, has_changed, &count);
}

START_TEST(a_write_in_place_is_seen)
{
    write_file(path, "one");
    struct watch *watch = watch_new(loop, path, on_change, NULL);
    write_file(path, "two and more");
    ck_assert(await_changes(1));
    watch_free(watch);
}
END_TEST

START_TEST(a_rename_over_the_file_is_seen)
{
    write_file(path, "one");
    struct watch *watch = watch_new(loop, path, on_change, NULL);
    write_file(at("new"), "two");
    rename(at("new"), path);
    ck_assert(await_changes(1));
    write_file(at("new"), "six");
    rename(at("new"), path);
    ck_assert(await_changes(2));
    watch_free(watch);
}
END_TEST

START_TEST(a_file_that_appears_is_seen)
{
    struct watch *watch = watch_new(loop, path, on_change, NULL);
    write_file(path, "one");
    ck_assert(await_changes(1));
    watch_free(watch);
}
END_TEST

static void make_version(const char *name, const char *text)
{
    char file[128];
    ck_assert_int_eq(mkdir(at(name), 0700), 0);
    (void)snprintf(file, sizeof(file), "%s/%s/file.ini", dir, name);
    write_file(file, text);
}

/* file.ini -> ..data/file.ini, ..data -> ..1; then a new ..data is renamed over the old one, as the kubelet does. */
START_TEST(a_swapped_symlink_on_the_way_is_seen)
{
    make_version("..1", "one");
    make_version("..2", "two");
    ck_assert_int_eq(symlink("..1", at("..data")), 0);
    ck_assert_int_eq(symlink("..data/file.ini", path), 0);
    struct watch *watch = watch_new(loop, path, on_change, NULL);
    ck_assert_int_eq(symlink("..2", at("..tmp")), 0);
    ck_assert_int_eq(rename(at("..tmp"), at("..data")), 0);
    ck_assert(await_changes(1));
    watch_free(watch);
}
END_TEST

/* The directory itself is a symlink: its old target sends no events, and the periodic check notices the change. */
START_TEST(a_swapped_directory_is_seen)
{
    char file[128];
    make_version("one", "1");
    make_version("two", "2");
    ck_assert_int_eq(symlink("one", at("now")), 0);
    (void)snprintf(file, sizeof(file), "%s/now/file.ini", dir);
    struct watch *watch = watch_new(loop, file, on_change, NULL);
    ck_assert_int_eq(symlink("two", at("next")), 0);
    ck_assert_int_eq(rename(at("next"), at("now")), 0);
    ck_assert(await_changes(1));
    write_file(file, "by an event of the new one");
    ck_assert(await_changes(2));
    watch_free(watch);
}
END_TEST

static bool turned(void *owner)
{
    return ++*(int *)owner > 20;
}

static void tick(void *owner)
{
    (void)owner;
}

START_TEST(other_files_of_the_directory_do_not_matter)
{
    write_file(path, "one");
    struct watch *watch = watch_new(loop, path, on_change, NULL);
    write_file(at("other"), "two");
    struct timer *timer = timer_new(loop, tick, NULL);
    timer_start(timer, 10, 10);
    int turns = 0;
    ck_assert(await_until(&await, turned, &turns));
    ck_assert_int_eq(changes, 0);
    timer_free(timer);
    watch_free(watch);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("watch");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_write_in_place_is_seen);
    tcase_add_test(tests, a_rename_over_the_file_is_seen);
    tcase_add_test(tests, a_file_that_appears_is_seen);
    tcase_add_test(tests, a_swapped_symlink_on_the_way_is_seen);
    tcase_add_test(tests, a_swapped_directory_is_seen);
    tcase_add_test(tests, other_files_of_the_directory_do_not_matter);
    Suite *suite = suite_create("watch");
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
