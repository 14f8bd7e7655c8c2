#include "shared/check.h"

#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
    log_event(LOG_ERROR, "check_failed", "at=%s:%d condition=" LOG_QUOTED, file, line, condition);
    abort();
}
