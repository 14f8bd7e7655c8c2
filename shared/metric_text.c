#include "shared/metric_text.h"

#include "shared/check.h"
#include "shared/tls.h"
#include "shared/version.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_BYTES_MAX = 200, ESCAPED_BYTES = 4 };

/* Defined by jemalloc when it is linked. */
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size)
    __attribute__((weak));

void metric_head(struct out *out, const char *name, const char *type, const char *help)
{
    out_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static size_t escape_byte(char *to, unsigned char byte)
{
    if (byte == '"' || byte == '\\')
        return (size_t)sprintf(to, "\\%c", byte);
    if (byte < ' ' || byte > '~')
        return (size_t)sprintf(to, "%%%02x", byte);
    *to = (char)byte;
    return 1;
}

void metric_label(char labels[METRIC_LABELS_MAX], const char *name, struct bytes value)
{
    size_t at = strlen(labels);
    size_t len = value.len < VALUE_BYTES_MAX ? value.len : VALUE_BYTES_MAX;
    CHECK(at + strlen(name) + len * ESCAPED_BYTES + sizeof(",=\"\"") < METRIC_LABELS_MAX);
    at += (size_t)sprintf(labels + at, "%s%s=\"", at ? "," : "", name);
    for (size_t i = 0; i < len; i++)
        at += escape_byte(labels + at, (unsigned char)value.data[i]);
    labels[at++] = '"';
    labels[at] = '\0';
}

static void print_name(struct out *out, const char *name, const char *labels)
{
    if (labels && *labels)
        out_printf(out, "%s{%s} ", name, labels);
    else
        out_printf(out, "%s ", name);
}

void metric_label_build(char labels[METRIC_LABELS_MAX], const char *run_id)
{
    metric_label(labels, "version", BYTES(SCREE_VERSION));
    metric_label(labels, "commit", bytes_of(version_commit()));
    metric_label(labels, "run_id", bytes_of(run_id));
}

void metric_number(struct out *out, const char *name, const char *labels, uint64_t value)
{
    print_name(out, name, labels);
    out_printf(out, "%" PRIu64 "\n", value);
}

void metric_double(struct out *out, const char *name, const char *labels, double value)
{
    print_name(out, name, labels);
    out_printf(out, "%.15g\n", value);
}

void metric_gauge(struct out *out, const char *name, const char *help, double value)
{
    metric_head(out, name, "gauge", help);
    metric_double(out, name, NULL, value);
}

/* ---- the process ---- */

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Field `number` of /proc/self/stat; 3 is the first after the name. */
static uint64_t stat_field(int number)
{
    char line[1024] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file)
        return 0;
    const char *at = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    (void)fclose(file);
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static double started_at(void)
{
    enum { FIELD_START = 22 };
    struct timespec wall;
    struct timespec boot;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    (void)clock_gettime(CLOCK_BOOTTIME, &boot);
    double booted =
        (double)(wall.tv_sec - boot.tv_sec) + (double)(wall.tv_nsec - boot.tv_nsec) / 1e9;
    return booted + (double)stat_field(FIELD_START) / (double)sysconf(_SC_CLK_TCK);
}

static uint64_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        (void)closedir(dir);
    /* without ".", ".." and the descriptor that reads the directory */
    return count > 3 ? count - 3 : 0;
}

static void print_allocator(struct out *out)
{
    static const char *const figures[] = {"allocated", "active", "resident", "metadata",
                                          "retained"};
    static const char NAME[] = "scree_process_allocator_bytes";
    uint64_t epoch = 1;
    if (!mallctl || mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0)
        return;
    metric_head(out, NAME, "gauge", "Memory of the allocator in bytes, by kind.");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        char name[32];
        char labels[METRIC_LABELS_MAX] = "";
        size_t bytes = 0;
        size_t size = sizeof bytes;
        (void)snprintf(name, sizeof name, "stats.%s", figures[i]);
        metric_label(labels, "kind", bytes_of(figures[i]));
        if (mallctl(name, &bytes, &size, NULL, 0) == 0)
            metric_number(out, NAME, labels, bytes);
    }
}

void metric_process(struct out *out)
{
    enum { FIELD_VIRTUAL = 23, FIELD_RESIDENT = 24 };
    struct rusage usage;
    struct rlimit files;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    metric_head(out, "process_cpu_seconds_total", "counter", "CPU time of the process.");
    metric_double(out, "process_cpu_seconds_total", NULL,
                  seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    metric_gauge(out, "process_start_time_seconds", "Start time of the process, Unix time.",
                 started_at());
    metric_gauge(out, "process_resident_memory_bytes", "Memory of the process.",
                 (double)stat_field(FIELD_RESIDENT) * (double)sysconf(_SC_PAGESIZE));
    metric_gauge(out, "process_virtual_memory_bytes", "Address space of the process.",
                 (double)stat_field(FIELD_VIRTUAL));
    metric_gauge(out, "process_open_fds", "Open file descriptors.", (double)count_descriptors());
    metric_gauge(out, "process_max_fds", "Descriptors that may be open.", (double)files.rlim_cur);
    print_allocator(out);
}

void metric_certificates(struct out *out, const char *name, const struct tls_context *clients,
                         const struct tls_context *backends)
{
    const struct {
        const char *use;
        const struct tls_context *context;
    } rows[] = {{"clients", clients}, {"backends", backends}};
    if (clients || backends)
        metric_head(out, name, "gauge", "When the certificate expires, Unix time.");
    for (size_t i = 0; i < 2; i++) {
        char labels[METRIC_LABELS_MAX] = "";
        metric_label(labels, "use", bytes_of(rows[i].use));
        if (tls_context_expires_s(rows[i].context))
            metric_number(out, name, labels, tls_context_expires_s(rows[i].context));
    }
}
