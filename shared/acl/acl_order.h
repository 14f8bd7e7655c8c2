/*
 * acl_order.h - patterns of a user in an order in which those that may match a key are found without trying them all.
 *
 * Each pattern begins with plain text, up to its first special character, and matches only keys that begin with this text. The patterns are
 * sorted by these beginnings. Those that are beginnings of a key are the last one that is not behind the key, and what lies above it:
 *
 *     beginning   pattern        above it
 *     ""          *:public
 *     "app:"      app:*          "*:public"          key app:1:x ─► app:1:* ─► app:* ─► *:public
 *     "app:1:"    app:1:*        "app:*"             key app:9   ─► app:2:* ─► app:* ─► *:public (the first one does not match)
 *     "app:2:"    app:2:*        "app:*"
 *
 * A pattern between a beginning of the key and the key begins like the former, which is why no other one needs a look.
 */
#pragma once

#include "shared/acl/acl_user.h"

/* Made when the user's rules have been set; a change of the texts forgets it. Texts without an order are tried one after the other. */
void acl_texts_sort(struct acl_texts *texts);
/* Gives `texts` the order of `from`, which has equal texts. */
void acl_order_copy(struct acl_texts *texts, const struct acl_texts *from);
/* How many of the texts a key may have to be compared with. */
size_t acl_texts_depth(const struct acl_texts *texts);

/* The patterns that may match a text, or are equal to it. */
struct acl_candidates {
    const struct acl_texts *texts;
    size_t next; /* from 1 */
};
struct acl_candidates acl_candidates(const struct acl_texts *texts, struct bytes text);
/* NULL after the last. */
const struct acl_text *acl_candidates_next(struct acl_candidates *candidates);
