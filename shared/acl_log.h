/*
 * acl_log.h - what users were refused: ACL LOG's entries, the newest first. Whoever shares one between threads
 * locks it.
 *
 * The same refusal again within a minute only counts up the entry that is there.
 */
#pragma once

#include "shared/acl.h"
#include "shared/list.h"

enum acl_context { ACL_TOPLEVEL, ACL_MULTI, ACL_LUA };

struct acl_log {
    struct list entries; /* newest first */
    size_t count;
};

struct acl_event {
    struct list link;
    enum acl_denied reason;
    enum acl_context context;
    uint64_t times;
    uint64_t at_ms;      /* wall clock, of the newest */
    struct bytes object; /* the command, key or channel */
    struct bytes user;   /* who was refused */
    struct bytes client; /* as CLIENT LIST shows it */
};

void acl_log_init(struct acl_log *log);
void acl_log_clear(struct acl_log *log);
/* Notes a refusal: reason, context, at_ms and the texts of `event`, which are copied. Keeps the newest
 * `count_max` entries. */
void acl_log_add(struct acl_log *log, const struct acl_event *event, size_t count_max);
