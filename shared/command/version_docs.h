/*
 * version_docs.h - docs/versions.md, printed from versions.def and the command table by `--print-docs versions`.
 */
#pragma once

#include <stdio.h>

/* Writes the page docs/versions.md; call command_init() first. */
void version_print_docs(FILE *file);
