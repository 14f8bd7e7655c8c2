#include "backend/tool/tool.h"

#include "shared/log.h"

#include <stdlib.h>

const struct program_tool tool_arguments[TOOL_COUNT] = {
    [TOOL_RESTORE] = {"--restore", "BACKUP,...",
                      "restore a backup into an empty data directory, and exit", false},
    [TOOL_DATA] = {"--data", "DIR", "the data directory, in place of the configured one", false},
    [TOOL_MAP] = {"--map", "FILE", "restore: distribute the rows by this shard map", false},
    [TOOL_SHARD] = {"--shard", "NAME,NAME",
                    "restore: only these shards of the map, as partitions 0, 1 ...", false},
    [TOOL_SLOTS] = {"--slots", "RANGES",
                    "restore: only the rows of these slots, into one partition that owns none",
                    false},
    [TOOL_NAMESPACE] = {"--namespace", "NAME",
                        "restore --slots: only keys of this namespace; empty: the default one",
                        false},
    [TOOL_PARTITION] = {"--partition", "N",
                        "restore: one shard, in place of a damaged partition of the directory",
                        false},
    [TOOL_TO] = {"--to", "TIME|latest",
                 "restore: as of this moment after the backup, out of the archive", false},
    [TOOL_LIST_TIMES] = {"--list-times", "BACKUP,...",
                         "print as of which moments the backups can be restored, and exit", false},
    [TOOL_ARCHIVE] = {"--archive", "DIR,...",
                      "restore, list-times, prune: the directory of the archive (archive-dir)",
                      false},
    [TOOL_PRUNE] = {"--prune", "BACKUPS",
                    "delete files of the archive that no backup in this directory needs, and exit",
                    false},
    [TOOL_DRY_RUN] = {"--dry-run", NULL, "prune: only print what would be deleted", false},
    [TOOL_VERIFY_BACKUP] = {"--verify-backup", "BACKUP,...",
                            "compare every file with its checksum, and exit", false},
    [TOOL_CHECK_DATA] = {"--check-data", "DIR", "check every row of a data directory, and exit",
                         false},
    [TOOL_REPAIR] = {"--repair", NULL, "check-data: repair counters and indexes", false},
    [TOOL_DROP_DAMAGED] = {"--drop-damaged", NULL,
                           "check-data --repair: also delete keys that cannot be decoded", false},
    [TOOL_DUMP_KEYS] = {"--dump-keys", "DIR", "print a line for each key, and exit", false},
    [TOOL_JSON] = {"--json", NULL, "dump-keys: print one JSON object per line", false},
    [TOOL_DUMP_LOG] = {"--dump-log", "DIR", "print the effects of every batch in the WAL, and exit",
                       false},
    [TOOL_FROM] = {"--from", "INDEX", "dump-log: begin with this batch", false},
};

/* Options that need another option: given alone they would be ignored, and the server would start. */
static const struct {
    enum tool option, tool;
} options_of_tools[] = {
    {TOOL_MAP, TOOL_RESTORE},         {TOOL_SHARD, TOOL_RESTORE},   {TOOL_SLOTS, TOOL_RESTORE},
    {TOOL_PARTITION, TOOL_RESTORE},   {TOOL_NAMESPACE, TOOL_SLOTS}, {TOOL_REPAIR, TOOL_CHECK_DATA},
    {TOOL_DROP_DAMAGED, TOOL_REPAIR}, {TOOL_JSON, TOOL_DUMP_KEYS},  {TOOL_FROM, TOOL_DUMP_LOG},
    {TOOL_TO, TOOL_RESTORE},          {TOOL_TO, TOOL_ARCHIVE},      {TOOL_LIST_TIMES, TOOL_ARCHIVE},
    {TOOL_PRUNE, TOOL_ARCHIVE},       {TOOL_DRY_RUN, TOOL_PRUNE},
};

static void use_data(struct backend_config *config, const char *data)
{
    char error[OPTION_REASON_MAX];
    if (!config_set(&config->head, config_find(&config->head, BYTES("data")), bytes_of(data), error,
                    sizeof error)) {
        (void)fprintf(stderr, "%s\n", error);
        exit(TOOL_USAGE);
    }
}

/* The archive serves three tools, of which --restore needs to know the moment. */
static bool archive_has_tool(const char *const given[TOOL_COUNT])
{
    bool is_right =
        !given[TOOL_ARCHIVE] || given[TOOL_LIST_TIMES] || given[TOOL_PRUNE] || given[TOOL_TO];
    if (!is_right)
        (void)fputs(
            "--archive: only together with --list-times or --prune, or with --restore and --to\n",
            stderr);
    if (is_right && given[TOOL_TO] && given[TOOL_PARTITION]) {
        (void)fputs("--to: one partition alone would be of another moment than the others\n",
                    stderr);
        is_right = false;
    }
    return is_right;
}

/* False, and a line on stderr: an option was given without its tool. */
static bool options_have_tools(const char *const given[TOOL_COUNT])
{
    for (size_t i = 0; i < sizeof options_of_tools / sizeof *options_of_tools; i++) {
        enum tool option = options_of_tools[i].option, tool = options_of_tools[i].tool;
        if (given[option] && !given[tool]) {
            (void)fprintf(stderr, "%s: only together with %s\n", tool_arguments[option].name,
                          tool_arguments[tool].name);
            return false;
        }
    }
    return archive_has_tool(given);
}

bool tool_run(struct backend_config *config, const char *const given[TOOL_COUNT], int *exit_code)
{
    if (!options_have_tools(given)) {
        *exit_code = TOOL_USAGE;
        return true;
    }
    for (int i = 0; i < TOOL_COUNT; i++)
        if (given[i] && (i == TOOL_DATA || i == TOOL_CHECK_DATA || i == TOOL_DUMP_KEYS))
            use_data(config, given[i]);
    if (given[TOOL_RESTORE])
        *exit_code = tool_restore(config, given);
    else if (given[TOOL_LIST_TIMES])
        *exit_code = tool_times(given[TOOL_LIST_TIMES], given[TOOL_ARCHIVE]);
    else if (given[TOOL_PRUNE])
        *exit_code =
            tool_prune(given[TOOL_PRUNE], given[TOOL_ARCHIVE], given[TOOL_DRY_RUN] != NULL);
    else if (given[TOOL_VERIFY_BACKUP])
        *exit_code = tool_verify(given[TOOL_VERIFY_BACKUP]);
    else if (given[TOOL_CHECK_DATA])
        *exit_code = tool_check(config, given[TOOL_DROP_DAMAGED] ? CHECK_DROP
                                        : given[TOOL_REPAIR]     ? CHECK_REPAIR
                                                                 : CHECK_ONLY);
    else if (given[TOOL_DUMP_KEYS])
        *exit_code = tool_dump(config, given[TOOL_JSON] != NULL);
    else if (given[TOOL_DUMP_LOG])
        *exit_code = tool_dump_log(given[TOOL_DUMP_LOG], given[TOOL_FROM]);
    else
        return false;
    return true;
}
