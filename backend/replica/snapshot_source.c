#include "backend/replica/snapshot_source.h"

#include "backend/replica/file_io.h"
#include "backend/replica/snapshot_message.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/list.h"
#include "shared/log.h"
#include "shared/net/loop.h"
#include "shared/net/worker.h"
#include "shared/out.h"
#include "shared/path.h"
#include "shared/token_bucket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECES_MAX = 4,   /* that are read from the disk at one time */
    FULL_WAIT_MS = 2, /* until a full connection is looked at again */
};

enum source_state { SOURCE_IDLE, SOURCE_MAKING, SOURCE_SERVING, SOURCE_REMOVING };

struct snapshot_source {
    struct loop *loop;
    struct worker *worker;
    struct snapshot_cut cut;
    char *path;
    enum source_state state;
    const struct peer_incoming *reader; /* whose cut it is; NULL: its connection has ended */
    struct peer_call begin;             /* open in MAKING, if there is a reader */
    bool is_wanted_no_more;
    struct job job; /* of MAKING and REMOVING */
    int err;        /* results of the job */
    char reason[256];
    struct arena names;
    struct snapshot_list list;
    struct list waiting;    /* pieces that are not being read */
    struct list being_read; /* pieces that are */
    unsigned reading;       /* their number */
    struct token_bucket rate;
    struct timer *timer;
    uint64_t sent, total, fetched;
};

/* A request for a piece. */
struct piece_call {
    struct list link; /* in waiting or being_read */
    struct peer_call call;
    struct job job;
    struct snapshot_source *source;
    struct snapshot_piece piece;
    bool is_read, is_abandoned;
    int err;    /* errno of reading it */
    char *data; /* with the header */
};

static void free_piece(struct piece_call *call);
static void serve_pieces(struct snapshot_source *source);
static void serve_later(void *owner);
static void remove_cut(struct snapshot_source *source);

/* ---- life -------------------------------------------------------------------------------------- */

struct snapshot_source *snapshot_source_new(struct loop *loop, const char *path,
                                            const struct snapshot_cut *cut)
{
    struct snapshot_source *source = calloc(1, sizeof *source);
    CHECK(source);
    source->loop = loop;
    source->worker = worker_new(loop, "snapshot");
    source->timer = timer_new(loop, serve_later, source);
    source->cut = *cut;
    source->path = strdup(path);
    CHECK(source->path);
    list_init(&source->waiting);
    list_init(&source->being_read);
    arena_init(&source->names);
    if (path_exists(path))
        remove_cut(source);
    return source;
}

void snapshot_source_free(struct snapshot_source *source)
{
    if (!source)
        return;
    timer_free(source->timer);
    worker_free(source->worker);
    CHECK(list_empty(&source->waiting));
    for (struct list *link;
         (link = list_pop(&source->being_read));) /* lost with its process, in a simulation */
        free_piece(container_of(link, struct piece_call, link));
    (void)path_remove(source->path);
    arena_fini(&source->names);
    free(source->path);
    free(source);
}

void snapshot_source_set_rate(struct snapshot_source *source, uint64_t rate)
{
    token_bucket_set(&source->rate, rate);
    serve_pieces(source);
}

bool snapshot_source_is_busy(const struct snapshot_source *source)
{
    return source->state != SOURCE_IDLE;
}

void snapshot_source_progress(const struct snapshot_source *source, uint64_t *sent, uint64_t *total)
{
    *sent = source->sent;
    *total = source->total;
}

/* ---- the end of a cut -------------------------------------------------------------------------- */

static void remove_work(struct job *job)
{
    struct snapshot_source *source = container_of(job, struct snapshot_source, job);
    source->err = path_remove(source->path) ? 0 : errno;
}

static void remove_done(struct job *job)
{
    struct snapshot_source *source = container_of(job, struct snapshot_source, job);
    if (source->err)
        log_event(LOG_WARN, "snapshot_not_removed", "path=%s reason=\"%s\"", source->path,
                  strerror(source->err));
    source->state = SOURCE_IDLE;
}

static void remove_cut(struct snapshot_source *source)
{
    source->state = SOURCE_REMOVING;
    source->job = (struct job){.work = remove_work, .done = remove_done};
    worker_submit(source->worker, &source->job);
}

/* Ends the cut when its reader has gone and the disk is not used. */
static void try_end(struct snapshot_source *source)
{
    if (source->state != SOURCE_SERVING || !source->is_wanted_no_more || source->reading ||
        !list_empty(&source->waiting))
        return;
    if (source->cut.on_end)
        source->cut.on_end(source->cut.owner, source->fetched);
    arena_reset(&source->names);
    source->list.count = 0;
    remove_cut(source);
}

/* ---- making ------------------------------------------------------------------------------------ */

static int compare_files(const void *a, const void *b)
{
    const struct snapshot_file *one = a, *other = b;
    return bytes_compare(one->name, other->name);
}

static void add_file(struct snapshot_source *source, size_t *room, const char *name, uint64_t size)
{
    struct snapshot_list *list = &source->list;
    if (list->count == *room) {
        struct snapshot_file *files = arena_alloc(&source->names, (*room * 2 + 64) * sizeof *files);
        if (list->count)
            memcpy(files, list->files, list->count * sizeof *files);
        list->files = files;
        *room = *room * 2 + 64;
    }
    list->files[list->count++] =
        (struct snapshot_file){arena_copy(&source->names, bytes_of(name)), size};
}

/* Adds one entry of the directory. False: it is no file that can be sent. */
static bool list_entry(struct snapshot_source *source, DIR *dir, const char *name, size_t *room)
{
    struct stat found;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    bool is_file = fstatat(dirfd(dir), name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(found.st_mode) && is_snapshot_name(bytes_of(name)) &&
                   source->list.count < SNAPSHOT_FILES_MAX;
    if (is_file)
        add_file(source, room, name, (uint64_t)found.st_size);
    else
        (void)snprintf(source->reason, sizeof source->reason, "%.200s is no file of a snapshot",
                       name);
    return is_file;
}

static int list_cut_files(struct snapshot_source *source)
{
    size_t room = 0;
    bool is_good = true;
    DIR *dir = opendir(source->path);
    if (!dir) {
        (void)snprintf(source->reason, sizeof source->reason, "%s", strerror(errno));
        return ERR_STORE;
    }
    for (struct dirent *entry; is_good && (entry = readdir(dir));)
        is_good = list_entry(source, dir, entry->d_name, &room);
    (void)closedir(dir);
    if (source->list.count)
        qsort(source->list.files, source->list.count, sizeof source->list.files[0], compare_files);
    return is_good ? OK : ERR_STORE;
}

static void make_work(struct job *job)
{
    struct snapshot_source *source = container_of(job, struct snapshot_source, job);
    source->list = (struct snapshot_list){.count = 0};
    source->err = source->cut.make(source->cut.owner, source->path, &source->list, source->reason,
                                   sizeof source->reason);
    if (source->err == OK)
        source->err = list_cut_files(source);
}

static void reply_files(struct snapshot_source *source)
{
    struct out out;
    out_init(&out);
    snapshot_list_write(&source->list, &out);
    struct bytes payload = out_take(&out);
    peer_call_done(&source->begin, payload);
    free((char *)payload.data);
}

static void make_done(struct job *job)
{
    struct snapshot_source *source = container_of(job, struct snapshot_source, job);
    source->state = SOURCE_SERVING;
    source->sent = 0;
    source->total = snapshot_list_bytes(&source->list);
    if (source->err != OK) {
        log_event(LOG_WARN, "snapshot_failed", "path=%s reason=\"%s\"", source->path,
                  source->reason);
        source->is_wanted_no_more = true;
    }
    if (source->reader && source->err == OK)
        reply_files(source);
    else if (source->reader)
        peer_call_refuse(&source->begin, REFUSAL(OTHER, source->reason));
    try_end(source);
}

/* The connection has ended while the cut was made: snapshot_source_closed does the rest. */
static void begin_abandoned(struct peer_call *call)
{
    container_of(call, struct snapshot_source, begin)->reader = NULL;
}

static void begin_cut(struct snapshot_source *source, struct peer_incoming *incoming,
                      const struct peer_frame *frame)
{
    if (source->state != SOURCE_IDLE) {
        peer_incoming_refuse(incoming, frame->id, REFUSAL(WAIT, "another snapshot is being read"));
        return;
    }
    source->state = SOURCE_MAKING;
    source->reader = incoming;
    source->is_wanted_no_more = false;
    source->fetched = 0;
    source->begin.on_abandoned = begin_abandoned;
    peer_call_open(&source->begin, incoming, frame->id, 0);
    source->job = (struct job){.work = make_work, .done = make_done};
    worker_submit(source->worker, &source->job);
}

/* ---- pieces ------------------------------------------------------------------------------------ */

static bool piece_path(const struct piece_call *call, char path[PATH_MAX])
{
    struct bytes name = call->source->list.files[call->piece.file].name;
    int len = snprintf(path, PATH_MAX, "%s/%.*s", call->source->path, (int)name.len, name.data);
    errno = ENAMETOOLONG;
    return len > 0 && len < PATH_MAX;
}

static bool read_data(int fd, char *to, size_t len, uint64_t at)
{
    size_t got = len;
    if (!file_read_at(fd, to, &got, at))
        return false;
    errno = EIO; /* the file is shorter than it was */
    return got == len;
}

static void piece_work(struct job *job)
{
    struct piece_call *call = container_of(job, struct piece_call, job);
    char path[PATH_MAX];
    int fd = piece_path(call, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    call->data = malloc(SNAPSHOT_DATA_HEADER_BYTES + call->piece.len);
    CHECK(call->data);
    bool is_read = fd >= 0 && read_data(fd, call->data + SNAPSHOT_DATA_HEADER_BYTES,
                                        call->piece.len, call->piece.offset);
    call->err = is_read ? 0 : errno;
    if (is_read)
        snapshot_data_seal(call->data, call->piece.len);
    if (fd >= 0)
        (void)close(fd);
}

static void reply_piece(struct piece_call *call)
{
    struct bytes data = {call->data, SNAPSHOT_DATA_HEADER_BYTES + call->piece.len};
    if (call->err)
        peer_call_refuse(&call->call, REFUSAL(OTHER, strerror(call->err)));
    else
        peer_call_done(&call->call, data);
}

static void free_piece(struct piece_call *call)
{
    list_remove(&call->link);
    free(call->data);
    free(call);
}

static void piece_done(struct job *job)
{
    struct piece_call *call = container_of(job, struct piece_call, job);
    struct snapshot_source *source = call->source;
    source->reading--;
    if (!call->is_abandoned) {
        source->sent += call->piece.len;
        reply_piece(call);
    }
    free_piece(call);
    serve_pieces(source);
    try_end(source);
}

/* A piece that is being read is freed when that ends. */
static void piece_abandoned(struct peer_call *peer_call)
{
    struct piece_call *call = container_of(peer_call, struct piece_call, call);
    call->is_abandoned = true;
    if (!call->is_read)
        free_piece(call);
}

/* Time until the next piece may be read: no more than the rate, nor than the other copy receives; 0: now. */
static uint64_t piece_wait_ms(struct snapshot_source *source)
{
    if (stream_pending(source->reader->stream) > STREAM_HIGH_WATER)
        return FULL_WAIT_MS;
    return token_bucket_wait_ms(&source->rate, loop_mono_ms(source->loop));
}

static void read_piece(struct snapshot_source *source, struct piece_call *call)
{
    list_remove(&call->link);
    list_push(&source->being_read, &call->link);
    call->is_read = true;
    token_bucket_charge(&source->rate, loop_mono_ms(source->loop), call->piece.len);
    source->reading++;
    worker_submit(source->worker, &call->job);
}

static void serve_pieces(struct snapshot_source *source)
{
    while (source->reading < PIECES_MAX && !list_empty(&source->waiting)) {
        uint64_t wait_ms = piece_wait_ms(source);
        if (wait_ms) {
            timer_start(source->timer, wait_ms, 0);
            return;
        }
        read_piece(source, container_of(source->waiting.next, struct piece_call, link));
    }
}

static void serve_later(void *owner)
{
    serve_pieces(owner);
}

static bool has_piece(const struct snapshot_source *source, const struct snapshot_piece *piece)
{
    if (piece->file >= source->list.count)
        return false;
    uint64_t size = source->list.files[piece->file].size;
    return piece->offset <= size && piece->len <= size - piece->offset;
}

static bool is_reader(const struct snapshot_source *source, const struct peer_incoming *incoming)
{
    return source->reader == incoming && !source->is_wanted_no_more;
}

static void begin_piece(struct snapshot_source *source, struct peer_incoming *incoming,
                        const struct peer_frame *frame)
{
    struct snapshot_piece piece;
    if (source->state != SOURCE_SERVING || !is_reader(source, incoming) ||
        !snapshot_piece_read(frame->payload, &piece) || !has_piece(source, &piece)) {
        peer_incoming_refuse(incoming, frame->id,
                             REFUSAL(OTHER, "there is no such piece of a snapshot"));
        return;
    }
    struct piece_call *call = calloc(1, sizeof *call);
    CHECK(call);
    call->source = source;
    call->piece = piece;
    call->job = (struct job){.work = piece_work, .done = piece_done};
    call->call.on_abandoned = piece_abandoned;
    peer_call_open(&call->call, incoming, frame->id, frame->payload.len);
    list_push(&source->waiting, &call->link);
    serve_pieces(source);
}

/* ---- requests ---------------------------------------------------------------------------------- */

static void refuse_waiting_pieces(struct snapshot_source *source)
{
    while (!list_empty(&source->waiting)) {
        struct piece_call *call = container_of(source->waiting.next, struct piece_call, link);
        peer_call_refuse(&call->call, REFUSAL(OTHER, "the snapshot has ended"));
        free_piece(call);
    }
}

static void end_cut(struct snapshot_source *source, struct peer_incoming *incoming,
                    const struct peer_frame *frame)
{
    if (!is_reader(source, incoming)) {
        peer_incoming_refuse(incoming, frame->id, REFUSAL(OTHER, "there is no snapshot to end"));
        return;
    }
    bool is_fetched = frame->payload.len == 1 && frame->payload.data[0] == 1;
    if (source->state == SOURCE_SERVING && is_fetched)
        source->fetched = source->list.index;
    source->is_wanted_no_more = true;
    refuse_waiting_pieces(source);
    peer_incoming_done(incoming, frame->id, (struct bytes){"", 0});
    try_end(source);
}

bool snapshot_source_handle(struct snapshot_source *source, struct peer_incoming *incoming,
                            const struct peer_frame *frame)
{
    switch (frame->kind) {
    case PEER_SNAPSHOT_BEGIN:
        begin_cut(source, incoming, frame);
        return true;
    case PEER_SNAPSHOT_READ:
        begin_piece(source, incoming, frame);
        return true;
    case PEER_SNAPSHOT_END:
        end_cut(source, incoming, frame);
        return true;
    default:
        return false;
    }
}

void snapshot_source_closed(struct snapshot_source *source, const struct peer_incoming *incoming)
{
    bool was_reader =
        source->reader == incoming || (source->state == SOURCE_MAKING && !source->reader);
    if (!was_reader)
        return;
    source->reader = NULL;
    source->is_wanted_no_more = true;
    try_end(source);
}
