/*
 * acl_log.h - what users were refused: ACL LOG's entries, the newest first. Used on the partition's thread only.
 *
 * The same refusal again within a minute only counts up the entry that is there.
 */
#pragma once

#include "shared/acl.h"
#include "shared/list.h"

struct call;
struct session;

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
    uint64_t at_ms; /* wall clock, of the newest */
    struct bytes object;
    struct bytes user;
    struct bytes client; /* as CLIENT LIST shows it */
};

void acl_log_init(struct acl_log *log);
void acl_log_clear(struct acl_log *log);
/* Notes that `user` was refused; `object` is the command, key or channel. Keeps the newest `acllog-max-len`. */
void acl_log_add(struct call *call, enum acl_denied reason, enum acl_context context,
                 struct bytes user, struct bytes object);
