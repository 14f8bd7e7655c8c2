/*
 * backup_name.h - names of backups: usable as file names, by default the time at which the backup began.
 */
#pragma once

#include "shared/bytes.h"

enum {
    BACKUP_NAME_MAX = 64,
    BACKUP_ID_LEN = 32,
    BACKUP_TIME_NAME_MAX = 32,
    BACKUP_MOMENT_MAX = 128, /* bytes of the text of a moment (backup_moment.h), and a zero byte */
    BACKUP_SLOTS_MAX = 200,  /* bytes of the text of slot ranges */
};

/* Can `name` name a backup, a shard or a file: only letters, digits, '.', '_', '-', and no leading dot? */
bool backup_name_valid(struct bytes name);
/* "20261121T130000.123Z"; the result points into `text`. */
struct bytes backup_time_name(uint64_t wall_ms, char text[BACKUP_TIME_NAME_MAX]);
/* Random hex digits that identify one backup. */
void backup_new_id(char id[BACKUP_ID_LEN + 1]);
