/*
 * session.h - the state of a client's session: namespace and database, protocol, user, names, transaction.
 */
#pragma once

#include "proxy/core/keyspace.h"
#include "proxy/core/transaction_queue.h"
#include "shared/bytes.h"

#include <stdint.h>

struct acl_user;

/* CLIENT REPLY. */
enum reply_mode {
    REPLY_MODE_ON,
    REPLY_MODE_OFF,
    REPLY_MODE_SKIP_NEXT, /* discard the reply of the next command */
    REPLY_MODE_SKIP,      /* discard the reply of this command */
};

struct client_session {
    struct keyspace *keyspace; /* with a reference; NULL only before login_begin() */
    struct keyspace *home; /* keyspace of the client's listener: RESET moves the session there */
    uint8_t resp;          /* 2 or 3 */
    uint8_t reply_mode;    /* enum reply_mode */
    bool is_authenticated; /* false: only commands with CMD_NO_AUTH may run */
    /* its last login named an unknown user or namespace: it is let in by a login only */
    bool is_refused;
    bool is_limited;  /* rules of `user` restrict it */
    bool is_spare;    /* accepted beyond maxclients: for the operator only. shares.h */
    bool is_readonly; /* READONLY */
    bool no_evict;
    bool no_touch;
    char *user_name; /* heap; NULL: "default", or the namespace's own user. users.h */
    /* in the worker's snapshot; NULL: the namespace's own user, or a removed one */
    const struct acl_user *user;
    char *name; /* CLIENT SETNAME; heap, NULL: none */
    char *lib_name;
    char *lib_version;
    struct client_transaction transaction;
};

/* A new session: in no keyspace, and not authenticated. */
void client_session_init(struct client_session *session);
void client_session_fini(struct client_session *session, struct keyspaces *keyspaces);
/* Moves the session to another keyspace; takes a reference of its own. */
void client_session_move(struct client_session *session, struct keyspaces *keyspaces,
                         struct keyspace *keyspace);
/* Sets name, lib_name or lib_version; empty: none. */
void client_session_set_text(char **text, struct bytes value);
