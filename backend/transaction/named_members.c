#include "backend/transaction/named_members.h"

#include "shared/command/arguments.h"

bool named_members_find(const struct command *command, const struct bytes *argv, uint32_t argc,
                        struct named_members *members)
{
    uint32_t traits = command->traits;
    uint32_t options;
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
        *members = (struct named_members){.first = add_arguments_find(argv, argc, &options) + 1,
                                          .step = 2};
    else
        return traits & TRAIT_MEMBERS_NONE;
    return true;
}
