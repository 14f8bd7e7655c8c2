/*
 * users_file.h - the file of users and their rules (shared/acl.h), in Redis' format.
 */
#pragma once

#include "shared/acl.h"
#include "shared/digest.h"

/* Reads the file. `digest`, unless NULL: of its text. NULL: the reason in error[size]. */
struct acl *users_load(const char *path, bool all_channels, char digest[SHA256_HEX_LEN],
                       char *error, size_t size);
/* The new file takes the old one's place in one step, or errno says why not. */
bool users_save(const char *path, const struct acl *acl, char digest[SHA256_HEX_LEN]);
