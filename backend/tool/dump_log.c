/*
 * dump_log.c - --dump-log: the effects of every batch in the WAL, even while a backend is running.
 *
 *   # partition-0
 *   12 batch term 0 commit 12 time 1763871600123 hybrid 1763871600123456 version 1763871600123456 effects 2
 *   12 put metadata - 7629 \x00\x1d\xcdk \x81\x00\x00\x00\x00\x00\x00\x00\x00v
 *   12 delete-range data tenant 5-7 ... ...
 *
 *   index, kind ('internal-': the shard's own change), column family, storage namespace ('-': the default one, '*': any), slot or slots ('-': of the
 *   partition), then key and value, or both ends of a range ('-': empty)
 */
#include "backend/format/effects.h"
#include "backend/store/store.h"
#include "backend/tool/tool.h"
#include "backend/wal/wal.h"
#include "shared/path.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTITIONS = 64 };

static void print_log_bytes(struct bytes text)
{
    (void)fputs(text.len ? " " : " -", stdout);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool is_plain = c > 32 && c < 127 && c != '\\' && !(c == '-' && text.len == 1);
        if (is_plain)
            (void)putchar(c);
        else
            (void)printf("\\x%02x", c);
    }
}

static void print_effect_slots(const struct effect_place *place)
{
    if (place->first_slot == EFFECT_NO_SLOT)
        (void)fputs(" -", stdout);
    else if (place->first_slot == place->last_slot)
        (void)printf(" %u", place->first_slot);
    else
        (void)printf(" %u-%u", place->first_slot, place->last_slot);
}

static void print_effect(uint64_t index, const struct effect *effect)
{
    static const char *const kinds[] = {"put", "delete", "delete-range", "note"};
    (void)printf("%" PRIu64 " %s%s %s", index, effect->is_internal ? "internal-" : "",
                 kinds[effect->kind], store_family_name(effect->cf));
    if (effect->place.is_any_space)
        (void)fputs(" *", stdout);
    else
        print_log_bytes(effect->place.space);
    print_effect_slots(&effect->place);
    print_log_bytes(effect->key);
    if (effect->kind != EFFECT_DELETE)
        print_log_bytes(effect->kind == EFFECT_DELETE_RANGE ? effect->to : effect->value);
    (void)putchar('\n');
}

static const char *type_name(enum effects_type type)
{
    return type == EFFECTS_PROBE ? "probe" : type == EFFECTS_MEMBERS ? "members" : "batch";
}

/* wal_fn; `owner` points to the first index to print. */
static bool print_batch(void *owner, uint64_t index, struct bytes batch, char *error, size_t size)
{
    struct effects_header header;
    struct effects_reader reader;
    struct effect effect;
    if (index < *(const uint64_t *)owner)
        return true;
    if (effects_is_write_batch(batch)) {
        (void)printf("%" PRIu64 " of format 1, which the next start rewrites\n", index);
        return true;
    }
    enum effects_read result = effects_open(batch, &header, &reader);
    if (result == EFFECTS_READ)
        (void)printf("%" PRIu64 " %s term %" PRIu64 " commit %" PRIu64 " time %" PRIu64
                     " hybrid %" PRIu64 " version %" PRIu64 " effects %" PRIu32 "\n",
                     index, type_name(header.type), header.term, header.commit, header.origin_ms,
                     header.hybrid, header.version, header.count);
    while (result == EFFECTS_READ &&
           (result = effects_next_or_note(&reader, &effect)) == EFFECTS_READ)
        print_effect(index, &effect);
    if (result != EFFECTS_END)
        (void)snprintf(error, size, "%s", effects_refusal(result));
    return result == EFFECTS_END;
}

int tool_dump_log(const char *data, const char *from)
{
    char path[PATH_MAX], error[TOOL_ERROR_MAX], *end = NULL;
    uint64_t first = from ? strtoull(from, &end, 10) : 1;
    bool good = true;
    int count = 0;
    if (from && (*from < '0' || *from > '9' || *end)) {
        (void)fprintf(stderr, "--from: expected the index of a batch, got '%s'\n", from);
        return TOOL_USAGE;
    }
    for (; good && count < PARTITIONS; count++) {
        int len = snprintf(path, sizeof path, "%s/partition-%d", data, count);
        if (len >= (int)sizeof path || !path_exists(path))
            break;
        (void)printf("# partition-%d\n", count);
        good = wal_read_only(path, print_batch, &first, error, sizeof error);
        if (!good)
            (void)fprintf(stderr, "%s\n", error);
    }
    if (count == 0)
        (void)fprintf(stderr, "%s: no partition-<index> found: expected a data directory\n", data);
    return good && count ? TOOL_GOOD : TOOL_BAD;
}
