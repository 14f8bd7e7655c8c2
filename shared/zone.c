#include "shared/zone.h"

#include "shared/shard_map.h"

#include <stdlib.h>

bool zone_name_valid(struct bytes name)
{
    return name.len <= ZONE_NAME_MAX && shard_name_valid(name);
}

/* The variable is not set where, for example, a node has no label: then there is no zone. */
static bool read_variable(struct bytes name, struct bytes *value)
{
    char variable[ZONE_NAME_MAX + 1];
    if (!zone_name_valid(name))
        return false;
    memcpy(variable, name.data, name.len);
    variable[name.len] = '\0';
    const char *found = getenv(variable);
    *value = bytes_of(found ? found : "");
    return true;
}

bool zone_expand(struct bytes text, char to[ZONE_NAME_MAX + 1])
{
    struct bytes name = text;
    to[0] = '\0';
    if (text.len && text.data[0] == '$' &&
        !read_variable((struct bytes){text.data + 1, text.len - 1}, &name))
        return false;
    if (!name.len)
        return true;
    if (!zone_name_valid(name))
        return false;
    memcpy(to, name.data, name.len);
    to[name.len] = '\0';
    return true;
}
