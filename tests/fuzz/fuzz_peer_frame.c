/*
 * fuzz_peer_frame.c - peer/frame.h: reading any bytes never goes beyond them; a whole frame or identity that is written
 * again is read as an equal one.
 */
#include "backend/peer/frame.h"
#include "shared/check.h"
#include "shared/out.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_identity(struct bytes input)
{
    struct peer_identity identity, again;
    char bytes[PEER_IDENTITY_MAX];
    if (!peer_identity_read(input, &identity))
        return;
    CHECK(peer_identity_read((struct bytes){bytes, peer_identity_write(&identity, bytes)}, &again));
    CHECK(strcmp(identity.run_id, again.run_id) == 0 && strcmp(identity.shard, again.shard) == 0);
    CHECK(strcmp(identity.address, again.address) == 0 && identity.map_hash == again.map_hash);
    CHECK(strcmp(identity.version, again.version) == 0 && identity.log_index == again.log_index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    struct peer_frame frame;
    size_t used;
    check_identity((struct bytes){at, size});
    while (peer_frame_read(at, size, &frame, &used) == PEER_FRAME_WHOLE) {
        struct out out;
        out_init(&out);
        peer_frame_write(&out, &frame);
        CHECK(out.bytes == used);
        char *bytes = malloc(used);
        CHECK(bytes);
        out_copy(&out, bytes);
        CHECK(memcmp(bytes, at, used) == 0);
        free(bytes);
        out_clear(&out);
        check_identity(frame.payload);
        at += used;
        size -= used;
    }
    return 0;
}
