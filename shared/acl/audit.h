/*
 * audit.h - logs the commands of administrators, failed logins and refused commands:
 *
 *   info admin_command user=operator client=10.0.0.9:40012 command="config|set maxclients 5000"
 *   warn login_failed user=operator client=10.0.0.9:40012 times=3
 *   warn access_refused user=shop client=10.0.0.9:40014 reason=command object="flushall" times=1
 *
 * A command is logged when it has passed all checks, before it runs. Refusals are logged at most once a second: the line shows the
 * newest one, and `times` is the number of refusals since the previous line. Values of secret arguments are not shown.
 */
#pragma once

#include "shared/acl/acl_log.h"
#include "shared/command/command.h"

/* Must the command be logged? Its row has a trait for this, and a subcommand that only reads, such as SCREE BACKUP STATUS, is not
 * logged. */
bool audit_wants(const struct command *command, const struct bytes *argv, uint32_t argc);
/* Logs a command for which audit_wants is true. `client`: the address. */
void audit_command(struct bytes user, const char *client, const struct command *command,
                   const struct bytes *argv, uint32_t argc);
/* Logs a refusal. Any thread. */
void audit_refusal(const struct acl_event *event);
