/*
 * acl_gate.h - checks a request against its user's ACL rules: at the top level, again at EXEC, and inside a script.
 */
#pragma once

#include "shared/acl/acl_command.h"

struct call;

/* May the user of the call's connection run the command? A refusal is recorded in ACL LOG. Connections that have
 * authenticated with the cluster secret may run everything, because the proxy checks its own users. The first two
 * functions write Redis' error to `text` on a refusal. */
bool acl_gate(struct call *call, char text[ACL_ERROR_MAX]);
bool acl_gate_exec(struct call *call, char text[ACL_ERROR_MAX]);
/* Returns NULL when a script may run the command, else the error for the script. */
const char *acl_gate_script(struct call *call);
/* Adds a refusal of `user` to ACL LOG; `object` is the command, key or channel. */
void acl_note(struct call *call, enum acl_denied reason, enum acl_context context,
              struct bytes user, struct bytes object);
