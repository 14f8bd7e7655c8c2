#include "backend/keyspace/due_count.h"

#include "backend/format/encoding.h"

enum { STEP_ROWS = 256, COUNT_MAX = 1000000, PASS_MS = 10000 };

void due_count_init(struct due_count *count, struct partition *partition,
                    void (*on_rows)(void *owner), void *owner)
{
    *count = (struct due_count){.keys = 0};
    range_rows_init(&count->rows, partition, on_rows, owner);
}

void due_count_fini(struct due_count *count)
{
    range_rows_fini(&count->rows);
}

void due_count_restart(struct due_count *count)
{
    range_rows_close(&count->rows);
    count->keys = count->next_ms = 0;
}

static void begin_count(struct due_count *count, uint64_t from_ms, uint64_t now_ms, uint64_t taken)
{
    struct arena arena;
    arena_init(&arena);
    range_rows_open(&count->rows, CF_EXPIRE, encode_u64(&arena, from_ms),
                    encode_u64(&arena, now_ms));
    arena_fini(&arena);
    count->from_ms = count->last_ms = from_ms;
    count->to_ms = now_ms;
    count->counted = 0;
    count->taken_before = taken;
}

static void end_count(struct due_count *count, enum rows_step step, uint64_t now_ms)
{
    range_rows_close(&count->rows);
    count->next_ms = now_ms + PASS_MS;
    count->keys = count->counted;
    count->keys_taken = count->taken_before;
    if (step == ROWS_ROW && count->last_ms > count->from_ms)
        count->keys = (uint64_t)((double)count->counted * (double)(count->to_ms - count->from_ms) /
                                 (double)(count->last_ms - count->from_ms));
}

void due_count_step(struct due_count *count, uint64_t from_ms, uint64_t now_ms, uint64_t taken)
{
    enum rows_step step = ROWS_ROW;
    struct bytes key;
    struct bytes value;
    struct bytes row_key;
    if (!range_rows_is_open(&count->rows)) {
        if (now_ms < count->next_ms)
            return;
        begin_count(count, from_ms, now_ms, taken);
    }
    for (int i = 0;
         i < STEP_ROWS && (step = range_rows_next(&count->rows, &key, &value)) == ROWS_ROW; i++) {
        count->counted++;
        (void)decode_expire_key(key, &count->last_ms, &row_key);
    }
    if (step == ROWS_END || step == ROWS_FAILED || count->counted >= COUNT_MAX)
        end_count(count, step, now_ms);
}

uint64_t due_count_keys(const struct due_count *count, uint64_t taken)
{
    uint64_t since = taken - count->keys_taken;
    return since < count->keys ? count->keys - since : 0;
}
