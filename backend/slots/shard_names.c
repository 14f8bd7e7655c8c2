#include "backend/slots/shard_names.h"

#include "shared/check.h"
#include "shared/table.h"

#include <stdlib.h>

static void *number_value(uint16_t number)
{
    return (void *)(uintptr_t)(number + 1u);
}

void shard_names_init(struct shard_names *names)
{
    *names = (struct shard_names){.numbers = table_new()};
}

void shard_names_fini(struct shard_names *names)
{
    for (uint16_t i = 0; i < names->count; i++)
        free(names->texts[i]);
    free((void *)names->texts);
    table_free(names->numbers);
}

uint16_t shard_names_put(struct shard_names *names, struct bytes text)
{
    uintptr_t found = (uintptr_t)table_get(names->numbers, text);
    if (found)
        return (uint16_t)(found - 1);
    CHECK(names->count < UINT16_MAX);
    names->texts = (char **)realloc((void *)names->texts, (names->count + 1u) * sizeof(char *));
    CHECK(names->texts);
    names->texts[names->count] = strndup(text.data, text.len);
    CHECK(names->texts[names->count]);
    (void)table_put(names->numbers, text, number_value(names->count));
    return names->count++;
}

void shard_names_keep(struct shard_names *names, uint16_t *numbers)
{
    uint16_t kept = 0;
    for (uint16_t i = 0; i < names->count; i++) {
        char *text = names->texts[i];
        if (numbers[i]) {
            (void)table_put(names->numbers, bytes_of(text), number_value(kept));
            names->texts[kept] = text;
            numbers[i] = ++kept;
        } else {
            (void)table_remove(names->numbers, bytes_of(text));
            free(text);
        }
    }
    names->count = kept;
}
