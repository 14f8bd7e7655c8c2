/*
 * fuzz_hll.c - damaged HyperLogLogs: merging, raising a register and converting to dense end with a result, and never
 * read beyond the value. A valid value stays valid and keeps the register that was raised.
 *
 * Input: two bytes of a register's index, one of a rank, then the value.
 */
#include "backend/format/hll.h"
#include "shared/check.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_raise(struct arena *arena, struct bytes value, uint32_t index, uint8_t rank)
{
    uint8_t before[HLL_REGISTERS] = {0};
    uint8_t after[HLL_REGISTERS] = {0};
    struct hll hll;
    bool is_whole = hll_merge(before, value);
    hll_init_copy(&hll, arena, value);
    enum hll_change change = hll_raise(&hll, index, rank, value.len + 2);
    if (!is_whole)
        return;
    CHECK(change != HLL_BAD && (change == HLL_CHANGED) == (rank > before[index]));
    CHECK(hll_merge(after, hll_bytes(&hll)));
    if (rank > before[index])
        before[index] = rank;
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK(hll_make_dense(&hll) && hll.len == HLL_DENSE_BYTES);
    (void)hll_count(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct hll_run run;
    struct hll hll;
    size_t at = HLL_HEADER_BYTES;
    if (size < 3)
        return 0;
    uint32_t index = (data[0] << 8 | data[1]) % HLL_REGISTERS;
    uint8_t rank = (uint8_t)(1 + data[2] % 51);
    struct bytes value = {(const char *)data + 3, size - 3};
    if (value.len < HLL_HEADER_BYTES || !hll_is_header(value.data, value.len))
        return 0;
    arena_init(&arena);
    while (hll_encoding(value.data) == HLL_SPARSE && hll_run_next(value, &at, &run))
        CHECK(run.length >= 1 && run.length <= HLL_REGISTERS);
    hll_init_copy(&hll, &arena, value);
    (void)hll_make_dense(&hll);
    check_raise(&arena, value, index, rank);
    arena_fini(&arena);
    return 0;
}
