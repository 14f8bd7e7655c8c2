/*
 * acl_command.h - replies and changes of the ACL subcommands, shared by both programs.
 *
 * `argv` is the whole request ("ACL", "SETUSER", "bob", …), its arity has been checked. Functions that return false
 * have put an error text into error[], replied nothing and changed nothing (except acl_setuser and acl_deluser, see
 * below).
 */
#pragma once

#include "shared/acl/acl_log.h"

enum { ACL_ERROR_MAX = 1024 };

void acl_reply_users(struct reply *reply, const struct acl *acl);
void acl_reply_list(struct reply *reply, const struct acl *acl);
void acl_reply_getuser(struct reply *reply, const struct acl *acl, const struct bytes *argv);
bool acl_reply_cat(struct reply *reply, const struct bytes *argv, uint32_t argc,
                   char error[ACL_ERROR_MAX]);
bool acl_reply_dryrun(struct reply *reply, const struct acl *acl, const struct bytes *argv,
                      uint32_t argc, char error[ACL_ERROR_MAX]);
bool acl_reply_genpass(struct reply *reply, const struct bytes *argv, uint32_t argc,
                       char error[ACL_ERROR_MAX]);
/* `now_ms`: wall clock time. */
bool acl_reply_log(struct reply *reply, struct acl_log *log, const struct bytes *argv,
                   uint32_t argc, uint64_t now_ms, char error[ACL_ERROR_MAX]);

/* Both change a set that is not shared yet. When they return false, the set may be half changed: discard it. */
bool acl_setuser(struct acl *acl, const struct bytes *argv, uint32_t argc, bool all_channels,
                 char error[ACL_ERROR_MAX]);
bool acl_deluser(struct acl *acl, const struct bytes *argv, uint32_t argc, int64_t *count,
                 char error[ACL_ERROR_MAX]);

/* Errors of ACL LOAD and ACL SAVE. */
extern const char acl_no_file_error[];
extern const char acl_save_error[];
/* Writes Redis' error for an ACL file that cannot be loaded; `reason`: what is wrong in the file. */
void acl_load_error(const char *reason, char error[ACL_ERROR_MAX]);

/* Redis' NOPERM error of a denied request. The error does not name the key or channel. */
void acl_denied_error(enum acl_denied denied, const struct command *command,
                      char error[ACL_ERROR_MAX]);
