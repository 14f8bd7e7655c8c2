#include "backend/context/call.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/context/stats.h"
#include "backend/storage/overlay.h"
#include "backend/storage/retry.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/glob.h"
#include "shared/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { ERROR_TEXT_MAX = 512 };

void call_limit_reply(struct call *call)
{
    out_limit(call->reply.out, call->begun + call->partition->snapshot->config.reply_limit_bytes);
}

/* Drops the reply so far, and lifts its limit so that the error fits; returns the limit. */
static size_t error_begin(struct call *call)
{
    struct out *out = call->reply.out;
    size_t limit = out->limit;
    call->failed = true;
    out_limit(out, 0);
    out_truncate(out, call->begun);
    return limit;
}

/* The error is the whole reply, whatever the handler writes behind it. */
static void error_end(struct call *call, size_t limit)
{
    call->error_end = call->reply.out->bytes;
    out_limit(call->reply.out, limit);
}

void call_error_again(struct call *call, const char *text)
{
    size_t limit = error_begin(call);
    reply_error(&call->reply, text);
    error_end(call, limit);
}

void call_error_text(struct call *call, const char *text)
{
    char over[ERROR_TEXT_MAX];
    if (out_is_over(call->reply.out)) { /* the handler's error is a consequence of the limit */
        text = error_text(ERR_REPLY_LIMIT);
    } else if (call->partition->running.budget.end) {
        budget_text(call, over, sizeof over);
        text = over;
    }
    if (!call_retries(call))
        stats_error(call->partition->metrics.stats, text);
    call_error_again(call, text);
}

bool call_refuse_reply(struct call *call)
{
    if (!out_is_over(call->reply.out))
        return false;
    call_error(call, ERR_REPLY_LIMIT);
    return true;
}

void call_error(struct call *call, enum error error)
{
    CHECK(error != ERR_RETRY || call_retries(call));
    call_error_text(call, error_text(error));
}

bool call_rows_end(struct call *call, uint64_t left)
{
    if (left && !call->failed)
        call_error(call, ERR_STORE);
    return !left;
}

void *call_array(struct call *call, uint64_t count, size_t size)
{
    enum { SMALL = 1 << 20 }; /* command-memory is at least so much */
    char text[ERROR_TEXT_MAX];
    size_t max = count <= SMALL / size ? SMALL : budget_memory_max(call);
    if (count <= max / size)
        return arena_alloc(call->arena, count * size);
    budget_memory_text(max, text, sizeof text);
    call_error_text(call, text);
    return NULL;
}

struct retry *call_wait(const struct call *call)
{
    return overlay_retry(call->partition->overlay);
}

bool call_retries(const struct call *call)
{
    return overlay_retries(call->partition->overlay);
}

void call_retry(struct call *call, struct list *list)
{
    retry_wait(call_wait(call), list);
    call_error(call, ERR_RETRY);
}

void call_retry_refused(struct call *call, char *error)
{
    CHECK(error);
    retry_refuse(call_wait(call), error);
    call_error(call, ERR_RETRY);
}

void call_errorf(struct call *call, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call_error_text(call, text);
}

void call_error_arity(struct call *call)
{
    stats_error(call->partition->metrics.stats, "ERR");
    size_t limit = error_begin(call);
    command_error_arity(&call->reply, call->command);
    error_end(call, limit);
}

uint64_t call_bulk_bytes_max(const struct call *call)
{
    return call->partition->snapshot->config.proto_max_bulk_len_bytes;
}

static uint64_t rotate_u64(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

/* xoshiro256**: Blackman and Vigna, https://prng.di.unimi.it/ */
uint64_t call_random(struct call *call)
{
    uint64_t *s = call->partition->running.random_state;
    uint64_t result = rotate_u64(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_u64(s[3], 45);
    return result;
}

bool call_int64(struct call *call, uint32_t index, int64_t *value)
{
    CHECK(index < call->argc);
    if (number_parse_int64(call->argv[index], value))
        return true;
    call_error(call, ERR_NOT_INTEGER);
    return false;
}

bool call_sum(struct call *call, long double value, long double amount, struct bytes *sum)
{
    value += amount;
    if (isnan(value) || isinf(value)) {
        call_error(call, ERR_NAN_INF);
        return false;
    }
    char *text = arena_alloc(call->arena, LONG_DOUBLE_TEXT_MAX);
    *sum = (struct bytes){text, number_format_long_double(text, value)};
    return true;
}

bool call_pattern(struct call *call, uint32_t index)
{
    CHECK(index < call->argc);
    if (glob_is_bounded(call->argv[index]))
        return true;
    call_errorf(call, "ERR pattern is longer than %d bytes", GLOB_PATTERN_MAX);
    return false;
}

bool call_glob_goes_on(void *owner, size_t work)
{
    return call_goes_on(owner, work);
}

struct glob *call_glob(struct call *call, struct bytes pattern)
{
    struct glob *glob = glob_new(call->arena, pattern, false);
    glob_ask(glob, call_glob_goes_on, call);
    return glob;
}

bool call_positive(struct call *call, uint32_t index, const char *error, uint64_t *number)
{
    int64_t value;
    CHECK(index < call->argc);
    if (number_parse_int64(call->argv[index], &value) && value > 0) {
        *number = (uint64_t)value;
        return true;
    }
    call_error_text(call, error);
    return false;
}

bool call_counted_keys(struct call *call, const struct counted_errors *errors,
                       struct counted_keys *keys)
{
    const char *const texts[] = {[COUNTED_NO_NUMBER] = errors->no_number,
                                 [COUNTED_TOO_SMALL] = errors->too_small,
                                 [COUNTED_TOO_LARGE] = errors->too_large};
    enum counted_refusal refusal = counted_keys_find(call->command, call->argv, call->argc, keys);
    if (refusal)
        call_error_text(call, texts[refusal]);
    return !refusal;
}
