#include "proxy/core/split.h"

#include "shared/check.h"

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

void split_parts_init(struct split_parts *parts)
{
    parts->count = 0;
    memset(parts->part_after, 0, sizeof parts->part_after);
}

/* The part of the shard; a new one has the arguments that go to every shard. */
static uint16_t part_of_shard(const struct split *split, const struct layout *layout,
                              uint16_t shard, struct split_parts *parts)
{
    CHECK(shard < SHARD_COUNT_MAX);
    if (!parts->part_after[shard]) {
        parts->shards[parts->count] = shard;
        parts->argcs[parts->count] = layout->before + split->argc - layout->behind;
        parts->part_after[shard] = (uint16_t)++parts->count;
    }
    return (uint16_t)(parts->part_after[shard] - 1);
}

void split_group(const struct split *split, struct split_range range, uint16_t *order,
                 struct split_parts *parts)
{
    struct layout layout = layout_of(split);
    for (uint32_t i = range.from; i < range.to; i++) {
        order[i] = part_of_shard(split, &layout, split->shards[i], parts);
        parts->argcs[order[i]] += layout.step;
    }
}

/* Writes arguments first..last to every part; none if first > last. */
static void write_all(const struct split *split, uint32_t first, uint32_t last, uint32_t count,
                      struct out *const *outs)
{
    for (uint32_t part = 0; part < count && first <= last; part++) {
        if (outs[part])
            write_args(split, first, last, outs[part]);
    }
}

void split_write(const struct split *split, struct split_range range, const uint16_t *order,
                 uint32_t count, struct out *const *outs)
{
    struct layout layout = layout_of(split);
    if (range.from == 0)
        write_all(split, 0, layout.before - 1, count, outs);
    for (uint32_t i = range.from; i < range.to; i++) {
        uint32_t first = split->keys->refs[i].index;
        if (outs[order[i]])
            write_args(split, first, first + layout.step - 1, outs[order[i]]);
    }
    if (range.to == split->keys->count)
        write_all(split, layout.behind, split->argc - 1, count, outs);
}
