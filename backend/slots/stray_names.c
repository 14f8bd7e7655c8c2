#include "backend/slots/stray_names.h"

#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/slots/stray_page.h"
#include "shared/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 128 }; /* of a key, that are shown */

void stray_names_clear(struct stray_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free(names->lines[i]);
    names->count = 0;
}

/* Writes the front of a key's name with escapes for what cannot be read. */
static void show_name(const struct sent_key *key, char text[4 * NAME_BYTES + 1])
{
    size_t at = 0;
    for (size_t i = 0; i < key->len && i < NAME_BYTES; i++) {
        unsigned char c = (unsigned char)key->key[i];
        bool is_plain = c > 32 && c < 127 && c != '\\';
        at += (size_t)snprintf(text + at, 5, is_plain ? "%c" : "\\x%02x", c);
    }
    text[at] = 0;
}

void stray_names_add(struct stray_names *names, struct partition *partition,
                     const struct sent_key *key)
{
    char text[4 * NAME_BYTES + 1];
    struct bytes name;
    uint8_t database;
    if (names->count == STRAY_NAMES_MAX)
        return;
    show_name(key, text);
    space_place(partition->spaces, key->space, &name, &database);
    CHECK(asprintf(&names->lines[names->count++], "present slot=%u namespace=%.*s db=%u key=%s%s",
                   key->slot, (int)name.len, name.len ? name.data : "", database, text,
                   key->len > NAME_BYTES ? "..." : "") > 0);
}

void stray_names_each(const struct stray_names *names,
                      void (*on_line)(void *owner, const char *line), void *owner)
{
    for (uint32_t i = 0; i < names->count; i++)
        on_line(owner, names->lines[i]);
}
