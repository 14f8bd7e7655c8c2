/*
 * tool.h - tools of scree-backend that run instead of the server: restore, verify, check, dump.
 *
 *   --restore BACKUP  --list-times BACKUP  --prune BACKUPS  --verify-backup BACKUP  --check-data DATA  --dump-keys DATA  --dump-log DATA
 *
 * Each prints results to standard output and progress to standard error, and returns the exit code: 0 no problem,
 * 1 a problem was found or an error occurred, 2 wrong arguments.
 */
#pragma once

#include "config/program.h"

enum tool {
    TOOL_RESTORE,
    TOOL_DATA,
    TOOL_MAP,
    TOOL_SHARD,
    TOOL_SLOTS,
    TOOL_NAMESPACE,
    TOOL_PARTITION,
    TOOL_TO,
    TOOL_LIST_TIMES,
    TOOL_ARCHIVE,
    TOOL_PRUNE,
    TOOL_DRY_RUN,
    TOOL_VERIFY_BACKUP,
    TOOL_CHECK_DATA,
    TOOL_REPAIR,
    TOOL_DROP_DAMAGED,
    TOOL_DUMP_KEYS,
    TOOL_JSON,
    TOOL_DUMP_LOG,
    TOOL_FROM,
    TOOL_COUNT,
};

enum { TOOL_GOOD = 0, TOOL_BAD = 1, TOOL_USAGE = 2, TOOL_ERROR_MAX = 8192 };

extern const struct program_tool tool_arguments[TOOL_COUNT];

/* Runs the requested tool. False: none was requested, so the server starts. */
bool tool_run(struct backend_config *config, const char *const given[TOOL_COUNT], int *exit_code);

/* The tools. `config` has the data directory and the options of stores. */
int tool_restore(const struct backend_config *config, const char *const given[TOOL_COUNT]);
int tool_verify(const char *backups);
/* Prints which moments the backups and the archive have together. */
int tool_times(const char *backups, const char *archive);
/* Deletes files of the archive that no backup in the directory needs; or only prints them. */
int tool_prune(const char *backups, const char *archive, bool is_dry);
enum check_wish { CHECK_ONLY, CHECK_REPAIR, CHECK_DROP };
int tool_check(const struct backend_config *config, enum check_wish wish);
int tool_dump(const struct backend_config *config, bool is_json);
/* `from`: an index as text; NULL: the first one. */
int tool_dump_log(const char *data, const char *from);

/* Writes a line of progress to standard error, at most one per second. */
void tool_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Does the data directory have the mark of an unfinished restore, <data>/RESTORING? Then the server does not start. */
bool tool_restore_is_open(const char *data);
