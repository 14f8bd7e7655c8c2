#include "shared/secret.h"

bool secret_argument(const struct command *command, const struct bytes *argv, uint32_t index)
{
    switch ((int)command->id) {
    case COMMAND_auth:
        return index > 0;
    case COMMAND_scree_auth:
    case COMMAND_acl_setuser:
        return index > 1;
    case COMMAND_hello:
        return (index > 2 && bytes_is(argv[index - 1], "AUTH")) ||
               (index > 3 && bytes_is(argv[index - 2], "AUTH"));
    case COMMAND_config_set:
        return index > 2 && index % 2 == 1 &&
               (bytes_is(argv[index - 1], "requirepass") ||
                bytes_is(argv[index - 1], "masterauth") || bytes_is(argv[index - 1], "secret"));
    default:
        return false;
    }
}
