/*
 * program.h - what both programs do before they start: arguments, and the answers that need no server.
 *
 *   scree-proxy --config proxy.ini      runs
 *   --check  --print-config  --print-docs configuration|commands  --version  --help      print and end
 */
#pragma once

#include "config/config.h"

struct program {
    const char *name; /* "scree-proxy" */
    const struct config_schema *schema;
};

/* Reads the arguments and the config file (without --config: the defaults) into `config`, which is
 * uninitialised and stays empty when the answer is false. True: go on and run. False: end the process with
 * *exit_code; what there was to say has been printed. */
bool program_parse(const struct program *program, int argc, char **argv, struct config *config,
                   int *exit_code);
