#include "backend/copy/lanes.h"

#include "shared/check.h"
#include "shared/net/stream.h"
#include "shared/number.h"
#include "shared/resp.h"
#include "shared/slot.h"
#include "shared/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct lane {
    struct lanes *lanes;
    struct stream *stream;
    struct out draft; /* the request that is being written */
    struct resp_skip skip;
    struct request *oldest;
    struct request *newest;
    unsigned waiting;
    uint64_t waiting_bytes;
    int64_t db; /* -1: not selected */
    uint64_t request_db;
    bool is_open;
};

struct lanes {
    const struct copy_options *options;
    const struct lanes_events *events;
    void *owner;
    struct tls_context *tls;
    unsigned count;
    unsigned open;
    bool has_failed;
    struct lane all[];
};

/* ---- failures ---- */

static void lanes_fail(struct lanes *lanes, const char *what, struct bytes reason)
{
    char text[COPY_ADDRESS_MAX + LANES_ERROR_MAX];
    if (lanes->has_failed)
        return;
    lanes->has_failed = true;
    (void)snprintf(text, sizeof text, "%s: %s%.*s", lanes->options->to.address, what,
                   (int)(reason.len < 300 ? reason.len : 300), reason.data);
    lanes->events->on_fail(lanes->owner, text);
}

static void on_end(void *owner, int err)
{
    struct lane *lane = owner;
    lanes_fail(lane->lanes, "the connection ended: ",
               bytes_of(err ? stream_error(lane->stream, err) : "closed by the target"));
    stream_abort(lane->stream);
    lane->stream = NULL;
}

/* ---- requests ---- */

static void write_request(struct lane *lane, const struct bytes *words, uint32_t count)
{
    resp_write_words(&lane->draft, words, count);
    (void)lane_end(lane, REQUEST_SETUP, BYTES(""));
}

static void select_db(struct lane *lane, uint64_t db)
{
    char number[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("SELECT"), {number, number_format_int64(number, (int64_t)db)}};
    lane->request_db = db;
    write_request(lane, words, 2);
    lane->db = (int64_t)db;
}

struct out *lane_begin(struct lane *lane, uint64_t db)
{
    if (lane->db != (int64_t)db)
        select_db(lane, db);
    lane->request_db = db;
    return &lane->draft;
}

static struct request *new_request(const struct lane *lane, enum request_kind kind,
                                   struct bytes key)
{
    struct request *request = malloc(sizeof *request + key.len);
    CHECK(request && key.len <= UINT32_MAX);
    *request = (struct request){.kind = kind,
                                .bytes = lane->draft.bytes,
                                .db = lane->request_db,
                                .key_len = (uint32_t)key.len};
    if (key.len)
        memcpy(request->key, key.data, key.len);
    return request;
}

void request_free(struct request *request)
{
    free((char *)request->kept.data);
    free(request);
}

/* Keeps a copy of the command that was written. */
static void keep_command(struct lane *lane, struct request *request)
{
    char *copy = malloc(lane->draft.bytes);
    CHECK(copy);
    out_copy(&lane->draft, copy);
    request->kept = (struct bytes){copy, lane->draft.bytes};
}

struct request *lane_end(struct lane *lane, enum request_kind kind, struct bytes key)
{
    struct request *request = new_request(lane, kind, key);
    if (kind == REQUEST_KEY || kind == REQUEST_FUNCTION)
        keep_command(lane, request);
    out_move(stream_out(lane->stream), &lane->draft);
    if (lane->newest)
        lane->newest->next = request;
    else
        lane->oldest = request;
    lane->newest = request;
    lane->waiting++;
    lane->waiting_bytes += request->bytes;
    stream_send(lane->stream);
    return request;
}

struct request *lane_again(struct lane *lane, const struct request *request)
{
    struct out *out = lane_begin(lane, request->db);
    out_write(out, request->kept.data, request->kept.len);
    struct request *again =
        lane_end(lane, request->kind, (struct bytes){request->key, request->key_len});
    again->is_again = true;
    return again;
}

struct request *request_copy(const struct request *request)
{
    size_t size = sizeof *request + request->key_len;
    struct request *copy = malloc(size);
    char *kept = malloc(request->kept.len + 1);
    CHECK(copy && kept);
    char *end = kept;
    memcpy(copy, request, size);
    copy->next = NULL;
    copy->kept = bytes_copy_to(&end, request->kept);
    return copy;
}

static struct request *take_answered(struct lane *lane)
{
    struct request *request = lane->oldest;
    lane->oldest = request->next;
    if (!lane->oldest)
        lane->newest = NULL;
    lane->waiting--;
    lane->waiting_bytes -= request->bytes;
    return request;
}

/* ---- replies ---- */

static struct bytes error_line(struct bytes frame)
{
    size_t len = frame.len > 3 ? frame.len - 3 : 0;
    return (struct bytes){frame.data + 1, len};
}

static void lane_opened(struct lane *lane)
{
    lane->is_open = true;
    if (++lane->lanes->open == lane->lanes->count)
        lane->lanes->events->on_ready(lane->lanes->owner);
}

static void handle_setup(struct lane *lane, struct bytes frame)
{
    if (frame.data[0] == '-') {
        lanes_fail(lane->lanes, "", error_line(frame));
        return;
    }
    if (!lane->is_open && lane->waiting == 0)
        lane_opened(lane);
}

static void lane_reply(struct lane *lane, struct bytes frame)
{
    if (!lane->oldest) {
        lanes_fail(lane->lanes, "a reply without a request: ", error_line(frame));
        return;
    }
    struct request *request = take_answered(lane);
    if (request->kind == REQUEST_SETUP)
        handle_setup(lane, frame);
    else
        lane->lanes->events->on_reply(lane->lanes->owner, request, frame);
    request_free(request);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct lane *lane = owner;
    size_t used = 0;
    (void)block;
    while (used < len && !lane->lanes->has_failed) {
        enum resp_result found = resp_skip(&lane->skip, data + used, len - used);
        if (found == RESP_MORE)
            break;
        if (found == RESP_BAD) {
            lanes_fail(lane->lanes, "it does not speak the Redis protocol", BYTES(""));
            break;
        }
        lane_reply(lane, (struct bytes){data + used, lane->skip.size});
        used += lane->skip.size;
    }
    *need = lane->skip.need;
    if (!lane->lanes->has_failed && lane->lanes->open == lane->lanes->count)
        lane->lanes->events->on_room(lane->lanes->owner);
    return lane->lanes->has_failed ? len : used;
}

/* ---- connecting ---- */

static const struct stream_events LANE_EVENTS = {.on_data = on_data, .on_end = on_end};

/* Logs in, and gives the connection a name that CLIENT LIST shows. */
static void on_lane_open(void *owner, int err)
{
    struct lane *lane = owner;
    const struct copy_target *to = &lane->lanes->options->to;
    struct bytes auth[] = {BYTES("AUTH"), bytes_of(to->user), bytes_of(to->password)};
    struct bytes name[] = {BYTES("CLIENT"), BYTES("SETNAME"), BYTES("scree-copy")};
    if (err) {
        lanes_fail(lane->lanes, "cannot connect: ", bytes_of(stream_error(lane->stream, err)));
        stream_abort(lane->stream);
        lane->stream = NULL;
        return;
    }
    if (*to->user) /* also without a password: otherwise the keys would go to the default user's place */
        write_request(lane, auth, 3);
    else if (*to->password)
        write_request(lane, (struct bytes[]){auth[0], auth[2]}, 2);
    write_request(lane, name, 3);
}

static void lane_connect(struct lanes *lanes, struct lane *lane, struct loop *loop)
{
    const struct copy_target *to = &lanes->options->to;
    *lane = (struct lane){.lanes = lanes, .db = to->needs_no_select ? 0 : -1};
    out_init(&lane->draft);
    lane->stream =
        stream_connect(loop, to->address, LANES_CONNECT_MS, &LANE_EVENTS, on_lane_open, lane);
    if (lanes->tls)
        stream_secure(lane->stream, lanes->tls, to->address);
}

struct tls_context *lanes_new_tls(const struct copy_options *options, char error[LANES_ERROR_MAX])
{
    struct tls_options tls = {
        .is_client = true,
        .section = "",
        .cert_file = options->tls.cert_file,
        .key_file = options->tls.key_file,
        .key_file_pass = "",
        .ca_cert_file = options->tls.ca_file,
        .protocols = "",
        .ciphers = "",
        .ciphersuites = "",
        .verifies_name = true,
        .server_name = "",
    };
    return tls_context_new(&tls, error, LANES_ERROR_MAX);
}

struct lanes *lanes_new(struct loop *loop, const struct copy_options *options,
                        const struct lanes_events *events, void *owner, char error[LANES_ERROR_MAX])
{
    struct lanes *lanes = calloc(1, sizeof *lanes + options->lanes * sizeof(struct lane));
    CHECK(lanes);
    lanes->options = options;
    lanes->events = events;
    lanes->owner = owner;
    lanes->count = options->lanes;
    if (options->to.is_secure && !(lanes->tls = lanes_new_tls(options, error))) {
        free(lanes);
        return NULL;
    }
    for (unsigned i = 0; i < lanes->count; i++)
        lane_connect(lanes, &lanes->all[i], loop);
    return lanes;
}

static void lane_fini(struct lane *lane)
{
    if (lane->stream)
        stream_abort(lane->stream);
    out_clear(&lane->draft);
    while (lane->oldest)
        request_free(take_answered(lane));
}

void lanes_free(struct lanes *lanes)
{
    for (unsigned i = 0; i < lanes->count; i++)
        lane_fini(&lanes->all[i]);
    tls_context_unref(lanes->tls);
    free(lanes);
}

/* ---- choosing ---- */

struct lane *lane_of(struct lanes *lanes, struct bytes key)
{
    return &lanes->all[slot_of(key) % lanes->count];
}

bool lane_is_full(const struct lane *lane)
{
    return lane->waiting >= LANE_REQUESTS_MAX || lane->waiting_bytes >= LANE_BYTES_MAX;
}

uint64_t lanes_waiting(const struct lanes *lanes)
{
    uint64_t waiting = 0;
    for (unsigned i = 0; i < lanes->count; i++)
        waiting += lanes->all[i].waiting;
    return waiting;
}
