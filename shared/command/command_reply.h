/*
 * command_reply.h - replies of COMMAND and its subcommands, and HELP of every container, from the table.
 *
 * argv is the whole request ("COMMAND", "INFO", "get"); its arity has been checked. Differences from Redis 7.0, all
 * intended: key specs have no "notes", DOCS has no "arguments" and no "history"; internal commands are hidden; texts
 * (summaries, help) are our own.
 */
#pragma once

#include "shared/command/command.h"

/* COMMAND, and COMMAND COUNT. */
void command_reply_all(struct reply *reply);
void command_reply_count(struct reply *reply);
/* COMMAND INFO [name ...], DOCS [name ...], LIST [FILTERBY MODULE|ACLCAT|PATTERN x]. */
void command_reply_info(struct reply *reply, const struct bytes *argv, uint32_t argc);
void command_reply_docs(struct reply *reply, const struct bytes *argv, uint32_t argc);
void command_reply_list(struct reply *reply, const struct bytes *argv, uint32_t argc);
/* COMMAND GETKEYS and GETKEYSANDFLAGS, each followed by a whole command. */
void command_reply_getkeys(struct reply *reply, const struct bytes *argv, uint32_t argc);
void command_reply_getkeysandflags(struct reply *reply, const struct bytes *argv, uint32_t argc);

/* <container> HELP: the subcommands that `handler` implements (HANDLER_BACKEND, HANDLER_PROXY, or both added), each
 * with its summary. */
void command_reply_help(struct reply *reply, const struct command *container,
                        enum command_handlers handler);
