#include "shared/host_name.h"

#include <limits.h>
#include <unistd.h>

bool host_name_expand(struct bytes text, char to[HOST_NAME_BYTES_MAX + 1])
{
    char machine[HOST_NAME_MAX + 1] = "";
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        struct bytes piece = {text.data + i, 1};
        if (i + 1 < text.len && text.data[i] == '%' && text.data[i + 1] == 'h') {
            if (!*machine && gethostname(machine, sizeof machine) != 0)
                return false;
            piece = bytes_of(machine);
            i++;
        }
        if (piece.len > HOST_NAME_BYTES_MAX - len)
            return false;
        memcpy(to + len, piece.data, piece.len);
        len += piece.len;
    }
    to[len] = '\0';
    return true;
}
