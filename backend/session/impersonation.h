/*
 * impersonation.h - SCREE AS NAME RULES command…: a proxy runs a command as one of its users, the impersonated user.
 *
 * A proxy checks its users' rules itself, with three exceptions: commands of a script, keys of SORT's patterns, and a
 * transaction whose user's rules have changed since MULTI. Such a request carries the user's rules, and while it runs
 * only these rules apply.
 */
#pragma once

#include "shared/acl/acl.h"

struct impersonation {
    bool is_here;
    const struct acl_user *user; /* the last impersonated user, an element of `users` */
    struct acl *users;           /* kept for the next request; NULL: none yet */
    char *text;                  /* name and rules of that user */
};

/* The next request runs as this user. Rules that cannot be parsed allow nothing. */
void impersonation_begin(struct impersonation *impersonation, struct bytes name,
                         struct bytes rules);
void impersonation_end(struct impersonation *impersonation);
void impersonation_fini(struct impersonation *impersonation);
