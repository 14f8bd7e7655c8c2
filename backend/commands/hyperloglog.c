/*
 * hyperloglog.c - PFADD, PFCOUNT, PFMERGE and Redis' debugging commands, on strings that hold a HyperLogLog.
 *
 * A sparse value is short and is replaced as a whole. A dense value is changed in place, register by register: text.h
 * stores it in fragments, so that a new element rewrites only one fragment and the one of the header.
 */
#include "backend/commands/equal_words.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/hll.h"
#include "backend/keyspace/space.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"

#include <stdio.h>

static void error_damaged(struct call *call)
{
    call_error_text(call, "INVALIDOBJ Corrupted HLL object detected");
}

static uint64_t sparse_bytes_max(const struct call *call)
{
    return (uint64_t)config_snapshot_number(call->partition->snapshot, "hll-sparse-max-bytes");
}

/* Opens a key that holds a HyperLogLog or does not exist, and reads the header. */
static bool hll_open(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry,
                     char header[HLL_HEADER_BYTES])
{
    if (!keyspace_open_type(call, call->argv[index], TYPE_STRING, flags, entry))
        return false;
    if (!entry->exists)
        return true;
    if (!text_copy(call, entry, 0, HLL_HEADER_BYTES, header))
        return false;
    if (hll_is_header(header, text_len(entry)))
        return true;
    call_error_text(call, "WRONGTYPE Key is not a valid HyperLogLog string value.");
    return false;
}

/* Reads the value of an open HyperLogLog into memory, or creates a new one. */
static bool hll_load(struct call *call, struct entry *entry, struct hll *hll)
{
    struct bytes value;
    if (!entry->exists) {
        hll_init(hll, call->arena);
        return true;
    }
    if (!text_value(call, entry, &value))
        return false;
    hll_init_copy(hll, call->arena, value);
    return true;
}

/* Stores a changed value. A dense value in fragments is overwritten in place. */
static bool hll_store(struct call *call, struct entry *entry, struct hll *hll)
{
    if (entry->meta.type == TYPE_BITMAP && text_len(entry) == hll->len)
        return text_write(call, entry, 0, hll_bytes(hll));
    text_replace(call, entry, hll_bytes(hll));
    return true;
}

/* ---- PFADD ---- */

/* Work of an element, besides its bytes: a sparse value's runs are read from the first on. */
enum { DENSE_WORK = 10, SPARSE_WORK = 50 };

/* Adds the elements to a dense value in place. False: an error was replied. */
static bool add_in_place(struct call *call, struct entry *entry, char *header, int64_t *changed)
{
    for (uint32_t i = 2; i < call->argc; i++) {
        uint32_t index;
        uint8_t rank;
        char bytes[2];
        if (!call_goes_on(call, DENSE_WORK + call->argv[i].len / 64))
            return false;
        hll_hash(call->argv[i], &index, &rank);
        struct hll_place place = hll_place(index);
        if (!text_copy(call, entry, place.byte, place.bytes, bytes))
            return false;
        if (hll_place_get(bytes, place) >= rank)
            continue;
        hll_place_set(bytes, place, rank);
        ++*changed;
        if (!text_write(call, entry, place.byte, (struct bytes){bytes, place.bytes}))
            return false;
    }
    hll_uncache(header);
    return !*changed || text_write(call, entry, HLL_CACHE_AT,
                                   (struct bytes){header + HLL_CACHE_AT, HLL_CACHE_BYTES});
}

/* Adds the elements to a sparse or new value. False: an error was replied. */
static bool add_in_memory(struct call *call, struct entry *entry, int64_t *changed)
{
    struct hll hll;
    uint64_t bytes_max = sparse_bytes_max(call);
    if (!hll_load(call, entry, &hll))
        return false;
    *changed = !entry->exists;
    for (uint32_t i = 2; i < call->argc; i++) {
        uint32_t index;
        uint8_t rank;
        if (!call_goes_on(call, SPARSE_WORK + call->argv[i].len / 64))
            return false;
        hll_hash(call->argv[i], &index, &rank);
        enum hll_change change = hll_raise(&hll, index, rank, bytes_max);
        if (change == HLL_BAD) {
            error_damaged(call);
            return false;
        }
        *changed += change == HLL_CHANGED;
    }
    hll_uncache(hll.data);
    return !*changed || hll_store(call, entry, &hll);
}

void cmd_pfadd(struct call *call)
{
    struct entry entry;
    char header[HLL_HEADER_BYTES];
    int64_t changed = 0;
    if (!hll_open(call, 1, OPEN_WRITE, &entry, header))
        return;
    uint64_t before = space_changes(call->partition->spaces);
    bool fine = entry.exists && hll_encoding(header) == HLL_DENSE
                    ? add_in_place(call, &entry, header, &changed)
                    : add_in_memory(call, &entry, &changed);
    if (!fine)
        return;
    call_changes(call, changed - (int64_t)(space_changes(call->partition->spaces) - before));
    if (changed)
        notify(call, NOTIFY_STRING, "pfadd", entry.key);
    reply_int(&call->reply, changed > 0);
}

/* ---- PFCOUNT, PFMERGE ---- */

/* Raises `registers` to those of an open HyperLogLog. False: an error was replied. */
static bool merge_value(struct call *call, struct entry *entry, char *buffer, uint8_t *registers)
{
    struct bytes value = {buffer, (size_t)text_len(entry)};
    if (value.len > HLL_DENSE_BYTES) {
        if (!text_value(call, entry, &value))
            return false;
    } else if (!text_copy(call, entry, 0, value.len, buffer)) {
        return false;
    }
    if (hll_merge(registers, value))
        return true;
    error_damaged(call);
    return false;
}

enum { MERGE_WORK = 1500 };

/* Merges the HyperLogLog in this argument, unless it was merged before (is_again). False: an error was replied. */
static bool merge_key(struct call *call, uint32_t index, bool is_again, char *buffer,
                      uint8_t *registers, bool *any_dense)
{
    struct entry entry;
    char header[HLL_HEADER_BYTES];
    if (!call_goes_on(call, is_again ? 0 : MERGE_WORK) ||
        !hll_open(call, index, OPEN_READ, &entry, header))
        return false;
    if (!entry.exists || is_again)
        return true;
    *any_dense = *any_dense || hll_encoding(header) == HLL_DENSE;
    return merge_value(call, &entry, buffer, registers);
}

/* Merges the HyperLogLogs of all key arguments; a key that is given several times is read once. NULL: an error was replied. */
static uint8_t *merge_registers(struct call *call, bool *any_dense)
{
    uint8_t *registers = arena_alloc(call->arena, HLL_REGISTERS);
    char *buffer = arena_alloc(call->arena, HLL_DENSE_BYTES);
    const uint32_t *first = first_of_equal(call->arena, call->argv + 1, call->argc - 1);
    memset(registers, 0, HLL_REGISTERS);
    *any_dense = false;
    for (uint32_t i = 0; i + 1 < call->argc; i++) {
        struct call_mark mark = keyspace_mark(call);
        if (!merge_key(call, i + 1, first[i] != i, buffer, registers, any_dense))
            return NULL;
        keyspace_release(call, &mark);
    }
    return registers;
}

/* Stores the count in the header, so that it is not computed again until the value changes. */
static bool cache_count(struct call *call, struct entry *entry, char *header, uint64_t count)
{
    if (commit_is_failed(call->partition->commit, NULL))
        return true;
    hll_cache(header, count);
    return text_write(call, entry, HLL_CACHE_AT,
                      (struct bytes){header + HLL_CACHE_AT, HLL_CACHE_BYTES});
}

void cmd_pfcount(struct call *call)
{
    struct entry entry;
    char header[HLL_HEADER_BYTES];
    uint64_t count = 0;
    bool any_dense;
    bool is_one = call->argc == 2;
    if (is_one && !hll_open(call, 1, OPEN_READ, &entry, header))
        return;
    if (!is_one || (entry.exists && !hll_cached(header, &count))) {
        uint8_t *registers = merge_registers(call, &any_dense);
        if (!registers)
            return;
        count = hll_count(registers);
        if (is_one && !cache_count(call, &entry, header, count))
            return;
    }
    reply_int(&call->reply, (int64_t)count);
}

void cmd_pfmerge(struct call *call)
{
    struct entry entry;
    struct hll hll;
    char header[HLL_HEADER_BYTES];
    bool any_dense;
    uint64_t bytes_max = sparse_bytes_max(call);
    const uint8_t *registers = merge_registers(call, &any_dense);
    if (!registers || !hll_open(call, 1, OPEN_WRITE, &entry, header) ||
        !hll_load(call, &entry, &hll))
        return;
    bool fine = !any_dense || hll_make_dense(&hll);
    for (uint32_t i = 0; fine && i < HLL_REGISTERS; i++)
        if (registers[i])
            fine = hll_raise(&hll, i, registers[i], bytes_max) != HLL_BAD;
    if (!fine) {
        error_damaged(call);
        return;
    }
    hll_uncache(hll.data);
    if (!hll_store(call, &entry, &hll))
        return;
    notify(call, NOTIFY_STRING, "pfadd", entry.key);
    reply_ok(&call->reply);
}

/* ---- PFDEBUG, PFSELFTEST ---- */

/* Makes the key's value dense and stores it. */
static bool debug_make_dense(struct call *call, struct entry *entry, struct hll *hll)
{
    if (hll_encoding(hll->data) == HLL_DENSE)
        return true;
    if (hll_make_dense(hll))
        return hll_store(call, entry, hll);
    error_damaged(call);
    return false;
}

static void debug_registers(struct call *call, const struct hll *hll)
{
    reply_array(&call->reply, HLL_REGISTERS);
    for (uint32_t i = 0; i < HLL_REGISTERS; i++) {
        struct hll_place place = hll_place(i);
        reply_int(&call->reply, hll_place_get(hll->data + place.byte, place));
    }
}

static void debug_decode(struct call *call, const struct hll *hll)
{
    enum { RUN_TEXT_MAX = 16 }; /* "Z:16384 " */
    struct hll_run run;
    size_t at = HLL_HEADER_BYTES;
    size_t len = 0;
    if (hll_encoding(hll->data) == HLL_DENSE) {
        call_error_text(call, "ERR HLL encoding is not sparse");
        return;
    }
    char *text = arena_alloc(call->arena, (hll->len - at + 1) * RUN_TEXT_MAX);
    while (hll_run_next(hll_bytes(hll), &at, &run)) {
        const char *space = len ? " " : "";
        int more =
            run.kind == 'v'
                ? snprintf(text + len, RUN_TEXT_MAX, "%sv:%u,%u", space, run.value, run.length)
                : snprintf(text + len, RUN_TEXT_MAX, "%s%c:%u", space, run.kind, run.length);
        len += (size_t)more;
    }
    reply_bulk(&call->reply, (struct bytes){text, len});
}

void cmd_pfdebug(struct call *call)
{
    struct entry entry;
    struct hll hll;
    char header[HLL_HEADER_BYTES];
    struct bytes what = call->argv[1];
    if (!hll_open(call, 2, OPEN_WRITE, &entry, header))
        return;
    if (!entry.exists) {
        call_error_text(call, "ERR The specified key does not exist");
        return;
    }
    if (!hll_load(call, &entry, &hll))
        return;
    bool is_sparse = hll_encoding(header) == HLL_SPARSE;
    if (bytes_is(what, "getreg")) {
        if (debug_make_dense(call, &entry, &hll))
            debug_registers(call, &hll);
    } else if (bytes_is(what, "decode")) {
        debug_decode(call, &hll);
    } else if (bytes_is(what, "encoding")) {
        reply_status(&call->reply, is_sparse ? "sparse" : "dense");
    } else if (bytes_is(what, "todense")) {
        if (debug_make_dense(call, &entry, &hll))
            reply_int(&call->reply, is_sparse);
    } else {
        call_errorf(call, "ERR Unknown PFDEBUG subcommand '%.*s'", (int)what.len, what.data);
    }
}

/* Adds numbers to a value that begins sparse and to a dense one: both counts must be equal and near the true count. */
void cmd_pfselftest(struct call *call)
{
    enum { NUMBERS = 100000, SPARSE_MAX = 3000 };
    uint8_t registers[2][HLL_REGISTERS] = {{0}};
    struct hll hlls[2];
    bool fine = true;
    for (int k = 0; k < 2; k++)
        hll_init(&hlls[k], call->arena);
    fine = hll_make_dense(&hlls[1]);
    for (uint64_t number = 1; fine && number <= NUMBERS; number++) {
        uint32_t index;
        uint8_t rank;
        hll_hash((struct bytes){(const char *)&number, sizeof number}, &index, &rank);
        enum hll_change change = hll_raise(&hlls[0], index, rank, SPARSE_MAX);
        fine = change != HLL_BAD && change == hll_raise(&hlls[1], index, rank, SPARSE_MAX);
    }
    for (int k = 0; k < 2; k++)
        fine = fine && hll_merge(registers[k], hll_bytes(&hlls[k]));
    fine = fine && memcmp(registers[0], registers[1], HLL_REGISTERS) == 0;
    int64_t error = (int64_t)hll_count(registers[0]) - NUMBERS;
    if (fine && error < NUMBERS / 25 && error > -NUMBERS / 25)
        reply_ok(&call->reply);
    else
        call_error_text(call, "ERR PFSELFTEST failed: the counts of sparse and dense values "
                              "differ, or are too far from the true count");
}
