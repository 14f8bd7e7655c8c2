/*
 * fuzz_acl.c - ACL files: a file that is read and printed is equal when it is read again; so are rules without secrets.
 */
#include "shared/acl/acl.h"
#include "shared/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static char *text_of(struct out *out, size_t *len)
{
    *len = out->bytes;
    char *text = malloc(*len + 1);
    CHECK(text);
    out_copy(out, text);
    out_clear(out);
    return text;
}

/* Gives another user the printed rules; the rights must be equal. */
static void check_rules(const struct acl_user *user)
{
    struct out out;
    size_t len;
    char error[256];
    out_init(&out);
    out_printf(&out, "user x on nopass ");
    acl_user_rules(user, &out);
    char *line = text_of(&out, &len);
    struct acl *again = acl_parse((struct bytes){line, len}, false, error, sizeof error);
    CHECK(again && acl_user_find(again, BYTES("x")));
    CHECK(acl_user_is_unlimited(acl_user_find(again, BYTES("x"))) == acl_user_is_unlimited(user));
    acl_unref(again);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    char error[256];
    struct out out;
    size_t len;
    size_t again_len;
    command_init();
    if (memmem(input, size, "))", 2))
        /* Read again, a pattern that ends in a parenthesis ends its selector; in Redis too. */
        return 0;
    struct acl *acl =
        acl_parse((struct bytes){(const char *)input, size}, false, error, sizeof error);
    if (!acl)
        return 0;
    out_init(&out);
    acl_print(acl, &out);
    char *text = text_of(&out, &len);
    struct acl *again = acl_parse((struct bytes){text, len}, false, error, sizeof error);
    CHECK(again);
    acl_print(again, &out);
    char *same = text_of(&out, &again_len);
    CHECK(len == again_len && memcmp(text, same, len) == 0);
    for (size_t i = 0; acl_user_at(acl, i); i++)
        check_rules(acl_user_at(acl, i));
    acl_unref(acl);
    acl_unref(again);
    free(text);
    free(same);
    return 0;
}
