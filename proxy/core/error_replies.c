#include "proxy/core/error_replies.h"

#include <string.h>

enum { OTHER = ERROR_CODES - 1 };

/* "ERR" first: it is by far the most frequent. */
static const char *const codes[ERROR_CODES] = {
    "ERR",     "WRONGTYPE",  "TRYAGAIN",   "LOADING",   "MISCONF",       "OOM",
    "BUSY",    "READONLY",   "NOPERM",     "NOAUTH",    "DENIED",        "WRONGPASS",
    "NOPROTO", "EXECABORT",  "BUSYKEY",    "BUSYGROUP", "NOGROUP",       "NOSCRIPT",
    "NOTBUSY", "UNKILLABLE", "UNBLOCKED",  "MOVED",     "CROSSSLOT",     "CLUSTERDOWN",
    "INPROG",  "MASTERDOWN", "NOREPLICAS", "RATELIMIT", SHARD_LOST_CODE, "other",
};

static size_t error_code_index(struct bytes head)
{
    for (size_t i = 0; i < OTHER; i++) {
        size_t len = strlen(codes[i]);
        if (head.len > len + 1 && memcmp(head.data + 1, codes[i], len) == 0 &&
            (head.data[1 + len] == ' ' || head.data[1 + len] == '\r'))
            return i;
    }
    return OTHER;
}

void error_replies_init(struct error_replies *replies, struct labels *labels, uint32_t thread)
{
    for (size_t i = 0; i < ERROR_CODES; i++) {
        replies->cells[i] = labels_cell(labels, bytes_of(codes[i]), thread);
        cell_set(replies->cells[i], REPLY_IS_PRINTED, 1);
    }
}

void error_replies_count(struct error_replies *replies, struct bytes head)
{
    cell_add(replies->cells[error_code_index(head)], REPLY_ERRORS, 1);
}
