#include "backend/replica/snapshot_target.h"

#include "backend/replica/file_io.h"
#include "shared/check.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 16, ORIGIN_MAX = 64 };

/* A file of the list. Of use to the worker's thread only, but is_here once the directory is prepared. */
struct target_file {
    bool is_here;
    int fd;        /* of NAME.part; -1: not open */
    uint64_t left; /* bytes that are not written */
};

struct snapshot_target {
    struct loop *loop;
    struct worker *worker;
    struct peer_link *link;
    struct snapshot_target_events events;
    char *dir;
    struct peer_request begin; /* id 0: not outstanding */
    char *payload;             /* of the list */
    struct arena arena;
    struct snapshot_list list;
    struct target_file *files;
    uint32_t next_file; /* the next piece to ask for */
    uint64_t next_offset;
    struct list pieces; /* asked for, or being written */
    unsigned count;     /* of pieces */
    unsigned writing;   /* of these, with the worker */
    struct job job;     /* of PREPARING and SYNCING */
    bool is_working;    /* the job is with the worker */
    bool is_freed, has_ended;
    bool has_left; /* SNAPSHOT_END was sent */
    enum snapshot_result result;
    char reason[PEER_REASON_MAX];
    uint64_t bytes;
};

struct target_piece {
    struct list link;
    struct snapshot_target *target;
    struct peer_request request; /* id 0: not outstanding */
    struct job job;
    struct snapshot_piece piece;
    char *data; /* the payload of the reply */
    enum snapshot_result result;
    char reason[PEER_REASON_MAX];
};

static void fetch_pieces(struct snapshot_target *target);

/* ---- the end ----------------------------------------------------------------------------------- */

static void drop_piece(struct target_piece *piece)
{
    if (piece->request.id)
        peer_link_cancel(piece->target->link, &piece->request);
    piece->target->count--;
    list_remove(&piece->link);
    free(piece->data);
    free(piece);
}

/* Drops the pieces that are not with the worker. */
static void drop_asked(struct snapshot_target *target)
{
    struct list *next;
    for (struct list *at = target->pieces.next; at != &target->pieces; at = next) {
        struct target_piece *piece = container_of(at, struct target_piece, link);
        next = at->next;
        if (!piece->data)
            drop_piece(piece);
    }
}

/* Reports the end when the worker has nothing more to do. */
static void try_end_target(struct snapshot_target *target)
{
    if (target->has_ended || target->is_freed || target->writing || target->is_working)
        return;
    target->has_ended = true;
    target->events.on_end(target->events.owner, target->result, &target->list, target->reason);
}

/* Reports to the other copy that its files are not needed any more. If the link is not up, the end of its connection has done so. */
static void leave(struct snapshot_target *target)
{
    char is_fetched = target->result == SNAPSHOT_IS_HERE && !target->is_freed;
    if (!target->has_left)
        peer_link_tell(target->link, PEER_SNAPSHOT_END, (struct bytes){&is_fetched, 1});
    target->has_left = true;
}

/* The first failure counts. */
static void fail_target(struct snapshot_target *target, enum snapshot_result result,
                        const char *reason)
{
    if (target->result == SNAPSHOT_IS_HERE) {
        target->result = result;
        (void)snprintf(target->reason, sizeof target->reason, "%s", reason);
    }
    drop_asked(target);
    leave(target);
    try_end_target(target);
}

static void fail_reply(struct snapshot_target *target, enum peer_result result,
                       struct bytes payload)
{
    char reason[PEER_REASON_MAX];
    if (result == PEER_LOST)
        payload = BYTES("the connection to the other copy was lost");
    else if (result == PEER_OK)
        payload = BYTES("the other copy sent something else than was asked for");
    (void)snprintf(reason, sizeof reason, "%.*s", (int)payload.len, payload.data);
    fail_target(target, SNAPSHOT_PEER_FAILED, reason);
}

/* ---- files, on the worker's thread -------------------------------------------------------------- */

static enum snapshot_result disk_error(char reason[PEER_REASON_MAX], const char *path)
{
    const char *why = strerror(errno);
    bool is_full = errno == ENOSPC || errno == EDQUOT;
    (void)snprintf(reason, PEER_REASON_MAX, "%.*s: %s", PEER_REASON_MAX / 2, path, why);
    return is_full ? SNAPSHOT_NO_ROOM : SNAPSHOT_DISK_FAILED;
}

static void path_in(char path[PATH_MAX], const struct snapshot_target *target, struct bytes name,
                    const char *suffix)
{
    int len = snprintf(path, PATH_MAX, "%s/%.*s%s", target->dir, (int)name.len, name.data, suffix);
    CHECK(len > 0 && len < PATH_MAX);
}

/* Gives the file its name; the names become durable when the directory is synced. */
static bool complete_file(struct snapshot_target *target, uint32_t index, const char *part)
{
    char path[PATH_MAX];
    struct target_file *file = &target->files[index];
    bool is_synced = fdatasync(file->fd) == 0;
    int err = errno;
    (void)close(file->fd);
    file->fd = -1;
    errno = err;
    path_in(path, target, target->list.files[index].name, "");
    return is_synced && rename(part, path) == 0;
}

static enum snapshot_result write_part(struct snapshot_target *target,
                                       const struct snapshot_piece *piece, struct bytes data,
                                       char *reason)
{
    char path[PATH_MAX];
    struct target_file *file = &target->files[piece->file];
    path_in(path, target, target->list.files[piece->file].name, ".part");
    if (file->fd < 0)
        file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    if (file->fd < 0 || !file_write_at(file->fd, data, piece->offset))
        return disk_error(reason, path);
    file->left -= data.len;
    if (file->left == 0 && !complete_file(target, piece->file, path))
        return disk_error(reason, path);
    return SNAPSHOT_IS_HERE;
}

static void write_work(struct job *job)
{
    struct target_piece *piece = container_of(job, struct target_piece, job);
    struct bytes payload = {piece->data, SNAPSHOT_DATA_HEADER_BYTES + piece->piece.len};
    struct bytes data = {piece->data + SNAPSHOT_DATA_HEADER_BYTES, piece->piece.len};
    if (piece->piece.len && !snapshot_data_is_good(payload)) {
        (void)snprintf(piece->reason, sizeof piece->reason, "a piece came damaged");
        piece->result = SNAPSHOT_PEER_FAILED;
        return;
    }
    piece->result = write_part(piece->target, &piece->piece, data, piece->reason);
}

static void write_done(struct job *job)
{
    struct target_piece *piece = container_of(job, struct target_piece, job);
    struct snapshot_target *target = piece->target;
    enum snapshot_result result = piece->result;
    char reason[PEER_REASON_MAX];
    memcpy(reason, piece->reason, sizeof reason);
    target->bytes += result == SNAPSHOT_IS_HERE ? piece->piece.len : 0;
    target->writing--;
    drop_piece(piece);
    if (result != SNAPSHOT_IS_HERE || target->result != SNAPSHOT_IS_HERE)
        fail_target(target, result, reason);
    else if (!target->is_freed)
        fetch_pieces(target);
}

/* ---- sync -------------------------------------------------------------------------------------- */

static void sync_work(struct job *job)
{
    struct snapshot_target *target = container_of(job, struct snapshot_target, job);
    if (!path_sync(target->dir))
        target->result = disk_error(target->reason, target->dir);
}

static void sync_done(struct job *job)
{
    struct snapshot_target *target = container_of(job, struct snapshot_target, job);
    target->is_working = false;
    leave(target);
    try_end_target(target);
}

static void begin_job(struct snapshot_target *target, void (*work)(struct job *),
                      void (*done)(struct job *))
{
    target->job = (struct job){.work = work, .done = done};
    target->is_working = true;
    worker_submit(target->worker, &target->job);
}

/* ---- pieces ------------------------------------------------------------------------------------ */

static void write_fetched(struct target_piece *piece)
{
    piece->job = (struct job){.work = write_work, .done = write_done};
    piece->target->writing++;
    worker_submit(piece->target->worker, &piece->job);
}

static void piece_replied(struct peer_request *request, enum peer_result result,
                          struct bytes payload)
{
    struct target_piece *piece = container_of(request, struct target_piece, request);
    struct snapshot_target *target = piece->target;
    if (result != PEER_OK || payload.len != SNAPSHOT_DATA_HEADER_BYTES + piece->piece.len) {
        fail_reply(target, result, payload);
        return;
    }
    piece->data = malloc(payload.len);
    CHECK(piece->data);
    memcpy(piece->data, payload.data, payload.len);
    write_fetched(piece);
}

static struct target_piece *target_piece_new(struct snapshot_target *target)
{
    struct target_piece *piece = calloc(1, sizeof *piece);
    CHECK(piece);
    uint64_t left = target->list.files[target->next_file].size - target->next_offset;
    piece->target = target;
    piece->request.on_reply = piece_replied;
    piece->piece = (struct snapshot_piece){
        .file = target->next_file,
        .offset = target->next_offset,
        .len = left < SNAPSHOT_PIECE_MAX ? (uint32_t)left : SNAPSHOT_PIECE_MAX,
    };
    list_push(&target->pieces, &piece->link);
    target->count++;
    return piece;
}

/* An empty file is made without asking for it. */
static enum peer_sent ask_for_piece(struct target_piece *piece)
{
    char payload[SNAPSHOT_READ_BYTES];
    if (piece->piece.len == 0) {
        piece->data = calloc(1, SNAPSHOT_DATA_HEADER_BYTES);
        CHECK(piece->data);
        write_fetched(piece);
        return PEER_SENT;
    }
    snapshot_piece_write(&piece->piece, payload);
    return peer_link_send(piece->target->link, &piece->request, PEER_SNAPSHOT_READ,
                          (struct bytes){payload, sizeof payload});
}

/* Moves to the next piece that is not here. False: there is none. */
static bool find_next(struct snapshot_target *target)
{
    while (target->next_file < target->list.count && target->files[target->next_file].is_here)
        target->next_file++;
    return target->next_file < target->list.count;
}

static void advance_target(struct snapshot_target *target, uint32_t len)
{
    target->next_offset += len;
    if (target->next_offset < target->list.files[target->next_file].size)
        return;
    target->next_file++;
    target->next_offset = 0;
}

static void fetch_pieces(struct snapshot_target *target)
{
    while (target->count < WINDOW && find_next(target)) {
        struct target_piece *piece = target_piece_new(target);
        uint32_t len = piece->piece.len;
        enum peer_sent sent = ask_for_piece(piece);
        if (sent != PEER_SENT)
            drop_piece(piece);
        if (sent == PEER_FULL && target->count)
            return; /* again when a piece has come */
        if (sent != PEER_SENT) {
            fail_reply(target, PEER_LOST, (struct bytes){"", 0});
            return;
        }
        advance_target(target, len);
    }
    if (!target->count)
        begin_job(target, sync_work, sync_done);
}

/* ---- prepare, on the worker's thread ------------------------------------------------------------ */

static void origin_text(const struct snapshot_target *target, char text[ORIGIN_MAX])
{
    (void)snprintf(text, ORIGIN_MAX, "scree snapshot 1 of %016" PRIx64 "\n", target->list.origin);
}

static bool has_origin(const struct snapshot_target *target, const char *path)
{
    char wanted[ORIGIN_MAX], text[ORIGIN_MAX] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    origin_text(target, wanted);
    return len > 0 && strcmp(text, wanted) == 0;
}

static bool write_origin(const struct snapshot_target *target, const char *path)
{
    char text[ORIGIN_MAX];
    origin_text(target, text);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    bool is_written = fd >= 0 && file_write_at(fd, bytes_of(text), 0) && fdatasync(fd) == 0;
    int err = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = err;
    return is_written && path_sync(target->dir);
}

/* Empties the directory unless its files are of this origin. */
static enum snapshot_result prepare_dir(struct snapshot_target *target)
{
    char path[PATH_MAX];
    path_in(path, target, BYTES(SNAPSHOT_ORIGIN), "");
    if (has_origin(target, path))
        return SNAPSHOT_IS_HERE;
    if (!path_remove(target->dir))
        return disk_error(target->reason, target->dir);
    if (!path_make(target->dir, target->reason, sizeof target->reason))
        return SNAPSHOT_DISK_FAILED;
    return write_origin(target, path) ? SNAPSHOT_IS_HERE : disk_error(target->reason, path);
}

static int compare_name(const void *name, const void *file)
{
    return bytes_compare(*(const struct bytes *)name, ((const struct snapshot_file *)file)->name);
}

/* Are the contents of a file with this name always the same? */
static bool is_table_file(struct bytes name)
{
    static const char *const ends[] = {".sst", ".blob"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct bytes end = bytes_of(ends[i]);
        if (name.len > end.len && memcmp(name.data + name.len - end.len, end.data, end.len) == 0)
            return true;
    }
    return false;
}

/* Keeps a table file that the list has; removes any other file. */
static bool keep_or_remove(struct snapshot_target *target, DIR *dir, const char *entry)
{
    struct stat found;
    struct bytes name = bytes_of(entry);
    const struct snapshot_file *file =
        target->list.count
            ? bsearch(&name, target->list.files, target->list.count, sizeof *file, compare_name)
            : NULL;
    if (strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0 || strcmp(entry, SNAPSHOT_ORIGIN) == 0)
        return true;
    if (file && is_table_file(name) &&
        fstatat(dirfd(dir), entry, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode) &&
        (uint64_t)found.st_size == file->size) {
        target->files[file - target->list.files].is_here = true;
        return true;
    }
    return unlinkat(dirfd(dir), entry, 0) == 0;
}

static enum snapshot_result keep_what_fits(struct snapshot_target *target)
{
    bool is_good = true;
    DIR *dir = opendir(target->dir);
    if (!dir)
        return disk_error(target->reason, target->dir);
    for (struct dirent *entry; is_good && (entry = readdir(dir));)
        is_good = keep_or_remove(target, dir, entry->d_name);
    enum snapshot_result result =
        is_good ? SNAPSHOT_IS_HERE : disk_error(target->reason, target->dir);
    (void)closedir(dir);
    return result;
}

/* Is there room for what is missing? A room of 0 is not known. */
static enum snapshot_result check_disk_room(struct snapshot_target *target)
{
    uint64_t missing = 0, room = path_free_bytes(target->dir);
    for (uint32_t i = 0; i < target->list.count; i++)
        missing += target->files[i].is_here ? 0 : target->list.files[i].size;
    if (missing <= room || !room)
        return SNAPSHOT_IS_HERE;
    (void)snprintf(target->reason, sizeof target->reason,
                   "%s: %" PRIu64 " bytes are missing, and the disk has room for %" PRIu64,
                   target->dir, missing, room);
    return SNAPSHOT_NO_ROOM;
}

static void prepare_work(struct job *job)
{
    struct snapshot_target *target = container_of(job, struct snapshot_target, job);
    target->result = prepare_dir(target);
    if (target->result == SNAPSHOT_IS_HERE)
        target->result = keep_what_fits(target);
    if (target->result == SNAPSHOT_IS_HERE)
        target->result = check_disk_room(target);
}

static void prepare_done(struct job *job)
{
    struct snapshot_target *target = container_of(job, struct snapshot_target, job);
    target->is_working = false;
    if (target->is_freed)
        return;
    for (uint32_t i = 0; i < target->list.count; i++)
        target->bytes += target->files[i].is_here ? target->list.files[i].size : 0;
    if (target->result == SNAPSHOT_IS_HERE)
        fetch_pieces(target);
    else
        fail_target(target, target->result, target->reason);
}

/* ---- begin ------------------------------------------------------------------------------------- */

static bool read_snapshot_list(struct snapshot_target *target, struct bytes payload)
{
    target->payload = malloc(payload.len + 1);
    CHECK(target->payload);
    if (payload.len)
        memcpy(target->payload, payload.data, payload.len);
    return snapshot_list_read((struct bytes){target->payload, payload.len}, &target->arena,
                              &target->list) &&
           snapshot_list_bytes(&target->list) < UINT64_MAX;
}

static void begin_replied(struct peer_request *request, enum peer_result result,
                          struct bytes payload)
{
    struct snapshot_target *target = container_of(request, struct snapshot_target, begin);
    if (result != PEER_OK || !read_snapshot_list(target, payload)) {
        target->list.count = 0;
        fail_reply(target, result, payload);
        return;
    }
    target->files = calloc(target->list.count + 1, sizeof target->files[0]);
    CHECK(target->files);
    for (uint32_t i = 0; i < target->list.count; i++)
        target->files[i] = (struct target_file){.fd = -1, .left = target->list.files[i].size};
    begin_job(target, prepare_work, prepare_done);
}

struct snapshot_target *snapshot_target_new(struct loop *loop, struct peer_link *link,
                                            const char *dir,
                                            const struct snapshot_target_events *events)
{
    struct snapshot_target *target = calloc(1, sizeof *target);
    CHECK(target);
    CHECK(strlen(dir) + SNAPSHOT_NAME_MAX + sizeof "/.part" < PATH_MAX);
    target->loop = loop;
    target->link = link;
    target->events = *events;
    target->begin.on_reply = begin_replied;
    list_init(&target->pieces);
    arena_init(&target->arena);
    target->dir = strdup(dir);
    CHECK(target->dir);
    target->worker = worker_new(loop, "snapshot");
    if (peer_link_send(link, &target->begin, PEER_SNAPSHOT_BEGIN, (struct bytes){"", 0}) ==
        PEER_SENT)
        return target;
    snapshot_target_free(target);
    return NULL;
}

void snapshot_target_free(struct snapshot_target *target)
{
    if (!target)
        return;
    target->is_freed = true;
    leave(target);
    if (target->begin.id)
        peer_link_cancel(target->link, &target->begin);
    drop_asked(target);
    worker_free(target->worker);
    while (!list_empty(&target->pieces)) /* lost with its process, in a simulation */
        drop_piece(container_of(target->pieces.next, struct target_piece, link));
    for (uint32_t i = 0; target->files && i < target->list.count; i++)
        if (target->files[i].fd >= 0)
            (void)close(target->files[i].fd);
    arena_fini(&target->arena);
    free(target->files);
    free(target->payload);
    free(target->dir);
    free(target);
}

void snapshot_target_progress(const struct snapshot_target *target, uint64_t *bytes,
                              uint64_t *total)
{
    *bytes = target->bytes;
    *total = snapshot_list_bytes(&target->list);
}
