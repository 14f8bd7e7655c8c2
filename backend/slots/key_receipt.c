#include "backend/slots/key_receipt.h"

#include "backend/context/partition.h"
#include "backend/format/slot_record.h"
#include "backend/peer/message.h"
#include "backend/session/internal_call.h"

#include <stdlib.h>
#include <string.h>

static struct bytes copy_results(struct bytes results)
{
    char *copy = malloc(results.len + 1);
    CHECK(copy);
    memcpy(copy, results.data, results.len);
    return (struct bytes){copy, results.len};
}

enum key_receipt key_receipt_find(struct partition *partition, const char *shard, uint64_t number,
                                  struct bytes *results)
{
    struct arena arena;
    struct slice value;
    *results = (struct bytes){NULL, 0};
    arena_init(&arena);
    int err = overlay_get(partition->overlay, CF_SYSTEM,
                          encode_key_receipt_key(&arena, bytes_of(shard)), &value);
    arena_fini(&arena);
    if (err != OK)
        return err == ERR_NOT_FOUND ? RECEIPT_NEW : RECEIPT_FAILED;
    struct message_reader reader = message_read(slice_bytes(&value));
    uint64_t last = message_u64(&reader);
    if (last == number)
        *results = copy_results(message_bytes(&reader));
    slice_release(&value);
    return number <= last ? RECEIPT_HAD : RECEIPT_NEW;
}

void key_receipt_keep(struct partition *partition, const char *shard, uint64_t number,
                      struct bytes results)
{
    struct call call;
    struct out out;
    internal_call_begin(partition, &call);
    out_init(&out);
    message_put_u64(&out, number);
    message_put_bytes(&out, results);
    struct bytes row = {arena_alloc(call.arena, out.bytes), out.bytes};
    out_copy(&out, (char *)row.data);
    out_clear(&out);
    overlay_put(partition->overlay, CF_SYSTEM, encode_key_receipt_key(call.arena, bytes_of(shard)),
                row);
    internal_call_end(partition, &call);
}
