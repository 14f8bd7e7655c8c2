#include "proxy/core/split.h"

#include "shared/check.h"

uint32_t split_group(const struct split *split, uint16_t *order, uint16_t *parts)
{
    uint16_t position[SHARD_COUNT_MAX] = {0}; /* index in parts[] of each shard, plus one */
    uint16_t count = 0;
    for (uint32_t i = 0; i < split->keys->count; i++) {
        uint16_t shard = split->shards[i];
        CHECK(shard < SHARD_COUNT_MAX);
        if (!position[shard]) {
            parts[count++] = shard;
            position[shard] = count;
        }
        order[i] = (uint16_t)(position[shard] - 1);
    }
    return count;
}

/* Offset of argument i in the frame, with its RESP header. */
static size_t arg_begin(const struct split *split, uint32_t i)
{
    CHECK(i > 0);
    return (size_t)split->args[i - 1].at + split->args[i - 1].len + 2;
}

/* Copies arguments first..last, which are contiguous. */
static void write_args(const struct split *split, uint32_t first, uint32_t last, struct out *out)
{
    size_t begin = first == 0 ? 0 : arg_begin(split, first);
    size_t end = (size_t)split->args[last].at + split->args[last].len + 2;
    if (first == 0) { /* the arguments begin after "*n\r\n" */
        const char *line = memchr(split->base, '\r', end);
        CHECK(line);
        begin = (size_t)(line - split->base) + 2;
    }
    if (split->block)
        out_write_block(out, split->block, split->base + begin, end - begin);
    else
        out_write(out, split->base + begin, end - begin);
}

/* Where the arguments of a split request begin and end. */
struct layout {
    uint32_t step;   /* arguments of one group: a key and those after it */
    uint32_t before; /* arguments before the first group */
    uint32_t behind; /* index of the first argument after the last group */
};

static struct layout layout_of(const struct split *split)
{
    const struct key_list *keys = split->keys;
    CHECK(keys->count > 1);
    uint32_t step = keys->refs[1].index - keys->refs[0].index;
    struct layout layout = {
        .step = step,
        .before = keys->refs[0].index,
        .behind = keys->refs[keys->count - 1].index + step,
    };
    CHECK(layout.before > 0 && step > 0);
    CHECK(layout.behind <= split->argc);
    return layout;
}

void split_count(const struct split *split, const uint16_t *order, uint32_t count, uint32_t *argcs)
{
    struct layout layout = layout_of(split);
    for (uint32_t part = 0; part < count; part++)
        argcs[part] = layout.before + split->argc - layout.behind;
    for (uint32_t i = 0; i < split->keys->count; i++)
        argcs[order[i]] += layout.step;
}

void split_write(const struct split *split, const uint16_t *order, uint32_t count,
                 struct out *const *outs)
{
    struct layout layout = layout_of(split);
    for (uint32_t part = 0; part < count; part++) {
        if (outs[part])
            write_args(split, 0, layout.before - 1, outs[part]);
    }
    for (uint32_t i = 0; i < split->keys->count; i++) {
        uint32_t first = split->keys->refs[i].index;
        if (outs[order[i]])
            write_args(split, first, first + layout.step - 1, outs[order[i]]);
    }
    for (uint32_t part = 0; part < count && layout.behind < split->argc; part++) {
        if (outs[part])
            write_args(split, layout.behind, split->argc - 1, outs[part]);
    }
}
