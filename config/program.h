/*
 * program.h - what both programs do before they start: arguments, and the answers that need no server.
 *
 *   scree-proxy --config proxy.ini      runs
 *   --check  --print-config  --print-docs configuration|commands  --version  --help      print and end
 */
#pragma once

#include "config/config.h"

/* An argument that makes the program do something else than serve. */
struct program_tool {
    const char *name;  /* "--restore" */
    const char *value; /* what --help calls its value; NULL: it has none */
    const char *help;
};

struct program {
    const char *name; /* "scree-proxy" */
    const struct config_schema *schema;
    const struct program_tool *tools;
    size_t tool_count;
    const char **given; /* by tool: its value, "" where it has none; NULL: not given */
};

/* Reads the arguments and the config file (without --config: the defaults) into `config`, which is
 * uninitialised and stays empty when the answer is false. True: go on and run. False: end the process with
 * *exit_code; what there was to say has been printed. */
bool program_parse(const struct program *program, int argc, char **argv, struct config *config,
                   int *exit_code);
