/*
 * main.c - scree-copy: moves data into Scree, and back to Redis. It has nothing of the servers but their formats, stores and connections.
 */
#include "backend/copy/back.h"
#include "backend/copy/copy.h"
#include "backend/copy/to_file.h"
#include "backend/live/live_cluster.h"
#include "shared/command/command.h"
#include "shared/log.h"

#include <signal.h>

/* Freed memory goes back to the system soon, as in the servers. */
extern const char *malloc_conf;
const char *malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0";

int main(int argc, char **argv)
{
    struct copy_options options;
    enum options_result parsed = options_parse(argc, argv, &options);
    if (parsed != OPTIONS_RUN)
        return parsed == OPTIONS_DONE ? EXIT_DONE : EXIT_ARGUMENTS;
    (void)signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    command_init();
    if (options.to.file)
        return (int)to_file_run(&options);
    if (options.file)
        return (int)copy_run(&options);
    if (options.from.seeds.is_cluster)
        return (int)cluster_run(&options);
    return (int)(options.is_from_scree ? back_run(&options) : live_run(&options));
}
