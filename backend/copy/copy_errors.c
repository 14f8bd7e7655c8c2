/*
 * copy_errors.c - errors that the target replies: of one key, or of the target?
 *
 *   WRONGTYPE, BUSYKEY, NOPERM, INVALIDOBJ    of the key: it is named, and the run goes on
 *   ERR                                       both are possible, so the target is asked:
 *     a whole key, a library                    its command is sent once more ─► done, or ERR again
 *     EXISTS key; DBSIZE for a library          ◄──────────────────────────────────────┘
 *       an answer                               the target works, so the error is of the key
 *       an error                                the run ends
 *   TRYAGAIN, LOADING, SHARDLOST, …           they pass: whole keys and libraries are sent again for PASS_MS; then, and for others, the run ends
 *   any other code                            of the target: the run ends, because the next keys would fail too
 *
 * Only codes count (shared/error_code.h): sentences are for people. Sending a whole key twice is harmless; a part of a long key is not
 * sent again, because it may have been executed.
 */
#include "backend/copy/commands.h"
#include "backend/copy/copy.h"
#include "shared/check.h"
#include "shared/error_code.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_SAID_MAX = 80, ERROR_SAID_MAX = 250, LATER_MS = 200, PASS_MS = 30 * 1000 };

static bool has_one_code(struct bytes error, const char *const *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (error_has_code(error, codes[i]))
            return true;
    return false;
}

static bool is_of_key(struct bytes error)
{
    static const char *const codes[] = {"WRONGTYPE", "BUSYKEY", "NOPERM", "INVALIDOBJ"};
    return has_one_code(error, codes, COUNT_OF(codes));
}

bool copy_error_passes(struct bytes error)
{
    static const char *const codes[] = {"TRYAGAIN",   "LOADING", "CLUSTERDOWN", "MASTERDOWN",
                                        "NOREPLICAS", "BUSY",    "RATELIMIT",   "SHARDLOST"};
    return has_one_code(error, codes, COUNT_OF(codes));
}

static void end_copy(struct copy *copy, const struct request *request, struct bytes text)
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

static void name_failed_key(struct copy *copy, const struct request *request, struct bytes text)
{
    struct bytes key = {request->key, request->key_len};
    char reason[ERROR_SAID_MAX + 50];
    if (!copy_is_verify(copy)) {
        report_refused(&copy->report, request->db, key, text);
        return;
    }
    (void)snprintf(reason, sizeof reason, "it could not be compared: %.*s",
                   (int)(text.len < ERROR_SAID_MAX ? text.len : ERROR_SAID_MAX), text.data);
    report_different(&copy->report, request->db, key, reason);
}

/* Asks whether the target works; the question has the error, for copy_ask_reply. */
static void ask_target(struct copy *copy, const struct request *request, struct bytes text)
{
    struct bytes key = {request->key, request->key_len};
    struct bytes words[] = {BYTES("EXISTS"), key};
    struct bytes size[] = {BYTES("DBSIZE")};
    struct destination to = {.lane = lane_of(copy->lanes, key), .db = request->db, .key = key};
    bool is_library = request->kind == REQUEST_FUNCTION;
    char *kept = malloc(text.len + 1);
    CHECK(kept);
    char *end = kept;
    struct bytes error = bytes_copy_to(&end, text);
    commands_send(&to, REQUEST_ASK, is_library ? size : words, is_library ? 1 : 2)->kept = error;
}

/* ---- errors that pass ---- */

/* False: the command was not kept, or such errors have come for too long. */
static bool send_later(struct copy *copy, const struct request *request)
{
    struct copy_later *later = &copy->later;
    uint64_t now_ms = loop_mono_ms(copy->loop);
    if (!later->since_ms)
        later->since_ms = now_ms;
    if (!request->kept.data || request->kind == REQUEST_ASK || now_ms - later->since_ms > PASS_MS)
        return false;
    if (!later->first)
        timer_start(later->timer, LATER_MS, 0);
    struct request *again = request_copy(request);
    again->next = later->first;
    later->first = again;
    return true;
}

void copy_send_later(void *owner)
{
    struct copy *copy = owner;
    struct request *request = copy->later.first;
    copy->later.first = NULL;
    while (request && copy->exit == EXIT_DONE) {
        struct request *next = request->next;
        struct bytes key = {request->key, request->key_len};
        struct request *again = lane_again(lane_of(copy->lanes, key), request);
        again->is_again = request->is_again;
        again->is_later = true;
        copy->later.sent++;
        request_free(request);
        request = next;
    }
    copy->later.first = request;
}

/* ---- all errors ---- */

void copy_error(struct copy *copy, const struct request *request, struct bytes text)
{
    struct bytes key = {request->key, request->key_len};
    if (copy->exit != EXIT_DONE)
        return;
    if (copy_error_passes(text) && send_later(copy, request))
        return;
    if (is_of_key(text))
        name_failed_key(copy, request, text);
    else if (!error_has_code(text, "ERR"))
        end_copy(copy, request, text);
    else if (request->kept.data && !request->is_again)
        (void)lane_again(lane_of(copy->lanes, key), request);
    else
        ask_target(copy, request, text);
}

void copy_ask_reply(struct copy *copy, const struct request *request, struct bytes frame)
{
    struct bytes error = {frame.data + 1, frame.len - 3};
    if (frame.data[0] == '-' && !is_of_key(error))
        end_copy(copy, request, error);
    else
        name_failed_key(copy, request, request->kept);
}
