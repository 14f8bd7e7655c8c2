#include "shared/command/secret.h"

bool secret_argument(const struct command *command, const struct bytes *argv, uint32_t index)
{
    switch (command->secret) {
    case SECRET_NONE:
        break;
    case SECRET_FROM_1:
        return index > 0;
    case SECRET_FROM_2:
        return index > 1;
    case SECRET_BEHIND_AUTH:
        return (index > 2 && bytes_is(argv[index - 1], "AUTH")) ||
               (index > 3 && bytes_is(argv[index - 2], "AUTH"));
    case SECRET_OPTION_VALUES:
        return index > 2 && index % 2 == 1 &&
               (bytes_is(argv[index - 1], "requirepass") ||
                bytes_is(argv[index - 1], "masterauth") || bytes_is(argv[index - 1], "secret") ||
                bytes_is(argv[index - 1], "secret-previous"));
    }
    return false;
}
