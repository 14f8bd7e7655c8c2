#include "shared/backup_name.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <stdio.h>
#include <time.h>

bool backup_name_valid(struct bytes name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name.len == 0 || name.len > BACKUP_NAME_MAX || name.data[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr(allowed, name.data[i], sizeof allowed - 1))
            return false;
    return true;
}

struct bytes backup_time_name(uint64_t wall_ms, char text[BACKUP_TIME_NAME_MAX])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    CHECK(gmtime_r(&seconds, &utc));
    size_t len = strftime(text, BACKUP_TIME_NAME_MAX, "%Y%m%dT%H%M%S", &utc);
    CHECK(len > 0);
    len += (size_t)snprintf(text + len, BACKUP_TIME_NAME_MAX - len, ".%03uZ",
                            (unsigned)(wall_ms % 1000));
    return (struct bytes){text, len};
}

void backup_new_id(char id[BACKUP_ID_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";
    clock_random_bytes(id, BACKUP_ID_LEN);
    for (int i = 0; i < BACKUP_ID_LEN; i++)
        id[i] = hex[id[i] & 15];
    id[BACKUP_ID_LEN] = 0;
}
