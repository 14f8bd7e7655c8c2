/*
 * to_file.h - writes a backup as an RDB file of Redis.
 *
 *   backup_rdb ─► rdb_input ─► items ─┬─ first time: counted, because sizes of databases stand before their keys; `check` ends here
 *                                     └─ second time: rdb_output
 *
 * Values go through as they are, whole or in parts (format/rdb_file.h), so what is written has been read by the reader of RDB files. Keys
 * of types that the wanted version of RDB lacks are left out, named and counted as refused.
 */
#pragma once

#include "backend/copy/report.h"

enum copy_exit to_file_run(const struct copy_options *options);
