/*
 * command_docs.h - docs/commands.md, printed from the table by `--print-docs commands` of both programs.
 */
#pragma once

#include <stdio.h>

/* Writes the page as Markdown; call command_init() first. A unit test compares it with docs/commands.md. */
void command_print_docs(FILE *file);
