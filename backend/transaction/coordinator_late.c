/*
 * coordinator_late.c - the error of a transaction that has not got its keys within transaction-timeout: which keys, at which shard, and
 * why.
 */
#include "backend/transaction/coordinator_inner.h"

#include "backend/context/backend_metrics.h"
#include "backend/format/encoding.h"

#include <stdio.h>

enum { KEY_SHOWN = 128 }; /* bytes of a key in an error */

/* Writes the keys for an error: "key 'a'", "keys 'a' and 2 others", or "keys of the database". Returns `to`. */
static const char *name_keys(struct bytes row_key, uint32_t count, char to[COORDINATED_ERROR_MAX])
{
    struct bytes space;
    struct bytes key = {"", 0};
    uint16_t slot;
    bool is_key = decode_metadata_key(row_key, &space, &slot, &key);
    int len = (int)(key.len < KEY_SHOWN ? key.len : KEY_SHOWN);
    if (!is_key)
        (void)snprintf(to, COORDINATED_ERROR_MAX, "keys of the database");
    else if (count > 1)
        (void)snprintf(to, COORDINATED_ERROR_MAX, "keys '%.*s' and %u other%s", len, key.data,
                       count - 1, count > 2 ? "s" : "");
    else
        (void)snprintf(to, COORDINATED_ERROR_MAX, "key '%.*s'", len, key.data);
    return to;
}

/* Does the need concern rows of keys that are locked? */
static bool is_for_rows(const struct need *need)
{
    return need_is_rows(need->kind) || need->kind == NEED_NAMES || need->kind == NEED_PLACE;
}

/* Number of keys that the shard has not locked yet, or else of those whose rows it has not sent; *first: the first. */
static uint32_t count_awaited(const struct participation *part, bool *are_locked,
                              struct bytes *first)
{
    uint32_t keys = 0;
    *are_locked = true;
    for (const struct need *need = part->needs; need; need = need->next)
        *are_locked &= is_for_rows(need);
    for (const struct need *need = part->needs; need; need = need->next) {
        bool is_row = is_for_rows(need);
        if (is_row != *are_locked || (keys && bytes_equal(need->row_key, *first)))
            continue;
        if (keys++ == 0)
            *first = need->row_key;
    }
    return keys;
}

static void fail_at_shard(const struct participation *part)
{
    struct coordinated *transaction = part->transaction;
    struct bytes first = {"", 0};
    char text[COORDINATED_ERROR_MAX];
    bool are_locked;
    uint32_t count = count_awaited(part, &are_locked, &first);
    const char *keys = name_keys(first, count, text);
    if (are_locked)
        coordinated_fail(transaction, METRIC_BACKEND_FAILED_TIMEOUT,
                         "TRYAGAIN shard '%s' has not sent the %s in time (transaction-timeout)",
                         part->shard, keys);
    else
        coordinated_fail(
            transaction, METRIC_BACKEND_FAILED_TIMEOUT,
            "TRYAGAIN shard '%s' has not locked the %s in time (transaction-timeout): another "
            "transaction over several shards has locked %s, or the shard does not answer",
            part->shard, keys, count > 1 ? "one of them" : "it");
}

void coordinated_fail_late(struct coordinated *transaction)
{
    struct bytes first;
    char text[COORDINATED_ERROR_MAX];
    uint32_t count = lock_requested(&transaction->owner, &first);
    if (count) {
        const char *keys = name_keys(first, count, text);
        coordinated_fail(
            transaction, METRIC_BACKEND_FAILED_TIMEOUT,
            "TRYAGAIN the %s at shard '%s' %s locked by other transactions over several shards "
            "(transaction-timeout)",
            keys, transaction->id.shard, count > 1 ? "are" : "is");
        return;
    }
    struct list *at = transaction->participants.next;
    while (!participation_at(at)->sent)
        at = at->next; /* one is outstanding */
    fail_at_shard(participation_at(at));
}
