#include "backend/partition/named_members.h"

/* The first score after the options of ZADD. */
static uint32_t first_score(const struct bytes *argv, uint32_t argc)
{
    static const char *const options[] = {"nx", "xx", "gt", "lt", "ch", "incr"};
    uint32_t at = 2;
    uint32_t i = 0;
    while (at < argc && i < sizeof options / sizeof options[0]) {
        bool is_option = bytes_is(argv[at], options[i]);
        at += is_option;
        i = is_option ? 0 : i + 1; /* the next argument may be any option */
    }
    return at;
}

bool named_members_find(const struct command *command, const struct bytes *argv, uint32_t argc,
                        struct named_members *members)
{
    *members = (struct named_members){.first = argc, .step = 1};
    switch (command->id) {
    case COMMAND_hset:
    case COMMAND_hmset:
        *members = (struct named_members){.first = 2, .step = 2};
        return true;
    case COMMAND_hsetnx:
    case COMMAND_hincrby:
    case COMMAND_hincrbyfloat:
        *members = (struct named_members){.first = 2, .step = argc};
        return true;
    case COMMAND_hget:
    case COMMAND_hmget:
    case COMMAND_hdel:
    case COMMAND_hexists:
    case COMMAND_hstrlen:
    case COMMAND_sadd:
    case COMMAND_srem:
    case COMMAND_sismember:
    case COMMAND_smismember:
    case COMMAND_zrem:
    case COMMAND_zscore:
    case COMMAND_zmscore:
        members->first = 2;
        return true;
    case COMMAND_zadd:
        *members = (struct named_members){.first = first_score(argv, argc) + 1, .step = 2};
        return true;
    case COMMAND_zincrby:
    case COMMAND_smove:
        members->first = 3;
        return true;
    case COMMAND_lpush:
    case COMMAND_lpushx:
    case COMMAND_rpush:
    case COMMAND_rpushx:
    case COMMAND_set:
    case COMMAND_del:
    case COMMAND_unlink:
    case COMMAND_exists:
    case COMMAND_type:
    case COMMAND_expire:
    case COMMAND_pexpire:
    case COMMAND_expireat:
    case COMMAND_pexpireat:
    case COMMAND_persist:
    case COMMAND_ttl:
    case COMMAND_pttl:
    case COMMAND_hlen:
    case COMMAND_scard:
    case COMMAND_zcard:
    case COMMAND_llen:
        return true;
    default:
        return false;
    }
}
