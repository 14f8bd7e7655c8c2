/*
 * acl_log.h - the entries of ACL LOG: denied requests and logins, newest first. Threads that share a log must lock it.
 *
 * A refusal that repeats an entry of the last minute increments the counter of that entry.
 */
#pragma once

#include "shared/acl/acl.h"
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
    uint64_t at_ms;      /* wall clock time of the newest refusal */
    struct bytes object; /* the command, key or channel that was denied */
    struct bytes user;   /* the user that was refused */
    struct bytes client; /* the client, as CLIENT LIST shows it */
};

/* "command", "key", "channel" or "auth", as ACL LOG shows it. */
const char *acl_denied_name(enum acl_denied reason);
void acl_log_init(struct acl_log *log);
void acl_log_clear(struct acl_log *log);
/* Adds a refusal: copies reason, context, at_ms and the texts of `event`. Keeps the newest `count_max` entries. */
void acl_log_add(struct acl_log *log, const struct acl_event *event, size_t count_max);
