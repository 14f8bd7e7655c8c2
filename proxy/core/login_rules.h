/*
 * login_rules.h - must clients log in? What the configuration in force says about it (login.h).
 */
#pragma once

#include <stdbool.h>

struct acl_user;
struct proxy_snapshot;

/* Must clients log in, except on listeners with a namespace? */
bool login_is_needed(const struct proxy_snapshot *snapshot);
/* Has any namespace a token? */
bool login_has_tokens(const struct proxy_snapshot *snapshot);
/* The user "default". */
const struct acl_user *login_default_user(const struct proxy_snapshot *snapshot);
