/*
 * main.c - scree-backend: arguments, configuration, then a tool or the server.
 */
#include "backend/server.h"
#include "backend/store/store.h"
#include "backend/tool/tool.h"
#include "config/harden.h"
#include "config/program.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/net/crash.h"
#include "shared/version.h"

#include <stdio.h>

/* Configuration of jemalloc: a background thread returns free memory to the system within tenths of a second, so that the
 * process stays near its configured size. */
extern const char *malloc_conf;
const char *malloc_conf = "background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0";

int main(int argc, char **argv)
{
    const char *given[TOOL_COUNT] = {NULL};
    char engine[96];
    const struct program program = {
        .name = "scree-backend",
        .schema = &backend_schema,
        .tools = tool_arguments,
        .tool_count = TOOL_COUNT,
        .engine = engine,
        .given = given,
    };
    struct backend_config config = {0};
    char reason[256];
    int code;
    harden_files();
    log_detect_journal();
    command_init();
    version_set_commit(scree_commit);
    (void)snprintf(engine, sizeof engine, "%s, assertions %s, CRC32C by %s",
                   store_engine()->version, store_engine()->assertions, store_engine()->crc32c);
    if (!program_parse(&program, argc, argv, &config.head, &code))
        return code;
    if (tool_run(&config, given, &code)) {
        config_fini(&config.head);
        return code;
    }
    log_set_level((enum log_level)config.log_level);
    version_report((enum reported_version)config.reported_version);
    if (*config.log_file && !log_set_file(config.log_file)) {
        (void)fprintf(stderr, "log-file: %s cannot be opened for writing\n", config.log_file);
        config_fini(&config.head);
        return 1;
    }
    if (!harden(config.core_dumps, config.seccomp, reason, sizeof reason)) {
        (void)fprintf(stderr, "%s\n", reason);
        config_fini(&config.head);
        return 1;
    }
    crash_install("scree-backend", SCREE_VERSION, scree_commit);
    struct server *server = server_new(&config);
    config_fini(&config.head);
    code = server_run(server);
    server_free(server);
    return code;
}
