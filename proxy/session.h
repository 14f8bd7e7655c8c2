/*
 * session.h - the state of a client's session: namespace and database, protocol, user, names, transaction.
 */
#pragma once

#include "proxy/keyspace.h"
#include "proxy/transaction_queue.h"
#include "shared/bytes.h"

#include <stdint.h>

struct acl_user;

/* CLIENT REPLY. */
enum reply_wish {
    REPLY_WISH_ON,
    REPLY_WISH_OFF,
    REPLY_WISH_SKIP_NEXT, /* the next command's reply is dropped */
    REPLY_WISH_SKIP,      /* this one's */
};

struct client_session {
    struct keyspace *keyspace; /* with a reference; NULL only before local_welcome() */
    struct keyspace *home;     /* its listener's: where RESET leads back to */
    uint8_t resp;              /* 2 or 3 */
    uint8_t reply_wish;        /* enum reply_wish */
    bool is_authenticated;     /* false: only commands with CMD_NO_AUTH run */
    bool is_limited;           /* `user` may not do everything */
    bool is_readonly;          /* READONLY */
    bool no_evict;
    bool no_touch;
    char *user_name;             /* heap, NULL: "default" or the namespace's own user; users.h */
    const struct acl_user *user; /* of the worker's snapshot; NULL: a namespace's own, or removed */
    char *name;                  /* CLIENT SETNAME; heap, NULL: none */
    char *lib_name;
    char *lib_version;
    struct client_transaction transaction;
};

/* Nowhere yet, and not authenticated. */
void client_session_init(struct client_session *session);
void client_session_fini(struct client_session *session, struct keyspaces *keyspaces);
/* Another keyspace; takes its own reference. */
void client_session_move(struct client_session *session, struct keyspaces *keyspaces,
                         struct keyspace *keyspace);
/* Sets one of the texts name, lib_name, lib_version; empty: none. */
void client_session_set_text(char **text, struct bytes value);
