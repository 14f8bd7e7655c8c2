/*
 * command_reply.h - the answers of COMMAND and its subcommands, and every container's HELP, from the table.
 *
 * argv is the whole request ("COMMAND", "INFO", "get"); its arity has been checked.
 * Where we differ from Redis 7.0 on purpose: key specs carry no "notes", DOCS no "arguments" and no
 * "history"; internal commands are not shown; texts (summaries, help) are our own.
 */
#pragma once

#include "shared/command.h"

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

/* <container> HELP: those of its subcommands that `handler` answers (HANDLER_BACKEND, HANDLER_PROXY,
 * or both added), each with its summary. */
void command_reply_help(struct reply *reply, const struct command *container,
                        enum command_handlers handler);
