/*
 * program.c - parses the arguments of both programs, and prints what needs no running server.
 */
#include "config/program.h"

#include "config/reload.h"
#include "shared/command/command.h"
#include "shared/command/command_docs.h"
#include "shared/command/version_docs.h"
#include "shared/version.h"

#include <stdlib.h>

enum { EXIT_USAGE = 2, ERROR_MAX = 1024 };

/* What to do instead of running. */
enum answer {
    ANSWER_RUN,
    ANSWER_CHECK,
    ANSWER_PRINT_CONFIG,
    ANSWER_PRINT_DOCS,
    ANSWER_VERSION,
    ANSWER_HELP,
    ANSWER_USAGE,
};

struct arguments {
    const char *config_path; /* NULL: the defaults */
    const char *page;
};

static void print_help(const struct program *program, FILE *to)
{
    (void)fprintf(
        to,
        "usage: %s [--config FILE] [--check | --print-config]\n"
        "\n"
        "  --config FILE       read this ini file; without it all options have their defaults\n"
        "  --check             read all files, report the first error, and exit\n"
        "  --print-config      print all options with their values as an ini file, and exit\n"
        "  --print-docs PAGE   print a page of the documentation (configuration, commands or "
        "versions), "
        "and exit\n"
        "  --version           print the version, and exit\n"
        "  --help              print this help, and exit\n",
        program->name);
    for (size_t i = 0; i < program->tool_count; i++) {
        const struct program_tool *tool = &program->tools[i];
        char name[64];
        (void)snprintf(name, sizeof name, "%s %s", tool->name, tool->value ? tool->value : "");
        (void)fprintf(to, "%s  %-18s  %s\n", i ? "" : "\n", name, tool->help);
    }
}

/* True when argv[*i] is `name`; its value is the rest after '=' or the next argument. */
static bool takes_value(const char *name, int argc, char **argv, int *i, const char **value)
{
    size_t len = strlen(name);
    if (strncmp(argv[*i], name, len) != 0)
        return false;
    if (argv[*i][len] == '=') {
        *value = argv[*i] + len + 1;
        return true;
    }
    if (argv[*i][len] != '\0' || *i + 1 >= argc)
        return false;
    *value = argv[++*i];
    return true;
}

/* Does argv[*i] name the tool, which may be given without its value? */
static bool takes_no_value(const struct program_tool *tool, int argc, char **argv, int i)
{
    bool is_last = i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0;
    return strcmp(argv[i], tool->name) == 0 && (!tool->value || (tool->is_optional && is_last));
}

/* True when argv[*i] is the argument of a tool. */
static bool accepts_tool(const struct program *program, int argc, char **argv, int *i)
{
    for (size_t t = 0; t < program->tool_count; t++) {
        const struct program_tool *tool = &program->tools[t];
        if (takes_no_value(tool, argc, argv, *i)) {
            program->given[t] = "";
            return true;
        }
        if (tool->value && takes_value(tool->name, argc, argv, i, &program->given[t]))
            return true;
    }
    return false;
}

static enum answer arguments_read(const struct program *program, int argc, char **argv,
                                  struct arguments *arguments)
{
    static const struct {
        const char *name;
        enum answer answer;
    } plain[] = {
        {"--check", ANSWER_CHECK},     {"--print-config", ANSWER_PRINT_CONFIG},
        {"--version", ANSWER_VERSION}, {"--help", ANSWER_HELP},
        {"-h", ANSWER_HELP},
    };
    enum answer answer = ANSWER_RUN;
    for (int i = 1; i < argc; i++) {
        if (takes_value("--config", argc, argv, &i, &arguments->config_path))
            continue;
        if (takes_value("--print-docs", argc, argv, &i, &arguments->page)) {
            answer = ANSWER_PRINT_DOCS;
            continue;
        }
        if (accepts_tool(program, argc, argv, &i))
            continue;
        size_t p = 0;
        while (p < sizeof plain / sizeof *plain && strcmp(argv[i], plain[p].name) != 0)
            p++;
        if (p == sizeof plain / sizeof *plain) {
            (void)fprintf(stderr, "unknown argument %s\n", argv[i]);
            return ANSWER_USAGE;
        }
        answer = plain[p].answer;
    }
    return answer;
}

static int print_page(const char *page)
{
    if (strcmp(page, "configuration") == 0) {
        config_print_docs(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(page, "commands") == 0) {
        command_init();
        command_print_docs(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(page, "versions") == 0) {
        command_init();
        version_print_docs(stdout);
        return EXIT_SUCCESS;
    }
    (void)fprintf(stderr, "--print-docs: expected configuration, commands or versions\n");
    return EXIT_USAGE;
}

/* For the proxy: reads all files that the configuration names. False: one line in error[]. */
static bool check_proxy_files(const struct config *config, const char *path,
                              struct proxy_snapshot **snapshot, char *error)
{
    if (config->schema != &proxy_schema)
        return true;
    *snapshot = snapshot_load(path, error, ERROR_MAX);
    return *snapshot != NULL;
}

/* Prints or checks the configuration that was read. True: run the program instead. */
static bool answer_with_config(const struct program *program, enum answer answer, const char *path,
                               const struct config *config, int *exit_code)
{
    char error[ERROR_MAX];
    struct proxy_snapshot *snapshot = NULL;
    *exit_code = EXIT_SUCCESS;
    if (answer == ANSWER_RUN)
        return true;
    if (answer == ANSWER_PRINT_CONFIG) {
        config_print(config, stdout);
    } else if (check_proxy_files(config, path, &snapshot, error)) {
        (void)printf("%s: good\n", path ? path : "defaults");
        if (program->on_check && snapshot)
            program->on_check(snapshot);
    } else {
        (void)fprintf(stderr, "%s\n", error);
        *exit_code = EXIT_FAILURE;
    }
    snapshot_unref(snapshot);
    return false;
}

bool program_parse(const struct program *program, int argc, char **argv, struct config *config,
                   int *exit_code)
{
    struct arguments arguments = {0};
    enum answer answer = arguments_read(program, argc, argv, &arguments);
    *exit_code = EXIT_SUCCESS;
    switch (answer) {
    case ANSWER_USAGE:
        print_help(program, stderr);
        *exit_code = EXIT_USAGE;
        return false;
    case ANSWER_HELP:
        print_help(program, stdout);
        return false;
    case ANSWER_VERSION:
        (void)printf("%s %s (commit %s)\n", program->name, SCREE_VERSION, version_commit());
        if (program->engine)
            (void)printf("%s\n", program->engine);
        return false;
    case ANSWER_PRINT_DOCS:
        *exit_code = print_page(arguments.page);
        return false;
    case ANSWER_RUN:
    case ANSWER_CHECK:
    case ANSWER_PRINT_CONFIG:
        break;
    }
    char error[ERROR_MAX];
    config_init_defaults(config, program->schema);
    if (!arguments.config_path || config_load(config, arguments.config_path, error, sizeof error)) {
        if (answer_with_config(program, answer, arguments.config_path, config, exit_code))
            return true;
    } else {
        (void)fprintf(stderr, "%s\n", error);
        *exit_code = EXIT_FAILURE;
    }
    config_fini(config);
    return false;
}
