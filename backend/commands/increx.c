/*
 * increx.c - INCREX: adds to a number within bounds, and sets its time to live.
 *
 *   value + increment ── within the bounds ──────────► stored; reply [new value, increment]
 *                     └─ outside, with SATURATE ─────► the bound is stored; reply [bound, bound - value]
 *                     └─ outside ────────────────────► nothing changes; reply [value, 0]
 */
#include "backend/commands/string_options.h"
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "shared/number.h"

#include <float.h>
#include <math.h>

/* A number: an integer, or with BYFLOAT a floating-point number. */
union count {
    int64_t whole;
    long double real;
};

struct increase {
    bool is_float;
    bool saturates;
    bool only_new_ttl; /* ENX */
    uint32_t by_at;    /* arguments; 0: not given */
    uint32_t low_at;
    uint32_t high_at;
    union count by, low, high;
    struct set_options options;
};

static bool refuse_increase(struct call *call, const char *text)
{
    call_error_text(call, text);
    return false;
}

/* ---- arguments ---- */

/* Parses the option at *i and sets *i to its last argument. */
static bool increase_option(struct call *call, uint32_t *i, struct increase *increase)
{
    struct bytes word = call->argv[*i];
    bool by_float = bytes_is(word, "byfloat");
    uint32_t *at = NULL;
    if (by_float || bytes_is(word, "byint"))
        at = &increase->by_at;
    else if (bytes_is(word, "lbound"))
        at = &increase->low_at;
    else if (bytes_is(word, "ubound"))
        at = &increase->high_at;
    if (at) {
        bool is_new = *at == 0 && *i + 1 < call->argc;
        increase->is_float |= by_float;
        *at = ++*i;
        return is_new || (call_error(call, ERR_SYNTAX), false);
    }
    bool *flag = bytes_is(word, "saturate") ? &increase->saturates
                 : bytes_is(word, "enx")    ? &increase->only_new_ttl
                                            : NULL;
    if (flag) {
        bool is_new = !*flag;
        *flag = true;
        return is_new || (call_error(call, ERR_SYNTAX), false);
    }
    /* Unlike SET, INCREX refuses an option twice. */
    int parsed = increase->options.flags
                     ? 0
                     : set_option_parse(call, i, OPTIONS_OF_GETEX, &increase->options);
    if (parsed == 0)
        call_error(call, ERR_SYNTAX);
    return parsed == 1;
}

/* Parses the number at `index`, called `name` in errors; 0: it was not given. Only bounds may be infinite. */
static bool increase_number(struct call *call, const struct increase *increase, uint32_t index,
                            const char *name, union count *count)
{
    bool is_float = increase->is_float;
    if (!index)
        return true;
    bool is_good = is_float ? number_parse_long_double(call->argv[index], &count->real)
                            : number_parse_int64(call->argv[index], &count->whole);
    if (is_good && is_float && index == increase->by_at)
        is_good = isfinite(count->real);
    if (!is_good)
        call_errorf(call, "ERR %s is not %s", name,
                    is_float ? "a valid float" : "an integer or out of range");
    return is_good;
}

static bool increase_parse(struct call *call, struct increase *increase)
{
    *increase = (struct increase){0};
    for (uint32_t i = 2; i < call->argc; i++)
        if (!increase_option(call, &i, increase))
            return false;
    if (increase->only_new_ttl && increase->options.flags & SET_PERSIST) {
        call_error(call, ERR_SYNTAX);
        return false;
    }
    bool is_float = increase->is_float;
    if (is_float) {
        increase->low.real = -LDBL_MAX;
        increase->high.real = LDBL_MAX;
    } else {
        increase->by.whole = 1;
        increase->low.whole = INT64_MIN;
        increase->high.whole = INT64_MAX;
    }
    if (!increase_number(call, increase, increase->by_at, "Increment", &increase->by) ||
        !increase_number(call, increase, increase->low_at, "LBOUND", &increase->low) ||
        !increase_number(call, increase, increase->high_at, "UBOUND", &increase->high))
        return false;
    if (is_float ? increase->low.real > increase->high.real
                 : increase->low.whole > increase->high.whole)
        return refuse_increase(call, "ERR LBOUND can't be greater than UBOUND");
    return !increase->only_new_ttl || increase->options.expire_at ||
           refuse_increase(call, "ERR ENX flag requires an expiration");
}

/* ---- the sum ---- */

/* Computes the new value and the real increment. *changes: false when the sum is out of bounds. False: an error was
 * replied. */
static bool add_whole(struct call *call, const struct increase *increase, int64_t old,
                      union count *sum, union count *delta, bool *changes)
{
    bool overflows = __builtin_add_overflow(old, increase->by.whole, &sum->whole);
    bool is_high = overflows ? increase->by.whole > 0 : sum->whole > increase->high.whole;
    bool is_low = overflows ? increase->by.whole < 0 : sum->whole < increase->low.whole;
    delta->whole = increase->by.whole;
    *changes = !(is_high || is_low) || increase->saturates;
    if (!*changes)
        *sum = (union count){.whole = old};
    if (!*changes)
        delta->whole = 0;
    if (!*changes || !(is_high || is_low))
        return true;
    *sum = is_high ? increase->high : increase->low;
    return !__builtin_sub_overflow(sum->whole, old, &delta->whole) ||
           refuse_increase(call, "ERR applied increment would overflow");
}

static bool add_real(struct call *call, const struct increase *increase, long double old,
                     union count *sum, union count *delta, bool *changes)
{
    sum->real = old + increase->by.real;
    bool is_high = sum->real > increase->high.real || sum->real > LDBL_MAX;
    bool is_low = sum->real < increase->low.real || sum->real < -LDBL_MAX;
    delta->real = increase->by.real;
    *changes = !(is_high || is_low) || increase->saturates;
    if (!*changes)
        *sum = (union count){.real = old};
    if (!*changes)
        delta->real = 0;
    if (!*changes || !(is_high || is_low))
        return true;
    *sum = is_high ? increase->high : increase->low;
    delta->real = sum->real - old;
    return isfinite(delta->real) ||
           refuse_increase(call, "ERR applied increment would be Infinity");
}

static struct bytes count_text(struct call *call, bool is_float, union count count)
{
    char *text = arena_alloc(call->arena, LONG_DOUBLE_TEXT_MAX);
    size_t len = is_float ? number_format_long_double(text, count.real)
                          : number_format_int64(text, count.whole);
    return (struct bytes){text, len};
}

static void reply_sum(struct call *call, bool is_float, union count count)
{
    if (is_float)
        reply_double_text(&call->reply, count_text(call, true, count));
    else
        reply_int(&call->reply, count.whole);
}

/* ---- the command ---- */

/* Does a time to live that has passed delete the key? */
static bool increase_deletes(const struct call *call, const struct entry *entry,
                             const struct increase *increase, uint64_t expire_ms)
{
    bool keeps_ttl = increase->only_new_ttl && entry->exists && entry->meta.expire_ms;
    return increase->options.expire_at && expire_ms <= call->now_ms && !keeps_ttl;
}

/* Applies the options of the time to live to the key, which has just been written. */
static void increase_expiry(struct call *call, struct entry *entry, const struct increase *increase,
                            uint64_t expire_ms)
{
    if (increase->options.expire_at && increase->only_new_ttl && entry->meta.expire_ms)
        return;
    if (increase->options.expire_at) {
        entry_set_expire(call, entry, expire_ms);
        notify(call, NOTIFY_GENERIC, "expire", entry->key);
    } else if (increase->options.flags & SET_PERSIST && entry->meta.expire_ms) {
        entry_set_expire(call, entry, 0);
        notify(call, NOTIFY_GENERIC, "persist", entry->key);
    }
}

void cmd_increx(struct call *call)
{
    struct increase increase;
    struct entry entry;
    struct bytes text;
    union count old = {0};
    union count sum;
    union count delta;
    uint64_t expire_ms;
    bool changes;
    if (!increase_parse(call, &increase) ||
        !set_options_expiry(call, &increase.options, &expire_ms) ||
        !keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_WRITE, &entry) ||
        !string_number_text(call, &entry, &text))
        return;
    bool is_float = increase.is_float;
    if (is_float)
        old.real = 0;
    if (entry.exists && (is_float ? !number_parse_long_double(text, &old.real)
                                  : !number_parse_int64(text, &old.whole))) {
        call_error(call, is_float ? ERR_NOT_FLOAT : ERR_NOT_INTEGER);
        return;
    }
    if (is_float ? !add_real(call, &increase, old.real, &sum, &delta, &changes)
                 : !add_whole(call, &increase, old.whole, &sum, &delta, &changes))
        return;
    reply_array(&call->reply, 2);
    reply_sum(call, is_float, sum);
    reply_sum(call, is_float, delta);
    if (!changes)
        return;
    if (increase_deletes(call, &entry, &increase, expire_ms)) {
        if (entry.exists) {
            entry_delete(call, &entry);
            notify(call, NOTIFY_GENERIC, "del", entry.key);
        }
        return;
    }
    text_replace(call, &entry, count_text(call, is_float, sum));
    notify(call, NOTIFY_STRING, is_float ? "incrbyfloat" : "incrby", entry.key);
    increase_expiry(call, &entry, &increase, expire_ms);
}
