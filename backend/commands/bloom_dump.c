/*
 * bloom_dump.c - Bloom filters as bytes: BF.SCANDUMP and BF.LOADCHUNK, and the payload of DUMP and RESTORE.
 *
 *   BF.SCANDUMP key 0 ─► 1, head        head:  the text HEAD_MARK, then the bytes of the metadata row (format/bloom.h)
 *                    1 ─► n, chunk      chunk: rows: u8 layer │ u32 page │ u16 length │ bits of the page
 *                    n ─► 0, ""
 *   DUMP: a module's value (module_value.h): head and each row, without the length
 *
 * Both are forms of our own: where RedisBloom has an item's bits is not known from its documentation, so its payloads are
 * refused.
 */
#include "backend/commands/bloom.h"

#include "backend/commands/module_value.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/byte_order.h"
#include "shared/number.h"
#include "shared/out.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    LENGTH_BYTES = 2,
    ROW_HEAD_BYTES = BLOOM_SUB_BYTES + LENGTH_BYTES,
};

#define BLOOM_MODULE "MBbloom--"
#define HEAD_MARK    "screeBF1"
#define BAD_DATA     "ERR received bad data"

/* Reads the head of a filter. The layers say how many items there are; the rows follow. */
static bool head_decode(struct bytes data, struct bloom *bloom)
{
    size_t len = sizeof HEAD_MARK - 1;
    return data.len > len && memcmp(data.data, HEAD_MARK, len) == 0 &&
           bloom_decode((struct bytes){data.data + len, data.len - len}, bloom);
}

static struct bytes head_encode(struct call *call, const struct bloom *bloom)
{
    size_t len = sizeof HEAD_MARK - 1;
    struct bytes row = bloom_encode(call->arena, bloom);
    char *data = arena_alloc(call->arena, len + row.len);
    memcpy(data, HEAD_MARK, len);
    memcpy(data + len, row.data, row.len);
    return (struct bytes){data, len + row.len};
}

/* Writes a page of the filter; bits of a page that exists are replaced. False: it is no page of the filter, or the call has
 * failed. */
static bool put_filter_page(struct call *call, struct entry *entry, const struct bloom *bloom,
                            struct bytes sub, struct bytes bits)
{
    struct bytes old;
    uint8_t layer;
    uint32_t page;
    if (!bloom_sub_decode(bloom, sub, &layer, &page) ||
        bits.len != bloom_page_bytes(&bloom->layers[layer]))
        return false;
    int err = sub_get(call, entry, CF_DATA, sub, &old);
    if (is_read_failure(err))
        return false;
    entry->meta.size += err == ERR_NOT_FOUND;
    sub_put(call, entry, CF_DATA, sub, bits);
    return true;
}

/* ---- BF.SCANDUMP, BF.LOADCHUNK ---- */

/* Number `index` of all pages; false: there are fewer. */
static bool page_at(const struct bloom *bloom, uint64_t index, uint8_t *layer, uint32_t *page)
{
    for (*layer = 0; *layer < bloom->count; ++*layer) {
        if (index < bloom->layers[*layer].pages) {
            *page = (uint32_t)index;
            return true;
        }
        index -= bloom->layers[*layer].pages;
    }
    return false;
}

static uint64_t index_of(const struct bloom *bloom, uint8_t layer, uint32_t page)
{
    uint64_t index = page;
    for (uint8_t i = 0; i < layer; i++)
        index += bloom->layers[i].pages;
    return index;
}

/* Writes rows from page number *index on; *index becomes that of the page behind the last one. */
static bool write_chunk(struct call *call, struct entry *entry, const struct bloom *bloom,
                        uint64_t *index, struct out *out)
{
    struct sub_iter it;
    uint8_t layer;
    uint32_t page;
    if (!page_at(bloom, *index, &layer, &page))
        return true;
    sub_iter_init(call, entry, CF_DATA, bloom_sub(call->arena, layer, page), &it);
    while (out->bytes < CHUNK_BYTES && sub_iter_next(&it)) {
        char head[ROW_HEAD_BYTES];
        if (!bloom_sub_decode(bloom, it.sub, &layer, &page))
            continue;
        memcpy(head, it.sub.data, BLOOM_SUB_BYTES);
        put_be16(head + BLOOM_SUB_BYTES, (uint16_t)it.value.len);
        out_write(out, head, sizeof head);
        out_write(out, it.value.data, it.value.len);
        *index = index_of(bloom, layer, page) + 1;
    }
    return sub_iter_fini(&it);
}

/* Replies the chunk that begins with page number `index`, and how to ask for the next one. */
static void reply_chunk(struct call *call, struct entry *entry, const struct bloom *bloom,
                        uint64_t index)
{
    struct out out;
    out_init(&out);
    if (write_chunk(call, entry, bloom, &index, &out)) {
        char *text = arena_alloc(call->arena, out.bytes + 1);
        size_t len = out.bytes;
        out_copy(&out, text);
        reply_array(&call->reply, 2);
        reply_int(&call->reply, len ? (int64_t)index + 1 : 0);
        reply_bulk(&call->reply, (struct bytes){text, len});
    }
    out_clear(&out);
}

static bool position_argument(struct call *call, int64_t *position)
{
    if (number_parse_int64(call->argv[2], position) && *position >= 0)
        return true;
    call_error_text(call, "ERR Second argument must be numeric");
    return false;
}

void cmd_bf_scandump(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    int64_t position;
    if (!position_argument(call, &position) || !filter_open(call, OPEN_READ, &entry, &bloom))
        return;
    if (!entry.exists) {
        call_error(call, ERR_NOT_FOUND);
    } else if (position == 0) {
        reply_array(&call->reply, 2);
        reply_int(&call->reply, 1);
        reply_bulk(&call->reply, head_encode(call, &bloom));
    } else {
        reply_chunk(call, &entry, &bloom, (uint64_t)position - 1);
    }
}

/* Writes the rows of a chunk. False: it is damaged, or the call has failed. */
static bool load_rows(struct call *call, struct entry *entry, const struct bloom *bloom,
                      struct bytes chunk)
{
    while (chunk.len) {
        if (chunk.len < ROW_HEAD_BYTES)
            return false;
        struct bytes sub = {chunk.data, BLOOM_SUB_BYTES};
        size_t len = get_be16(chunk.data + BLOOM_SUB_BYTES);
        if (chunk.len < ROW_HEAD_BYTES + len ||
            !put_filter_page(call, entry, bloom, sub,
                             (struct bytes){chunk.data + ROW_HEAD_BYTES, len}))
            return false;
        chunk.data += ROW_HEAD_BYTES + len;
        chunk.len -= ROW_HEAD_BYTES + len;
    }
    return true;
}

void cmd_bf_loadchunk(struct call *call)
{
    struct entry entry;
    struct bloom bloom;
    int64_t position;
    if (!position_argument(call, &position) || !filter_open(call, OPEN_WRITE, &entry, &bloom))
        return;
    bool is_good;
    if (position == 1) {
        is_good = !entry.exists && head_decode(call->argv[3], &bloom);
        if (is_good)
            filter_create(call, &entry);
    } else if (!entry.exists) {
        call_error(call, ERR_NOT_FOUND);
        return;
    } else {
        is_good = load_rows(call, &entry, &bloom, call->argv[3]);
    }
    if (!is_good) {
        if (!call->failed)
            call_error_text(call, BAD_DATA);
        return;
    }
    filter_save(call, &entry, &bloom);
    notify(call, NOTIFY_MODULE, "bf.loadchunk", entry.key);
    reply_ok(&call->reply);
}

/* ---- DUMP, RESTORE ---- */

static bool save_filter(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    return module_save(call, entry, writer, BLOOM_MODULE, HEAD_MARK, BYTES(""));
}

/* module_row_fn */
static bool put_filter_row(struct call *call, struct entry *entry, void *object, struct bytes row)
{
    return row.len >= BLOOM_SUB_BYTES &&
           put_filter_page(call, entry, object, (struct bytes){row.data, BLOOM_SUB_BYTES},
                           (struct bytes){row.data + BLOOM_SUB_BYTES, row.len - BLOOM_SUB_BYTES});
}

static bool load_filter(struct call *call, struct entry *entry, struct rdb_reader *reader,
                        enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    (void)expire_ms;
    struct bloom bloom;
    struct bytes head;
    if (!module_read_head(reader, HEAD_MARK, &head) || !bloom_decode(head, &bloom))
        return false;
    entry_create(call, entry, TYPE_BLOOM);
    entry->meta.payload = bloom_encode(call->arena, &bloom);
    return module_read_rows(call, entry, reader, put_filter_row, &bloom);
}

const struct type_functions type_BLOOM_functions = {
    .module = BLOOM_MODULE,
    .save = save_filter,
    .load = load_filter,
    .encoding = encoding_raw,
};
