#include "backend/backup/database_map.h"

#include "backend/format/encoding.h"
#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

void database_map_note(struct table *maps, struct bytes key, struct bytes value)
{
    struct bytes name;
    if (!decode_database_map_key(key, &name) || value.len != DATABASES_MAX)
        return;
    char *copy = malloc(value.len);
    CHECK(copy);
    memcpy(copy, value.data, value.len);
    free(table_put(maps, name, copy));
}

struct bytes database_map_find(const struct table *maps, struct bytes space, uint8_t *database)
{
    bool is_first = space.len < 2 || space.data[space.len - 2] != 0;
    struct bytes name = {space.data, is_first ? space.len : space.len - 2};
    uint8_t storage = is_first ? 0 : (uint8_t)space.data[space.len - 1];
    const char *map = table_get(maps, name);
    *database = storage;
    for (uint8_t i = 0; map && i < DATABASES_MAX; i++)
        if ((uint8_t)map[i] == storage)
            *database = i;
    return name;
}
