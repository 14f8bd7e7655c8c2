/*
 * main.c - scree-proxy: reads the configuration, then runs a tool, or the proxy until it is stopped.
 */
#include "config/harden.h"
#include "config/program.h"
#include "proxy/core/proxy.h"
#include "proxy/run/proxy_run.h"
#include "proxy/tool/map_tool.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/net/crash.h"
#include "shared/version.h"

#include <stdlib.h>
#include <sys/resource.h>

/* Configuration of jemalloc: a background thread returns free memory even when nothing is allocated. */
extern const char *malloc_conf;
const char *malloc_conf = "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";

enum { REASON_MAX = 1024 };

/* Allows as many descriptors as possible: each client needs one. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int run_proxy(struct proxy_snapshot *snapshot)
{
    char reason[REASON_MAX];
    struct loop *loop = loop_new();
    struct proxy *proxy = proxy_new(loop, snapshot);
    bool started = proxy_start(proxy, reason, sizeof(reason));
    if (started) {
        loop_run(loop);
        proxy_join(proxy);
        log_event(LOG_INFO, "stopped", "program=scree-proxy");
    } else {
        log_event(LOG_ERROR, "start_failed", "reason=" LOG_QUOTED, reason);
    }
    proxy_free(proxy);
    loop_free(loop);
    return started ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *given[MAP_TOOL_COUNT] = {NULL};
    const struct program program = {
        .name = "scree-proxy",
        .schema = &proxy_schema,
        .tools = map_tool_arguments,
        .tool_count = MAP_TOOL_COUNT,
        .on_check = map_tool_check,
        .given = given,
    };
    struct proxy_config config;
    char reason[REASON_MAX];
    int exit_code;
    harden_files();
    log_detect_journal();
    command_init();
    version_set_commit(scree_commit);
    if (!program_parse(&program, argc, argv, &config.head, &exit_code))
        return exit_code;
    struct proxy_snapshot *snapshot = snapshot_load(config.head.path, reason, sizeof(reason));
    config_fini(&config.head);
    if (!snapshot) {
        (void)fprintf(stderr, "%s\n", reason);
        return EXIT_FAILURE;
    }
    if (map_tool_run(snapshot, given, &exit_code)) {
        snapshot_unref(snapshot);
        return exit_code;
    }
    log_set_level((enum log_level)snapshot->config.log_level);
    version_report((enum reported_version)snapshot->config.reported_version);
    if (*snapshot->config.log_file && !log_set_file(snapshot->config.log_file)) {
        (void)fprintf(stderr, "%s: cannot be opened for writing\n", snapshot->config.log_file);
        snapshot_unref(snapshot);
        return EXIT_FAILURE;
    }
    raise_descriptor_limit();
    if (!harden(snapshot->config.core_dumps, snapshot->config.seccomp, reason, sizeof(reason))) {
        (void)fprintf(stderr, "%s\n", reason);
        snapshot_unref(snapshot);
        return EXIT_FAILURE;
    }
    crash_install("scree-proxy", SCREE_VERSION, scree_commit);
    return run_proxy(snapshot);
}
