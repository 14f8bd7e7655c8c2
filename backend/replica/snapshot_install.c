#include "backend/replica/snapshot_install.h"

#include "backend/replica/replica_file.h"
#include "backend/replica/snapshot_target.h"
#include "shared/log.h"
#include "shared/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool beside(char path[PATH_MAX], const char *dir, const char *suffix)
{
    int len = snprintf(path, PATH_MAX, "%s%s", dir, suffix);
    errno = ENAMETOOLONG;
    return len > 0 && len < PATH_MAX;
}

static bool sync_parent(const char *dir)
{
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", dir);
    char *slash = strrchr(parent, '/');
    if (!slash)
        return path_sync(".");
    slash[slash == parent] = '\0';
    return path_sync(parent);
}

static bool forget_origin(const char *incoming)
{
    char path[PATH_MAX];
    return beside(path, incoming, "/" SNAPSHOT_ORIGIN) && (unlink(path) == 0 || errno == ENOENT) &&
           path_sync(incoming);
}

/* Both names change at once. */
static bool exchange(const char *dir, const char *incoming)
{
    return renameat2(AT_FDCWD, incoming, AT_FDCWD, dir, RENAME_EXCHANGE) == 0 && sync_parent(dir);
}

bool snapshot_install(const char *dir, const struct replica_record *record, char *error,
                      size_t size)
{
    char incoming[PATH_MAX];
    if (!beside(incoming, dir, SNAPSHOT_INCOMING)) {
        (void)snprintf(error, size, "%s: the path is too long", dir);
        return false;
    }
    struct replica_file *file = replica_file_make(incoming, record, error, size);
    if (!file)
        return false;
    replica_file_close(file);
    if (forget_origin(incoming) && exchange(dir, incoming))
        return true;
    (void)snprintf(error, size, "%s cannot take the place of %s: %s", incoming, dir,
                   strerror(errno));
    return false;
}

bool snapshot_is_set_aside(const char *dir)
{
    char lost[PATH_MAX];
    return beside(lost, dir, SNAPSHOT_LOST) && path_exists(lost);
}

bool snapshot_set_aside(const char *dir, char *error, size_t size)
{
    char lost[PATH_MAX];
    if (beside(lost, dir, SNAPSHOT_LOST) &&
        renameat2(AT_FDCWD, dir, AT_FDCWD, lost, RENAME_NOREPLACE) == 0 && sync_parent(dir))
        return true;
    (void)snprintf(error, size, "%s cannot be renamed to %s: %s", dir, lost, strerror(errno));
    return false;
}

/* A copy may go on with these files. */
static bool is_cache(const char *dir, const char *incoming)
{
    char origin[PATH_MAX], replica[PATH_MAX];
    return beside(origin, incoming, "/" SNAPSHOT_ORIGIN) && path_exists(origin) &&
           beside(replica, dir, "/replica") && path_exists(replica);
}

static void remove_beside(const char *path)
{
    if (path_exists(path) && !path_remove(path))
        log_event(LOG_WARN, "snapshot_not_removed", "path=%s reason=\"%s\"", path, strerror(errno));
}

void snapshot_install_clean(const char *dir)
{
    char incoming[PATH_MAX], outgoing[PATH_MAX];
    if (!beside(incoming, dir, SNAPSHOT_INCOMING) || !beside(outgoing, dir, SNAPSHOT_OUTGOING))
        return;
    if (path_exists(incoming) && !is_cache(dir, incoming) && sync_parent(dir))
        remove_beside(incoming);
    remove_beside(outgoing);
}
