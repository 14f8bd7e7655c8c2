#include "backend/storage/stamps.h"

#include "backend/format/encoding.h"

bool stamps_place_of(enum cf cf, struct bytes key, size_t *place)
{
    struct bytes space, user_key, sub;
    uint16_t slot;
    uint64_t version;
    bool is_inside = cf_has_collections(cf) &&
                     decode_collection_key(key, &space, &slot, &user_key, &version, &sub);
    *place = is_inside ? stamp_place(version) : 0;
    return is_inside;
}

void stamps_row(struct stamps *stamps, enum cf cf, struct bytes key)
{
    size_t place;
    if (stamps_place_of(cf, key, &place))
        stamps->of[place]++;
}

/* Are all rows of the range in the collection with this prefix? */
static bool is_inside(struct bytes prefix, struct bytes to)
{
    return (to.len >= prefix.len && memcmp(to.data, prefix.data, prefix.len) == 0) ||
           is_prefix_end(prefix, to);
}

bool stamps_place_of_range(enum cf cf, struct bytes from, struct bytes to, size_t *place)
{
    struct bytes prefix;
    return decode_collection_prefix(from, &prefix) && is_inside(prefix, to) &&
           stamps_place_of(cf, from, place);
}

void stamps_range(struct stamps *stamps, enum cf cf, struct bytes from, struct bytes to)
{
    size_t place;
    if (!cf_has_collections(cf))
        return;
    if (stamps_place_of_range(cf, from, to, &place))
        stamps->of[place]++;
    else
        stamps_all(stamps);
}
