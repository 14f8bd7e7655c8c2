/*
 * error_replies.h - counts the error replies that clients get, by the error's code: "TRYAGAIN", "WRONGTYPE" …
 *
 *   "-TRYAGAIN slot 7 …" ─► code "TRYAGAIN" ─► the worker's cell ─► scree_proxy_error_replies_total{code="TRYAGAIN"}
 *
 * The code is the first word of an error, and the part that programs may decide by. Errors of shards, which the proxy passes
 * on, and errors of the proxy itself are counted alike. A script can return any word as a code, so only known ones have a
 * counter of their own; all others count as "other".
 */
#pragma once

#include "shared/metric_labels.h"

enum { ERROR_CODES = 30 };

/* Of an error that is not the request's: its shard has not answered, and may have executed it. */
#define SHARD_LOST_CODE "SHARDLOST"

/* The words of a code's cell (metric_labels.h). A cell whose words are all 0 is not printed. A counter of 0 must be printed, so the
 * second word is always 1. */
enum error_reply_word { REPLY_ERRORS, REPLY_IS_PRINTED, REPLY_WORDS };

/* Of one worker. */
struct error_replies {
    struct metric_cell *cells[ERROR_CODES];
};

/* All codes are printed from the start, as 0: a rate does not see the first event of a counter that begins with it. */
void error_replies_init(struct error_replies *replies, struct labels *labels, uint32_t thread);
/* Counts an error frame, of which `head` has at least the code. */
void error_replies_count(struct error_replies *replies, struct bytes head);
