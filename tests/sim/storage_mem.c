#include "tests/sim/storage_mem.h"

void storage_mem_reset(void)
{
    store_mem_reset();
    wal_mem_reset();
}

void storage_mem_seed(uint64_t seed)
{
    store_mem_seed(seed);
    wal_mem_seed(~seed);
}

void storage_mem_crash(struct storage *storage)
{
    wal_mem_crash(storage_wal(storage));
    store_mem_crash(storage_store(storage));
}

void storage_mem_fail_next(struct storage *storage, uint64_t n, int kind)
{
    wal_mem_fail_next(storage_wal(storage), n, kind);
}

void storage_mem_fail_recover(struct storage *storage, uint64_t times)
{
    wal_mem_fail_rotate(storage_wal(storage), times);
    store_mem_fail_reopen(storage_store(storage), times);
}
