/*
 * micro_resp.c - cost of one frame on the hot path: nanoseconds per frame, the best of several rounds.
 *
 *   micro_resp          prints one line per case
 */
#include "shared/clock.h"
#include "shared/resp.h"
#include "shared/slot.h"
#include "shared/table.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20, PASSES = 200, FRAMES = 1000, FRAME_MAX = 2048 };

static const struct resp_limits limits = {
    .bulk_bytes_max = 512u << 20, .args_max = INT32_MAX, .inline_bytes_max = 64 * 1024};

/* A measured case: passes once over the pipeline and returns a value that depends on every frame. */
typedef uint64_t pass_fn(const char *data, size_t len);

static uint64_t pass_scan(const char *data, size_t len)
{
    static struct resp_scan scan;
    uint64_t sum = 0;
    size_t at = 0;
    while (at < len && resp_scan(&scan, &limits, data + at, len - at) == RESP_FRAME) {
        sum += scan.args[scan.argc - 1].len;
        at += scan.size;
    }
    return sum;
}

static uint64_t pass_skip(const char *data, size_t len)
{
    struct resp_skip skip = {0};
    uint64_t sum = 0;
    size_t at = 0;
    while (at < len && resp_skip(&skip, data + at, len - at) == RESP_FRAME) {
        sum += skip.size;
        at += skip.size;
    }
    return sum;
}

static uint64_t pass_slot(const char *data, size_t len)
{
    uint64_t sum = 0;
    size_t key = len / FRAMES;
    for (size_t at = 0; at + key <= len; at += key)
        sum += slot_of((struct bytes){data + at, key});
    return sum;
}

static uint64_t pass_hash(const char *data, size_t len)
{
    uint64_t sum = 0;
    size_t key = len / FRAMES;
    for (size_t at = 0; at + key <= len; at += key)
        sum += hash_bytes((struct bytes){data + at, key});
    return sum;
}

static void measure(const char *name, pass_fn *pass, const char *one)
{
    static char data[FRAMES * FRAME_MAX];
    static volatile uint64_t sink;
    size_t len = 0;
    for (int i = 0; i < FRAMES; i++) {
        memcpy(data + len, one, strlen(one));
        len += strlen(one);
    }
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = clock_mono_us();
        for (int i = 0; i < PASSES; i++)
            sink = sink + pass(data, len);
        uint64_t spent = clock_mono_us() - start;
        if (spent < best)
            best = spent;
    }
    printf("%-44s %6.1f ns\n", name, (double)best * 1000 / (PASSES * FRAMES));
}

int main(void)
{
    char array[FRAME_MAX] = "*100\r\n";
    for (int i = 0; i < 100; i++)
        strcat(array, "$9\r\nvalue-123\r\n");

    measure("resp_scan  SET key:0000000001 <16 bytes>", pass_scan,
            "*3\r\n$3\r\nSET\r\n$14\r\nkey:0000000001\r\n$16\r\n0123456789abcdef\r\n");
    measure("resp_scan  GET key:0000000001", pass_scan,
            "*2\r\n$3\r\nGET\r\n$14\r\nkey:0000000001\r\n");
    measure("resp_scan  100 arguments of 9 bytes", pass_scan, array);
    measure("resp_scan  PING inline", pass_scan, "PING\r\n");
    measure("resp_skip  +OK", pass_skip, "+OK\r\n");
    measure("resp_skip  :1", pass_skip, ":1\r\n");
    measure("resp_skip  $16", pass_skip, "$16\r\n0123456789abcdef\r\n");
    measure("resp_skip  array of 100 bulks of 9 bytes", pass_skip, array);
    measure("slot_of    14 bytes", pass_slot, "key:0000000001");
    measure("slot_of    {tag} in 24 bytes", pass_slot, "user:{0000000001}:cart:7");
    measure("slot_of    40 bytes", pass_slot, "a-somewhat-longer-key-of-forty-bytes:001");
    measure("hash_bytes 14 bytes", pass_hash, "key:0000000001");
    measure("hash_bytes 40 bytes", pass_hash, "a-somewhat-longer-key-of-forty-bytes:001");
    return 0;
}
