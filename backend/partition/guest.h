/*
 * guest.h - a request that a proxy passes on for one of its own users: SCREE AS NAME RULES command….
 *
 * Most of what a proxy's users may do, the proxy checks. What it cannot see beforehand comes in this form, with
 * the user's rules: commands of a script, keys behind SORT's patterns, a transaction whose rules have changed since.
 * While such a request runs the connection is that user, and nobody else's trust counts.
 */
#pragma once

#include "shared/acl.h"

struct guest {
    bool is_here;
    const struct acl_user *user; /* the last one that was; in `users` */
    struct acl *users;           /* kept for the next request; NULL: none yet */
    char *text;                  /* that they were made of */
};

/* The next request is this user's. Rules that cannot be read allow nothing. */
void guest_enter(struct guest *guest, struct bytes name, struct bytes rules);
void guest_leave(struct guest *guest);
void guest_fini(struct guest *guest);
