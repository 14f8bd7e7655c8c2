#include "backend/partition/named_members.h"

/* The position of the first score, after the options of ZADD. */
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
    uint32_t traits = command->traits;
    *members = (struct named_members){.first = argc, .step = 1};
    if (traits & TRAIT_MEMBERS_PAIRS)
        *members = (struct named_members){.first = 2, .step = 2};
    else if (traits & TRAIT_MEMBERS_AT_2)
        *members = (struct named_members){.first = 2, .step = argc};
    else if (traits & TRAIT_MEMBERS_AT_3)
        *members = (struct named_members){.first = 3, .step = argc};
    else if (traits & TRAIT_MEMBERS_FROM_2)
        members->first = 2;
    else if (traits & TRAIT_MEMBERS_SCORED)
        *members = (struct named_members){.first = first_score(argv, argc) + 1, .step = 2};
    else
        return traits & TRAIT_MEMBERS_NONE;
    return true;
}
