/*
 * program.h - the arguments of both programs.
 *
 *   scree-proxy --config proxy.ini      runs
 *   --check  --print-config  --print-docs configuration|commands|versions  --version  --help      prints and ends
 */
#pragma once

#include "config/config.h"

struct proxy_snapshot;

/* An argument that starts a tool instead of the server. */
struct program_tool {
    const char *name;  /* "--restore" */
    const char *value; /* placeholder of its value in --help; NULL: it has no value */
    const char *help;
    bool is_optional; /* the value may be missing: "" then */
};

struct program {
    const char *name; /* "scree-proxy" */
    const struct config_schema *schema;
    const struct program_tool *tools;
    size_t tool_count;
    /* After --check has found no error; NULL: nothing more. */
    void (*on_check)(struct proxy_snapshot *snapshot);
    const char *engine; /* a line that --version prints after the version; NULL: none */
    const char **given; /* value of each tool's argument; "": without a value; NULL: not given */
};

/* Reads the arguments and the config file (without --config: the defaults) into `config`, which is
 * uninitialised. True: run. False: all messages are printed, `config` must not be used, and the process has to end with
 * *exit_code. */
bool program_parse(const struct program *program, int argc, char **argv, struct config *config,
                   int *exit_code);
