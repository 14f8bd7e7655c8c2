#include "backend/commands/string_options.h"

#include "backend/format/xxh3.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "shared/number.h"

/* The options that may not stand before this one. A word may be repeated, except those that compare. */
static unsigned excluded_by(unsigned flag)
{
    if (flag & SET_COMPARES)
        return SET_CONDITIONS;
    if (flag & SET_CONDITIONS)
        return SET_CONDITIONS & ~flag;
    return flag & SET_TIMES ? SET_TIMES & ~flag : 0;
}

int set_option_parse(struct call *call, uint32_t *index, unsigned allowed,
                     struct set_options *options)
{
    uint32_t next = *index;
    int option = option_next(set_options, call->argv, call->argc, &next);
    unsigned flag = option == NO_OPTION ? 0 : 1U << option;
    if (!(flag & allowed))
        return 0;
    if (options->flags & excluded_by(flag)) {
        call_error(call, ERR_SYNTAX);
        return -1;
    }
    options->flags |= flag;
    *index = next - 1;
    if (flag & SET_EXPIRES)
        options->expire_at = *index;
    else if (flag & SET_COMPARES)
        options->compare_at = *index;
    return 1;
}

bool set_options_parse(struct call *call, uint32_t from, unsigned allowed,
                       struct set_options *options)
{
    *options = (struct set_options){0};
    for (uint32_t i = from; i < call->argc; i++) {
        int parsed = set_option_parse(call, &i, allowed, options);
        if (parsed == 0)
            call_error(call, ERR_SYNTAX);
        if (parsed != 1)
            return false;
    }
    return true;
}

bool expire_argument(struct call *call, uint32_t index, unsigned flag, uint64_t *expire_ms)
{
    int64_t value;
    if (!call_int64(call, index, &value))
        return false;
    bool seconds = flag & (SET_EX | SET_EXAT);
    bool relative = flag & (SET_EX | SET_PX);
    bool fine = value > 0 && !(seconds && value > INT64_MAX / 1000);
    if (fine && seconds)
        value *= 1000;
    if (fine && relative)
        fine = !__builtin_add_overflow(value, (int64_t)call->now_ms, &value);
    if (!fine) {
        call_errorf(call, "ERR invalid expire time in '%s' command",
                    command_full_name(call->command));
        return false;
    }
    *expire_ms = (uint64_t)value;
    return true;
}

bool set_options_expiry(struct call *call, const struct set_options *options, uint64_t *expire_ms)
{
    *expire_ms = 0;
    return !options->expire_at ||
           expire_argument(call, options->expire_at, options->flags, expire_ms);
}

bool string_equals(struct call *call, struct entry *entry, struct bytes value, bool *equal)
{
    struct bytes have;
    *equal = false;
    if (text_len(entry) != value.len)
        return true;
    if (!text_value(call, entry, &have))
        return false;
    *equal = bytes_equal(have, value);
    return true;
}

bool string_digest(struct call *call, struct entry *entry, uint64_t *digest)
{
    struct text_iter iter;
    struct xxh3 hash;
    xxh3_init(&hash);
    text_iter_init(call, entry, 0, UINT64_MAX, &iter);
    while (text_iter_next(&iter)) {
        xxh3_add_zeros(&hash, iter.at - hash.len);
        xxh3_add(&hash, iter.piece);
    }
    if (!text_iter_fini(&iter))
        return false;
    xxh3_add_zeros(&hash, text_len(entry) - hash.len);
    *digest = xxh3_result(&hash);
    return true;
}

/* Is `text` the digest of the string? As in Redis, text of 16 characters that are not all hexadecimal is another digest.
 * False: an error was replied. */
static bool has_digest(struct call *call, struct entry *entry, struct bytes text, bool *equal)
{
    uint64_t want;
    uint64_t have;
    if (text.len != XXH3_HEX_DIGITS) {
        call_error_text(call, "ERR must be exactly 16 hexadecimal characters");
        return false;
    }
    if (!string_digest(call, entry, &have))
        return false;
    *equal = xxh3_parse(text, &want) && have == want;
    return true;
}

bool set_condition(struct call *call, struct entry *entry, const struct set_options *options,
                   bool *holds)
{
    bool equal = false;
    bool negates = options->flags & (SET_NX | SET_IFNE | SET_IFDNE);
    *holds = true;
    if (!(options->flags & SET_CONDITIONS))
        return true;
    if (!entry->exists || !(options->flags & SET_COMPARES)) {
        equal = entry->exists;
    } else if (options->flags & (SET_IFEQ | SET_IFNE)) {
        if (!string_equals(call, entry, call->argv[options->compare_at], &equal))
            return false;
    } else if (!has_digest(call, entry, call->argv[options->compare_at], &equal)) {
        return false;
    }
    *holds = equal != negates;
    return true;
}

bool string_number_text(struct call *call, struct entry *entry, struct bytes *text)
{
    *text = BYTES("long");
    return text_len(entry) >= LONG_DOUBLE_TEXT_MAX || text_value(call, entry, text);
}

bool string_reply(struct call *call, struct entry *entry)
{
    if (entry->exists)
        return text_reply(call, entry);
    reply_null(&call->reply);
    return true;
}

void string_set(struct call *call, struct entry *entry, struct bytes value, uint64_t expire_ms)
{
    entry_set_payload(call, entry, TYPE_STRING, value, expire_ms);
    notify(call, NOTIFY_STRING, "set", entry->key);
}
