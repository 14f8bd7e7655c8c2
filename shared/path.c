/*
 * path.c - directories: make, sync, measure, give to another user, remove.
 */
#include "shared/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { DEPTH_MAX = 16 };

bool path_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_synced = fsync(fd) == 0;
    return close(fd) == 0 && is_synced;
}

/* The parent directory of path[0..len): "." or "/" if the path names none. */
static void parent_of(const char *path, size_t len, char *parent)
{
    while (len && path[len - 1] != '/')
        len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (!len)
        parent[len++] = '.';
    else
        memcpy(parent, path, len);
    parent[len] = 0;
}

/* A new name is durable when its directory was synced. */
static bool make_one(char *path, size_t len, char *parent)
{
    char kept = path[len];
    path[len] = 0;
    bool is_made = mkdir(path, 0750) == 0;
    bool is_there = is_made || errno == EEXIST;
    path[len] = kept;
    if (!is_made)
        return is_there;
    parent_of(path, len, parent);
    return path_sync(parent);
}

bool path_make(const char *path, char *error, size_t size)
{
    char copy[PATH_MAX], parent[PATH_MAX];
    size_t len = strlen(path);
    bool is_ok = len > 0 && len < sizeof copy;
    if (!is_ok)
        errno = len ? ENAMETOOLONG : ENOENT;
    else
        memcpy(copy, path, len + 1);
    for (size_t i = 1; is_ok && i <= len; i++)
        if ((copy[i] == '/' || copy[i] == 0) && copy[i - 1] != '/')
            is_ok = make_one(copy, i, parent);
    struct stat stat_of;
    if (is_ok)
        is_ok = stat(path, &stat_of) == 0;
    if (is_ok && !S_ISDIR(stat_of.st_mode)) {
        errno = ENOTDIR;
        is_ok = false;
    }
    if (!is_ok)
        (void)snprintf(error, size, "%s: %s", path, strerror(errno));
    return is_ok;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name), suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

uint64_t path_bytes(const char *path, const char *suffix)
{
    DIR *dir = opendir(path);
    uint64_t bytes = 0;
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat stat_of;
        if (ends_with(entry->d_name, suffix) &&
            fstatat(dirfd(dir), entry->d_name, &stat_of, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(stat_of.st_mode))
            bytes += (uint64_t)stat_of.st_size;
    }
    (void)closedir(dir);
    return bytes;
}

uint64_t path_free_bytes(const char *path)
{
    struct statvfs room;
    if (statvfs(path, &room) != 0)
        return 0;
    return (uint64_t)room.f_bavail * room.f_frsize;
}

uint64_t path_total_bytes(const char *path)
{
    struct statvfs room;
    if (statvfs(path, &room) != 0)
        return 0;
    return (uint64_t)room.f_blocks * room.f_frsize;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

bool path_remove(const char *path)
{
    struct stat found;
    return lstat(path, &found) != 0 || nftw(path, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS) == 0;
}

bool path_exists(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0;
}

void path_owner(const char *path, uid_t *user, gid_t *group)
{
    char copy[PATH_MAX], parent[PATH_MAX];
    struct stat found = {0};
    (void)snprintf(copy, sizeof copy, "%s", path);
    while (stat(copy, &found) != 0 && strcmp(copy, ".") != 0 && strcmp(copy, "/") != 0) {
        parent_of(copy, strlen(copy), parent);
        (void)snprintf(copy, sizeof copy, "%s", parent);
    }
    *user = found.st_uid;
    *group = found.st_gid;
}

/* The arguments of path_give for give_one: nftw passes none on. */
static struct {
    uid_t user;
    gid_t group;
} give_to;

static int give_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return lchown(path, give_to.user, give_to.group);
}

bool path_give(const char *path, uid_t user, gid_t group)
{
    give_to.user = user;
    give_to.group = group;
    return nftw(path, give_one, DEPTH_MAX, FTW_PHYS) == 0;
}
