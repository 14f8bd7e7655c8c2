/*
 * audit.h - log lines about what administrators do and who was refused:
 *
 *   info admin_command user=operator client=10.0.0.9:40012 command="config|set maxclients 5000"
 *   warn login_failed user=operator client=10.0.0.9:40012 times=3
 *   warn access_refused user=shop client=10.0.0.9:40014 reason=command object="flushall" times=1
 *
 * Commands are logged when they passed all checks, before they run. A program logs refusals at most once a second; `times`
 * counts those since the last line, which names the newest. Values of secret arguments are not shown.
 */
#pragma once

#include "shared/acl_log.h"
#include "shared/command.h"

/* Has the row a trait for this, and are these arguments more than a question such as SCREE BACKUP STATUS? */
bool audit_wants(const struct command *command, const struct bytes *argv, uint32_t argc);
/* Logs a command that audit_wants. `client` is its address. */
void audit_command(struct bytes user, const char *client, const struct command *command,
                   const struct bytes *argv, uint32_t argc);
/* Logs a refusal. Any thread. */
void audit_refusal(const struct acl_event *event);
