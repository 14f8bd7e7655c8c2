/*
 * acl_gate.h - where a request meets its user's rules: at the top, again at EXEC, and inside a script.
 */
#pragma once

#include "shared/acl_command.h"

struct call;

/* May the user of the call's connection run it? A refusal is noted in ACL LOG. Connections that have shown the
 * cluster's secret may do everything: the proxy asks for its own users.
 *
 * The first two write Redis' error to text when the answer is no. */
bool acl_gate(struct call *call, char text[ACL_ERROR_MAX]);
bool acl_gate_exec(struct call *call, char text[ACL_ERROR_MAX]);
/* NULL, or the error for a script. */
const char *acl_gate_script(struct call *call);
/* Notes in ACL LOG that `user` was refused; `object` is the command, key or channel. */
void acl_note(struct call *call, enum acl_denied reason, enum acl_context context,
              struct bytes user, struct bytes object);
