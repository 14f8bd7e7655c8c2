/*
 * test_machine_memory.c - the memory that the machine and its cgroups allow, in fake roots.
 */
#include "shared/machine_memory.h"

#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MB ((uint64_t)1 << 20)

static char root[] = "/tmp/machine-XXXXXX";
static char command[256];

static void setup(void)
{
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0); // NOLINT(cert-env33-c)
}

/* Writes root/path, and makes its directories. */
static void file_write(const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert(file && fputs(text, file) >= 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void machine_of(const char *groups)
{
    file_write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1 kB\n");
    file_write("proc/self/cgroup", groups);
}

START_TEST(without_groups_it_is_the_memory_of_the_machine)
{
    machine_of("");
    ck_assert_uint_eq(machine_memory(root), 16384 * MB);
}
END_TEST

START_TEST(nothing_is_known_without_proc)
{
    ck_assert_uint_eq(machine_memory(root), 0);
}
END_TEST

START_TEST(the_smallest_limit_of_a_group_and_its_parents_counts)
{
    machine_of("0::/pods/a/b\n");
    file_write("sys/fs/cgroup/pods/a/b/memory.max", "max\n");
    ck_assert_uint_eq(machine_memory(root), 16384 * MB);
    file_write("sys/fs/cgroup/pods/memory.max", "1073741824\n");
    ck_assert_uint_eq(machine_memory(root), 1024 * MB);
    file_write("sys/fs/cgroup/pods/a/memory.max", "536870912\n");
    ck_assert_uint_eq(machine_memory(root), 512 * MB);
    file_write("sys/fs/cgroup/pods/a/b/memory.high", "268435456\n");
    ck_assert_uint_eq(machine_memory(root), 256 * MB);
}
END_TEST

START_TEST(in_a_container_the_root_of_the_mount_counts)
{
    machine_of("0::/kubepods.slice/pod1.slice/container\n");
    file_write("sys/fs/cgroup/memory.max", "536870912\n");
    ck_assert_uint_eq(machine_memory(root), 512 * MB);
    file_write("proc/self/cgroup", "0::/\n");
    ck_assert_uint_eq(machine_memory(root), 512 * MB);
}
END_TEST

START_TEST(limits_of_version_1_count)
{
    machine_of("5:cpu,cpuacct:/\n4:memory:/app/x\n3:not_memory:/\n0::/\n");
    file_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(machine_memory(root), 16384 * MB);
    file_write("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "268435456\n");
    ck_assert_uint_eq(machine_memory(root), 256 * MB);
    file_write("proc/self/cgroup", "4:hugetlb,memory:/app\n");
    ck_assert_uint_eq(machine_memory(root), 256 * MB);
    file_write("proc/self/cgroup", "4:not_memory:/app\n");
    ck_assert_uint_eq(machine_memory(root), 16384 * MB);
}
END_TEST

START_TEST(malformed_files_are_no_limit)
{
    machine_of("0::/a\nnonsense\n::\n");
    file_write("sys/fs/cgroup/a/memory.max", "\n");
    file_write("sys/fs/cgroup/memory.max", "many\n");
    ck_assert_uint_eq(machine_memory(root), 16384 * MB);
}
END_TEST

START_TEST(this_machine_has_memory)
{
    ck_assert_uint_gt(machine_memory(""), 16 * MB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("machine_memory");
    TCase *tests = tcase_create("machine_memory");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, without_groups_it_is_the_memory_of_the_machine);
    tcase_add_test(tests, nothing_is_known_without_proc);
    tcase_add_test(tests, the_smallest_limit_of_a_group_and_its_parents_counts);
    tcase_add_test(tests, in_a_container_the_root_of_the_mount_counts);
    tcase_add_test(tests, limits_of_version_1_count);
    tcase_add_test(tests, malformed_files_are_no_limit);
    tcase_add_test(tests, this_machine_has_memory);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
