#include "backend/format/replica_record.h"

#include "backend/format/xxh3.h"
#include "shared/byte_order.h"
#include "shared/check.h"

static const char MARK[] = "scree replica 1\n";

/* The first bytes of the line of each format. */
enum { MARK_BYTES = sizeof MARK - 1, FAMILY_BYTES = MARK_BYTES - 2, CHECKSUM_BYTES = 8 };

/* Either writes the fields to a block or reads them from it, so that both have one order. */
struct cursor {
    char *to;
    const char *from;
};

static void u32(struct cursor *at, uint32_t *value)
{
    if (at->to) {
        put_le32(at->to, *value);
        at->to += sizeof *value;
    } else {
        *value = get_le32(at->from);
        at->from += sizeof *value;
    }
}

static void u64(struct cursor *at, uint64_t *value)
{
    if (at->to) {
        put_le64(at->to, *value);
        at->to += sizeof *value;
    } else {
        *value = get_le64(at->from);
        at->from += sizeof *value;
    }
}

static void fields(struct cursor *at, uint64_t *number, struct replica_record *record)
{
    u64(at, number);
    u32(at, &record->generation);
    u64(at, &record->group);
    u64(at, &record->id);
    u64(at, &record->starts);
    u64(at, &record->term);
    u64(at, &record->vote);
    u64(at, &record->base);
    u64(at, &record->base_term);
    u64(at, &record->committed);
    u64(at, &record->whole_at);
    u64(at, &record->election_us);
}

static void time_fields(struct cursor *at, struct replica_time *time)
{
    u64(at, &time->group_us);
    u64(at, &time->boot_us);
    u64(at, &time->system_us);
}

static uint64_t block_checksum(const char *block, const char *end)
{
    struct xxh3 hash;
    xxh3_init(&hash);
    xxh3_add(&hash, (struct bytes){block, (size_t)(end - block)});
    return xxh3_result(&hash);
}

void replica_record_write(const struct replica_record *record, uint64_t number,
                          char block[REPLICA_BLOCK_BYTES])
{
    struct replica_record copy = *record;
    struct cursor at = {.to = block + MARK_BYTES};
    memset(block, 0, REPLICA_BLOCK_BYTES);
    memcpy(block, MARK, MARK_BYTES);
    fields(&at, &number, &copy);
    put_le64(at.to, block_checksum(block, at.to));
    at.to += CHECKSUM_BYTES;
    const char *time = at.to;
    time_fields(&at, &copy.time);
    if (copy.time.group_us)
        put_le64(at.to, block_checksum(time, at.to));
}

/* Behind the first checksum. False: it is damaged. */
static bool read_time(const char *from, struct replica_time *time)
{
    struct cursor at = {.from = from};
    time_fields(&at, time);
    uint64_t wanted = time->group_us ? block_checksum(from, at.from) : 0;
    return get_le64(at.from) == wanted;
}

enum replica_read replica_record_read(const char block[REPLICA_BLOCK_BYTES],
                                      struct replica_record *record, uint64_t *number)
{
    struct cursor at = {.from = block + MARK_BYTES};
    if (memcmp(block, MARK, FAMILY_BYTES) != 0)
        return REPLICA_DAMAGED;
    if (memcmp(block, MARK, MARK_BYTES) != 0)
        return REPLICA_NEWER;
    fields(&at, number, record);
    bool is_whole = get_le64(at.from) == block_checksum(block, at.from) &&
                    read_time(at.from + CHECKSUM_BYTES, &record->time);
    return is_whole ? REPLICA_READ : REPLICA_DAMAGED;
}
