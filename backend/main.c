/*
 * main.c - scree-backend: arguments, configuration, then the server.
 */
#include "backend/server.h"
#include "config/program.h"
#include "shared/command.h"
#include "shared/log.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    static const struct program program = {
        .name = "scree-backend",
        .schema = &backend_schema,
    };
    struct backend_config config = {0};
    int code;
    command_init();
    if (!program_parse(&program, argc, argv, &config.head, &code))
        return code;
    log_set_level((enum log_level)config.log_level);
    if (*config.log_file && !log_set_file(config.log_file)) {
        (void)fprintf(stderr, "log-file: %s cannot be written\n", config.log_file);
        config_fini(&config.head);
        return 1;
    }
    struct server *server = server_new(&config);
    config_fini(&config.head);
    code = server_run(server);
    server_free(server);
    return code;
}
