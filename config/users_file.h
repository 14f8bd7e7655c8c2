/*
 * users_file.h - reads and writes the aclfile: users and their rules (shared/acl/acl.h), in Redis' format.
 */
#pragma once

#include "shared/acl/acl.h"
#include "shared/digest.h"

/* Reads the file. `digest` (may be NULL) receives the SHA-256 of its text. NULL: the reason is in error[size]. */
struct acl *users_load(const char *path, bool all_channels, char digest[SHA256_HEX_LEN],
                       char *error, size_t size);
/* Replaces the file atomically, and puts the SHA-256 of its text into `digest` (may be NULL). False: errno says why. */
bool users_save(const char *path, const struct acl *acl, char digest[SHA256_HEX_LEN]);
