#include "shared/machine_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 };

/* A limit file: a number, or "max". No file and "max" are no limit. */
static uint64_t read_limit(const char *root, const char *path, const char *name)
{
    char file_path[2 * PATH_MAX];
    uint64_t limit;
    if (snprintf(file_path, sizeof file_path, "%s%s/%s", root, path, name) >= (int)sizeof file_path)
        return UINT64_MAX;
    FILE *file = fopen(file_path, "r");
    if (!file)
        return UINT64_MAX;
    bool is_number = fscanf(file, "%" SCNu64, &limit) == 1; // NOLINT(cert-err34-c)
    (void)fclose(file);
    return is_number ? limit : UINT64_MAX;
}

static uint64_t lower_limit(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The smallest limit of the group at `path` and of its parents, up to the mount point. */
static uint64_t group_limit(const char *root, const char *mount, const char *path, bool is_v2)
{
    char at[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    if (snprintf(at, sizeof at, "%s%s", mount, path) >= (int)sizeof at)
        return limit;
    for (;;) {
        if (is_v2) {
            limit = lower_limit(limit, read_limit(root, at, "memory.max"));
            limit = lower_limit(limit, read_limit(root, at, "memory.high"));
        } else {
            limit = lower_limit(limit, read_limit(root, at, "memory.limit_in_bytes"));
        }
        char *slash = strrchr(at, '/');
        if (strlen(at) <= strlen(mount) || !slash)
            return limit;
        *slash = '\0';
    }
}

/* True when the list of controllers, separated by commas, has "memory". */
static bool has_memory(const char *controllers)
{
    for (;;) {
        size_t len = strcspn(controllers, ",");
        if (len == strlen("memory") && strncmp(controllers, "memory", len) == 0)
            return true;
        if (!controllers[len])
            return false;
        controllers += len + 1;
    }
}

/* A line of /proc/self/cgroup: "0::/path" for cgroup v2, "4:memory:/path" for v1. */
static uint64_t line_limit(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return UINT64_MAX;
    *path++ = '\0';
    controllers++;
    path[strcspn(path, "\n")] = '\0';
    if (!*controllers)
        return lower_limit(group_limit(root, "/sys/fs/cgroup", path, true),
                           group_limit(root, "/sys/fs/cgroup/unified", path, true));
    return has_memory(controllers) ? group_limit(root, "/sys/fs/cgroup/memory", path, false)
                                   : UINT64_MAX;
}

static uint64_t groups_limit(const char *root)
{
    char line[LINE_MAX_BYTES];
    char path[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    if (!file)
        return limit;
    while (fgets(line, sizeof line, file))
        limit = lower_limit(limit, line_limit(root, line));
    (void)fclose(file);
    return limit;
}

static uint64_t total(const char *root)
{
    char line[LINE_MAX_BYTES];
    char path[PATH_MAX];
    uint64_t kilobytes;
    uint64_t found = UINT64_MAX;
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "r");
    if (!file)
        return found;
    while (found == UINT64_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kilobytes) == 1) // NOLINT(cert-err34-c)
            found = kilobytes * 1024;
    (void)fclose(file);
    return found;
}

uint64_t machine_memory(const char *root)
{
    uint64_t limit = lower_limit(total(root), groups_limit(root));
    return limit == UINT64_MAX ? 0 : limit;
}
