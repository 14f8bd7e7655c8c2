/*
 * watch_uv.c - reports when a path leads to a different file.
 *
 *   /etc/scree/shards.ini ─► ..data/shards.ini ─► ..2026_01_01/shards.ini     Kubernetes swaps ..data
 *   └── events of this directory ──┐
 *       a slow timer ──────────────┴─► debounce ─► stat (follows links) ─► different file: on_change
 *
 * Events only start the check; the check compares the identity (device, inode, size, time) of the file at the end of
 * the links. A missing file is not a change: it may be in the middle of a replacement.
 */
#include "shared/check.h"
#include "shared/net/net_uv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEBOUNCE_MS = 50, LOOK_EVERY_MS = 2000 };

struct watch {
    uv_fs_event_t events;
    struct loop *loop;
    struct timer *debounce; /* waits after an event */
    struct timer *look;     /* checks even without events */
    watch_fn *on_change;
    void *owner;
    struct stat file;      /* as of the last check */
    struct stat directory; /* the directory that is watched; zeros: none */
    char directory_path[PATH_MAX];
    char path[PATH_MAX];
};

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void on_event(uv_fs_event_t *events, const char *name, int what, int status)
{
    struct watch *watch = container_of(events, struct watch, events);
    (void)name;
    (void)what;
    (void)status;
    timer_start(watch->debounce, DEBOUNCE_MS, 0);
}

/* Watches the directory that the path has now: it may have been replaced. */
static void follow_directory(struct watch *watch)
{
    struct stat now;
    if (stat(watch->directory_path, &now) < 0)
        memset(&now, 0, sizeof(now));
    if (now.st_ino == watch->directory.st_ino && now.st_dev == watch->directory.st_dev)
        return;
    uv_fs_event_stop(&watch->events);
    watch->directory = now;
    if (now.st_ino && uv_fs_event_start(&watch->events, on_event, watch->directory_path, 0) < 0)
        memset(&watch->directory, 0, sizeof(watch->directory));
}

static void on_look(void *owner)
{
    struct watch *watch = owner;
    struct stat now;
    follow_directory(watch);
    if (stat(watch->path, &now) < 0 || is_same_file(&now, &watch->file))
        return;
    watch->file = now;
    watch->on_change(watch->owner); /* may free the watch */
}

struct watch *watch_new(struct loop *loop, const char *path, watch_fn *on_change, void *owner)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    CHECK(watch);
    CHECK(strlen(path) < sizeof(watch->path));
    watch->loop = loop;
    watch->on_change = on_change;
    watch->owner = owner;
    memcpy(watch->path, path, strlen(path));
    const char *slash = strrchr(path, '/');
    if (slash)
        memcpy(watch->directory_path, path, slash > path ? (size_t)(slash - path) : 1);
    else
        watch->directory_path[0] = '.';
    uv_fs_event_init(&loop->uv, &watch->events);
    follow_directory(watch);
    if (stat(path, &watch->file) < 0)
        memset(&watch->file, 0, sizeof(watch->file));
    watch->debounce = timer_new(loop, on_look, watch);
    watch->look = timer_new(loop, on_look, watch);
    timer_start(watch->look, LOOK_EVERY_MS, LOOK_EVERY_MS);
    loop->opened++;
    return watch;
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *watch = container_of((uv_fs_event_t *)handle, struct watch, events);
    watch->loop->closing--;
    free(watch);
}

void watch_free(struct watch *watch)
{
    watch->loop->opened--;
    watch->loop->closing++;
    timer_free(watch->debounce);
    timer_free(watch->look);
    uv_close((uv_handle_t *)&watch->events, on_watch_closed);
}
