#include "backend/peer/frame.h"

#include "backend/context/hybrid_clock.h"
#include "backend/format/xxh3.h"
#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/out.h"

#include <ctype.h>

enum {
    IDENTITY_FORMAT = 1,
    IDENTITY_FIXED_BYTES = 25,
    PORTS_BYTES = 4,
    LISTENS_BYTES = 1,
    CLOCK_BYTES = 8,
    LEADERSHIP_BYTES = 12,
    COPY_BYTES = 17,
    LOG_ID_BYTES = 8,
};

void peer_frame_write(struct out *out, const struct peer_frame *frame)
{
    char header[PEER_FRAME_HEADER_BYTES] = {0};
    struct bytes payload = frame->payload;
    CHECK(payload.len <= PEER_PAYLOAD_MAX);
    put_le32(header, (uint32_t)payload.len);
    header[4] = (char)frame->kind;
    put_le64(header + 8, frame->id);
    put_le64(header + 16, frame->hybrid);
    out_write(out, header, sizeof header);
    out_write(out, payload.data, payload.len);
}

enum peer_decoded peer_frame_read(const char *data, size_t len, struct peer_frame *frame,
                                  size_t *size)
{
    *size = 0;
    if (len < PEER_FRAME_HEADER_BYTES)
        return PEER_FRAME_MORE;
    uint32_t payload_len = get_le32(data);
    uint64_t hybrid = get_le64(data + 16);
    if (payload_len > PEER_PAYLOAD_MAX || data[4] == 0 || data[5] || data[6] || data[7] ||
        hybrid > HYBRID_MAX)
        return PEER_FRAME_BAD;
    *size = PEER_FRAME_HEADER_BYTES + payload_len;
    if (len < *size)
        return PEER_FRAME_MORE;
    *frame = (struct peer_frame){
        .kind = (uint8_t)data[4],
        .id = get_le64(data + 8),
        .hybrid = hybrid,
        .payload = {data + PEER_FRAME_HEADER_BYTES, payload_len},
    };
    return PEER_FRAME_WHOLE;
}

/* ---- identity ---- */

int peer_leadership_compare(const struct peer_leadership *left, const struct peer_leadership *right)
{
    if (left->generation != right->generation)
        return left->generation < right->generation ? -1 : 1;
    return (left->term > right->term) - (left->term < right->term);
}

static size_t write_copies(char *to, const struct peer_copies *copies)
{
    char *at = to + 1;
    to[0] = (char)copies->count;
    for (unsigned i = 0; i < copies->count; i++, at += COPY_BYTES) {
        put_le64(at, copies->of[i].address);
        at[8] = (char)copies->of[i].is_up;
        put_le64(at + 9, copies->of[i].applied);
    }
    return (size_t)(at - to);
}

/* A newer version may send more of them than this one knows: then none are read. Returns their bytes. */
static size_t read_copies(struct bytes from, struct peer_copies *copies)
{
    size_t count = from.len ? (uint8_t)from.data[0] : 0;
    size_t bytes = 1 + count * COPY_BYTES;
    if (count > PEER_COPIES_MAX || from.len < bytes)
        return bytes;
    copies->count = (uint8_t)count;
    for (size_t i = 0; i < count; i++) {
        const char *at = from.data + 1 + i * COPY_BYTES;
        copies->of[i] = (struct peer_copy){
            .address = get_le64(at), .is_up = at[8] == 1, .applied = get_le64(at + 9)};
    }
    return bytes;
}

uint64_t peer_address_hash(const char *address)
{
    char lower[PEER_ADDRESS_MAX + 1];
    struct xxh3 hash;
    size_t len = 0;
    for (; len < PEER_ADDRESS_MAX && address[len]; len++)
        lower[len] = (char)tolower((unsigned char)address[len]);
    xxh3_init(&hash);
    xxh3_add(&hash, (struct bytes){lower, len});
    return xxh3_result(&hash);
}

const struct peer_copy *peer_copies_find(const struct peer_copies *copies, const char *address)
{
    uint64_t hash = copies->count ? peer_address_hash(address) : 0;
    for (unsigned i = 0; i < copies->count; i++)
        if (copies->of[i].address == hash)
            return &copies->of[i];
    return NULL;
}

static size_t write_short_text(char *to, const char *text)
{
    size_t len = strlen(text);
    CHECK(len <= UINT8_MAX);
    to[0] = (char)len;
    memcpy(to + 1, text, len);
    return 1 + len;
}

size_t peer_identity_write(const struct peer_identity *identity, char to[PEER_IDENTITY_MAX])
{
    size_t at = IDENTITY_FIXED_BYTES;
    to[0] = IDENTITY_FORMAT;
    put_le64(to + 1, identity->map_epoch);
    put_le64(to + 9, identity->map_hash);
    put_le64(to + 17, identity->log_index);
    at += write_short_text(to + at, identity->run_id);
    at += write_short_text(to + at, identity->shard);
    at += write_short_text(to + at, identity->address);
    at += write_short_text(to + at, identity->version);
    put_le16(to + at, identity->port);
    put_le16(to + at + 2, identity->tls_port);
    at += PORTS_BYTES;
    to[at] = (char)identity->listens;
    at += LISTENS_BYTES;
    put_le64(to + at, identity->wall_us);
    at += CLOCK_BYTES;
    put_le32(to + at, identity->leadership.generation);
    put_le64(to + at + 4, identity->leadership.term);
    at += LEADERSHIP_BYTES;
    at += write_copies(to + at, &identity->copies);
    put_le64(to + at, identity->log_id);
    return at + LOG_ID_BYTES;
}

/* Is the text printable ASCII without the characters that separate fields in INFO and in the log? */
static bool is_plain(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~' || strchr(",=\"\\", text.data[i]))
            return false;
    return true;
}

static bool read_short_text(struct bytes *from, char *to, size_t max)
{
    size_t len = from->len ? (uint8_t)from->data[0] : 0;
    struct bytes text = {from->data + 1, len};
    if (from->len < 1 + len || len > max || !is_plain(text))
        return false;
    memcpy(to, text.data, len);
    to[len] = 0;
    from->data += 1 + len;
    from->len -= 1 + len;
    return true;
}

/* What older versions do not send is zero. */
static void read_tail(struct bytes from, struct peer_identity *identity)
{
    char tail[PORTS_BYTES + LISTENS_BYTES + CLOCK_BYTES + LEADERSHIP_BYTES] = {0};
    const char *listens = tail + PORTS_BYTES;
    const char *clock = listens + LISTENS_BYTES;
    const char *leadership = clock + CLOCK_BYTES;
    memcpy(tail, from.data, from.len < sizeof tail ? from.len : sizeof tail);
    identity->port = get_le16(tail);
    identity->tls_port = get_le16(tail + 2);
    identity->listens = *listens == 1;
    identity->wall_us = get_le64(clock);
    identity->leadership.generation = get_le32(leadership);
    identity->leadership.term = get_le64(leadership + 4);
    identity->copies.count = 0;
    identity->log_id = 0;
    if (from.len <= sizeof tail)
        return;
    struct bytes rest = {from.data + sizeof tail, from.len - sizeof tail};
    size_t copies_len = read_copies(rest, &identity->copies);
    if (rest.len >= copies_len + LOG_ID_BYTES)
        identity->log_id = get_le64(rest.data + copies_len);
}

bool peer_identity_read(struct bytes from, struct peer_identity *identity)
{
    if (from.len < IDENTITY_FIXED_BYTES || from.len > PEER_IDENTITY_MAX ||
        from.data[0] != IDENTITY_FORMAT)
        return false;
    identity->map_epoch = get_le64(from.data + 1);
    identity->map_hash = get_le64(from.data + 9);
    identity->log_index = get_le64(from.data + 17);
    from.data += IDENTITY_FIXED_BYTES;
    from.len -= IDENTITY_FIXED_BYTES;
    bool is_good = read_short_text(&from, identity->run_id, PEER_RUN_ID_MAX) &&
                   read_short_text(&from, identity->shard, SHARD_NAME_MAX) &&
                   read_short_text(&from, identity->address, PEER_ADDRESS_MAX) &&
                   read_short_text(&from, identity->version, PEER_VERSION_MAX);
    if (is_good)
        read_tail(from, identity);
    return is_good;
}
