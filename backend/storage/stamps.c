#include "backend/storage/stamps.h"

#include "backend/format/encoding.h"

void stamps_row(struct stamps *stamps, enum cf cf, struct bytes key)
{
    struct bytes space, user_key, sub;
    uint16_t slot;
    uint64_t version;
    if (cf_has_collections(cf) &&
        decode_collection_key(key, &space, &slot, &user_key, &version, &sub))
        stamps->of[stamp_place(version)]++;
}

/* Are all rows of the range in the collection with this prefix? */
static bool is_inside(struct bytes prefix, struct bytes to)
{
    return (to.len >= prefix.len && memcmp(to.data, prefix.data, prefix.len) == 0) ||
           is_prefix_end(prefix, to);
}

void stamps_range(struct stamps *stamps, enum cf cf, struct bytes from, struct bytes to)
{
    struct bytes prefix;
    if (!cf_has_collections(cf))
        return;
    if (decode_collection_prefix(from, &prefix) && is_inside(prefix, to))
        stamps_row(stamps, cf, from);
    else
        stamps_all(stamps);
}
