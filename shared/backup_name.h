/*
 * backup_name.h - what backups are called: a name that is good as a file's, by default the time they began.
 */
#pragma once

#include "shared/bytes.h"

enum { BACKUP_NAME_MAX = 64, BACKUP_ID_LEN = 32, BACKUP_TIME_NAME_MAX = 32 };

/* May it name a backup, a shard or a file: letters, digits, '.', '_', '-', no dot in front? */
bool backup_name_valid(struct bytes name);
/* "20261121T130000.123Z"; borrowed from `text`. */
struct bytes backup_time_name(uint64_t wall_ms, char text[BACKUP_TIME_NAME_MAX]);
/* Random digits that tell one backup from all others. */
void backup_new_id(char id[BACKUP_ID_LEN + 1]);
