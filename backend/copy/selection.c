#include "backend/copy/selection.h"

#include "shared/glob.h"

int64_t selection_db(const struct copy_options *options, uint64_t db)
{
    const struct copy_dbs *dbs = &options->dbs;
    if (options->to.db >= 0)
        return options->to.db;
    for (unsigned i = 0; i < dbs->count; i++)
        if (dbs->from[i] == db)
            return (int64_t)dbs->to[i];
    return dbs->count ? -1 : (int64_t)db;
}

static bool fits_any(const struct copy_globs *globs, struct bytes key)
{
    for (unsigned i = 0; i < globs->count; i++)
        if (glob_match(globs->all[i], key))
            return true;
    return false;
}

static bool starts_with_prefix(struct bytes key, struct bytes prefix)
{
    return key.len >= prefix.len && (!prefix.len || memcmp(key.data, prefix.data, prefix.len) == 0);
}

static struct bytes with_prefix(struct arena *arena, struct bytes prefix, struct bytes rest)
{
    char *name = arena_alloc(arena, prefix.len + rest.len);
    char *end = name;
    (void)bytes_copy_to(&end, prefix);
    (void)bytes_copy_to(&end, rest);
    return (struct bytes){name, prefix.len + rest.len};
}

bool selection_key(const struct copy_options *options, struct arena *arena, struct bytes key,
                   struct bytes *name)
{
    if ((options->match.count && !fits_any(&options->match, key)) ||
        fits_any(&options->skip, key) || !starts_with_prefix(key, options->strip))
        return false;
    struct bytes rest = {key.data + options->strip.len, key.len - options->strip.len};
    *name = options->add.len ? with_prefix(arena, options->add, rest) : rest;
    return true;
}
