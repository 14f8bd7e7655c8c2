#include "backend/transaction/portion.h"

#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"

enum {
    PORTIONS_ON_THE_WAY = 8
}; /* of other transactions, at least, for which peer-output-limit suffices */

struct bytes portions_next(struct portions *portions, const struct partition *partition)
{
    uint64_t size = partition->snapshot->config.peer_output_limit_bytes / PORTIONS_ON_THE_WAY;
    uint64_t rest = portions->len - portions->at;
    if (size > partition->shards.steps.portion_bytes)
        size = partition->shards.steps.portion_bytes;
    struct bytes portion = {portions->bytes + portions->at, rest < size ? rest : size};
    portions->at += portion.len;
    return portion;
}
