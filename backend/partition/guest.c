#include "backend/partition/guest.h"

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
    log_event(LOG_ERROR, "guest_refused", "reason=" LOG_QUOTED, users ? "no such name" : reason);
    if (users)
        acl_unref(users);
    users = acl_new();
    if (acl_user_remove(users, name)) /* "default" may do everything */
        CHECK(!acl_user_find(users, name));
    (void)acl_user_add(users, name, false);
    return users;
}

void guest_enter(struct guest *guest, struct bytes name, struct bytes rules)
{
    char *text;
    int len = asprintf(&text, "user %.*s on nopass %.*s", (int)name.len, name.data, (int)rules.len,
                       rules.data);
    CHECK(len >= 0);
    guest->is_here = true;
    if (guest->users && strcmp(text, guest->text) == 0) {
        free(text);
        return;
    }
    guest_fini(guest);
    guest->is_here = true;
    guest->text = text;
    guest->users = make_users(text, name);
    guest->user = acl_user_find(guest->users, name);
    CHECK(guest->user);
}

void guest_leave(struct guest *guest)
{
    guest->is_here = false;
}

void guest_fini(struct guest *guest)
{
    if (guest->users)
        acl_unref(guest->users);
    free(guest->text);
    *guest = (struct guest){0};
}
