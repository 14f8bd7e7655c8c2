/*
 * script_flags.h - the flags in the first line of a script: "#!lua flags=no-writes,allow-stale".
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>

/* Does the script's first line have the flag no-writes? */
bool script_text_only_reads(struct bytes script);
