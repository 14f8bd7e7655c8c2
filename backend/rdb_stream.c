/*
 * rdb_stream.c - streams as RDB writes them.
 */
#include "backend/call.h"
#include "backend/rdb.h"

bool rdb_save_stream(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    (void)entry;
    (void)writer;
    call_error(call, ERR_WRONGTYPE);
    return false;
}

bool rdb_load_stream(struct call *call, struct entry *entry, struct rdb_reader *reader,
                     enum rdb_type type)
{
    (void)call;
    (void)entry;
    (void)reader;
    (void)type;
    return false;
}
