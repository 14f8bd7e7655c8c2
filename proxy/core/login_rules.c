#include "proxy/core/login_rules.h"

#include "config/reload.h"

bool login_has_tokens(const struct proxy_snapshot *snapshot)
{
    const struct namespaces *namespaces = snapshot->namespaces;
    for (size_t i = 0; i < namespaces->count; i++)
        if (*namespaces->items[i].token)
            return true;
    return false;
}

const struct acl_user *login_default_user(const struct proxy_snapshot *snapshot)
{
    return acl_user_find(snapshot->users, BYTES("default"));
}

bool login_is_needed(const struct proxy_snapshot *snapshot)
{
    const struct acl_user *user = login_default_user(snapshot);
    return acl_user_needs_password(user) || !acl_user_is_enabled(user) ||
           login_has_tokens(snapshot);
}
