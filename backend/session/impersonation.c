#include "backend/session/impersonation.h"

#include "shared/check.h"
#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

enum { REASON_MAX = 256 };

static struct acl *make_users(const char *text, struct bytes name)
{
    char reason[REASON_MAX];
    struct acl *users = acl_parse(bytes_of(text), false, reason, sizeof reason);
    if (users && acl_user_find(users, name))
        return users;
    log_event(LOG_ERROR, "impersonation_refused", "reason=" LOG_QUOTED,
              users ? "no such name" : reason);
    if (users)
        acl_unref(users);
    users = acl_new();
    if (acl_user_remove(users, name)) /* acl_new() gives "default" all rights */
        CHECK(!acl_user_find(users, name));
    (void)acl_user_add(users, name, false);
    return users;
}

void impersonation_begin(struct impersonation *impersonation, struct bytes name, struct bytes rules)
{
    char *text;
    int len = asprintf(&text, "user %.*s on nopass %.*s", (int)name.len, name.data, (int)rules.len,
                       rules.data);
    CHECK(len >= 0);
    impersonation->is_here = true;
    if (impersonation->users && strcmp(text, impersonation->text) == 0) {
        free(text);
        return;
    }
    impersonation_fini(impersonation);
    impersonation->is_here = true;
    impersonation->text = text;
    impersonation->users = make_users(text, name);
    impersonation->user = acl_user_find(impersonation->users, name);
    CHECK(impersonation->user);
}

void impersonation_end(struct impersonation *impersonation)
{
    impersonation->is_here = false;
}

void impersonation_fini(struct impersonation *impersonation)
{
    if (impersonation->users)
        acl_unref(impersonation->users);
    free(impersonation->text);
    *impersonation = (struct impersonation){0};
}
