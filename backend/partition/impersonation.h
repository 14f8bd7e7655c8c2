/*
 * impersonation.h - a request that a proxy passes on for one of its own users, the impersonated user: SCREE AS NAME
 * RULES command….
 *
 * Most of what a proxy's users may do, the proxy checks. What it cannot see beforehand comes in this form, with
 * the user's rules: commands of a script, keys behind SORT's patterns, a transaction whose rules have changed since.
 * While such a request runs only the rules of that user count.
 */
#pragma once

#include "shared/acl.h"

struct impersonation {
    bool is_here;
    const struct acl_user *user; /* the last one that was; in `users` */
    struct acl *users;           /* kept for the next request; NULL: none yet */
    char *text;                  /* that they were made of */
};

/* The next request is this user's. Rules that cannot be read allow nothing. */
void impersonation_begin(struct impersonation *impersonation, struct bytes name,
                         struct bytes rules);
void impersonation_end(struct impersonation *impersonation);
void impersonation_fini(struct impersonation *impersonation);
