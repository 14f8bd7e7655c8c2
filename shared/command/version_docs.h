/*
 * version_docs.h - docs/versions.md, printed from versions.def and the command table by `--print-docs versions`.
 */
#pragma once

#include <stdio.h>

/* After command_init(). */
void version_print_docs(FILE *file);
