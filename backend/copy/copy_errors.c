/*
 * copy_errors.c - errors that the target replies: of one key, or of the target?
 *
 *   known to be of the key   it is named as refused, and the run goes on
 *   anything else            the run ends: the next keys would fail too, or it is unknown whether the command was executed,
 *                            and a key in parts would go on with a hole
 */
#include "backend/copy/copy.h"
#include "shared/check.h"

#include <inttypes.h>

enum { KEY_SAID_MAX = 80 };

static bool begins_with_one_of(struct bytes text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(starts[i]);
        if (text.len >= len && memcmp(text.data, starts[i], len) == 0)
            return true;
    }
    return false;
}

static bool is_of_key(struct bytes text)
{
    static const char *const starts[] = {
        "WRONGTYPE ",
        "BUSYKEY ",
        "NOPERM ",
        "INVALIDOBJ ",
        "ERR Bad data format",
        "ERR DUMP payload ",
        "ERR Invalid TTL value",
        "ERR The payload would be larger than ",
        "ERR The reply would be longer than ",
        "ERR Elements are too large",
        "ERR string exceeds maximum allowed size",
        "ERR invalid expire time",
        "ERR recursion limit exceeded",
        "ERR the payload has type ",
        "ERR the command writes more than ",
        "ERR the command ran for longer than ",
        "ERR the command has exceeded ",
        "ERR the reply was dropped: ",
    };
    return begins_with_one_of(text, starts, COUNT_OF(starts));
}

/* A library is refused for many reasons of its code; these are none. */
static bool is_of_target(struct bytes text)
{
    static const char *const starts[] = {
        "NOAUTH ",
        "LOADING ",
        "TRYAGAIN ",
        "CLUSTERDOWN ",
        "MASTERDOWN ",
        "READONLY ",
        "OOM ",
        "MISCONF ",
        "NOREPLICAS ",
        "MOVED ",
        "UNREACHABLE ",
        "DISKFULL ",
        "BUSY ",
        "ASK ",
        "ERR shard '",
        "ERR rate ",
        "ERR the leader of ",
        "ERR the proxy is ",
        "ERR enough ",
    };
    return begins_with_one_of(text, starts, COUNT_OF(starts));
}

bool copy_error_ends(const struct request *request, struct bytes text)
{
    return request->kind == REQUEST_FUNCTION ? is_of_target(text) : !is_of_key(text);
}

void copy_end_on_error(struct copy *copy, const struct request *request, struct bytes text)
{
    uint32_t len = request->key_len < KEY_SAID_MAX ? request->key_len : KEY_SAID_MAX;
    if (copy->exit != EXIT_DONE)
        return;
    report_say(
        &copy->report,
        "scree-copy: %s, at key \"%.*s\" of database %" PRIu64 ": %.*s; run the same command again",
        copy->options->to.address, (int)len, request->key, request->db, (int)text.len, text.data);
    copy_stop(copy, EXIT_TARGET);
}
