#include "backend/transaction/named_keys.h"

#include "backend/session/session.h"
#include "shared/command/keys.h"

static bool find_named_key(struct call *call, const struct command *command,
                           const struct bytes *argv, uint32_t argc, bool only_written,
                           named_key_fn *is_wanted, void *owner)
{
    struct key_list keys;
    bool is_found = false;
    keys_list_init(&keys);
    (void)keys_find(command, argv, argc, &keys);
    if (keys_lack_value(command, &keys, argc)) /* any shard may refuse the command */
        keys.count = 0;
    for (uint32_t i = 0; i < keys.count && !is_found; i++) {
        struct bytes key = argv[keys.refs[i].index];
        if (only_written && !key_is_written(&keys.refs[i]))
            continue;
        is_found = is_wanted(call, slot_rule_slot(call->session->scope.slot_rule, key), key, owner);
    }
    keys_list_fini(&keys);
    return is_found;
}

static bool find_in_commands(struct call *call, bool only_written, named_key_fn *is_wanted,
                             void *owner)
{
    const struct queued *queued =
        call->command->traits & TRAIT_RUNS_QUEUE ? call->session->transaction.first : NULL;
    if (find_named_key(call, call->command, call->argv, call->argc, only_written, is_wanted, owner))
        return true;
    for (; queued; queued = queued->next)
        if (find_named_key(call, queued->command, queued->argv, queued->argc, only_written,
                           is_wanted, owner))
            return true;
    return false;
}

bool named_keys_find(struct call *call, named_key_fn *is_wanted, void *owner)
{
    return find_in_commands(call, false, is_wanted, owner);
}

bool named_keys_find_written(struct call *call, named_key_fn *is_wanted, void *owner)
{
    return find_in_commands(call, true, is_wanted, owner);
}
