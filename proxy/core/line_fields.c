#include "proxy/core/line_fields.h"

#include "config/option.h"
#include "shared/number.h"
#include "shared/slot.h"

#include <string.h>

struct bytes field_text(struct bytes line, const char *name)
{
    size_t name_len = strlen(name);
    struct bytes rest = line;
    struct bytes word;
    while (word_next(&rest, &word)) {
        bool is_rest = word.len >= 7 && memcmp(word.data, "reason=", 7) == 0;
        if (is_rest)
            word.len = (size_t)(line.data + line.len - word.data);
        if (word.len > name_len && memcmp(word.data, name, name_len) == 0 &&
            word.data[name_len] == '=')
            return (struct bytes){word.data + name_len + 1, word.len - name_len - 1};
        if (is_rest)
            break;
    }
    return (struct bytes){"", 0};
}

uint64_t field_number(struct bytes line, const char *name)
{
    uint64_t number = 0;
    return number_parse_uint64(field_text(line, name), &number) ? number : 0;
}

bool field_is(struct bytes line, const char *name, const char *text)
{
    return bytes_equal(field_text(line, name), bytes_of(text));
}

bool field_slots(struct bytes line, const char *name, unsigned *first, unsigned *last)
{
    struct bytes text = field_text(line, name);
    const char *dash = memchr(text.data, '-', text.len);
    uint64_t low, high;
    if (!dash || !number_parse_uint64((struct bytes){text.data, (size_t)(dash - text.data)}, &low))
        return false;
    struct bytes rest = {dash + 1, (size_t)(text.data + text.len - dash - 1)};
    if (!number_parse_uint64(rest, &high) || low > high || high >= SLOT_COUNT)
        return false;
    *first = (unsigned)low;
    *last = (unsigned)high;
    return true;
}
