#include "shared/slot_ranges.h"

#include "shared/number.h"
#include "shared/out.h"

#include <string.h>

static bool parse_slot(struct bytes text, uint64_t *slot)
{
    return number_parse_uint64(text, slot) && *slot < SLOT_COUNT;
}

/* Reads "7000" or "0-5460". */
static bool read_range_text(struct bytes text, uint64_t *first, uint64_t *last)
{
    const char *dash = text.len ? memchr(text.data, '-', text.len) : NULL;
    struct bytes left = {text.data, dash ? (size_t)(dash - text.data) : text.len};
    struct bytes right = dash ? (struct bytes){dash + 1, text.len - left.len - 1} : left;
    return parse_slot(left, first) && parse_slot(right, last) && *first <= *last;
}

bool slot_ranges_each(struct bytes text, slot_range_fn *on_range, void *owner)
{
    while (text.len) {
        uint64_t first;
        uint64_t last;
        size_t len = 0;
        while (len < text.len && text.data[len] != ' ' && text.data[len] != ',')
            len++;
        if (!read_range_text((struct bytes){text.data, len}, &first, &last))
            return false;
        on_range(owner, (uint16_t)first, (uint16_t)last);
        len += len < text.len;
        text = (struct bytes){text.data + len, text.len - len};
    }
    return true;
}

/* slot_range_fn */
static void note_range(void *owner, uint16_t first, uint16_t last)
{
    bool *is_in = owner;
    for (unsigned slot = first; slot <= last; slot++)
        is_in[slot] = true;
}

bool slot_ranges_read(struct bytes text, bool is_in[SLOT_COUNT])
{
    memset(is_in, 0, SLOT_COUNT * sizeof is_in[0]);
    return text.len && slot_ranges_each(text, note_range, is_in);
}

void slot_ranges_write(const bool is_in[SLOT_COUNT], char between, struct out *out)
{
    bool is_first = true;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        unsigned first = slot;
        if (!is_in[slot])
            continue;
        while (slot + 1 < SLOT_COUNT && is_in[slot + 1])
            slot++;
        if (!is_first)
            out_write(out, &between, 1);
        is_first = false;
        out_printf(out, "%u-%u", first, slot);
    }
}
