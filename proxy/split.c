#include "proxy/split.h"

#include "shared/check.h"
#include "shared/number.h"

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
    if (first == 0) { /* the arguments begin behind "*n\r\n" */
        const char *line = memchr(split->base, '\r', end);
        CHECK(line);
        begin = (size_t)(line - split->base) + 2;
    }
    if (split->block)
        out_write_block(out, split->block, split->base + begin, end - begin);
    else
        out_write(out, split->base + begin, end - begin);
}

static void write_array_header(struct out *out, uint32_t argc)
{
    char header[INT64_TEXT_MAX + 3] = "*";
    size_t len = 1 + number_format_int64(header + 1, argc);
    header[len++] = '\r';
    header[len++] = '\n';
    out_write(out, header, len);
}

void split_write(const struct split *split, const uint16_t *order, uint32_t count,
                 struct out *const *outs)
{
    const struct key_list *keys = split->keys;
    CHECK(keys->count > 1);
    CHECK(count <= SHARD_COUNT_MAX);
    uint32_t step = keys->refs[1].index - keys->refs[0].index;
    uint32_t before = keys->refs[0].index;
    uint32_t behind = keys->refs[keys->count - 1].index + step;
    CHECK(before > 0 && step > 0);
    CHECK(behind <= split->argc);

    uint32_t groups[SHARD_COUNT_MAX];
    memset(groups, 0, count * sizeof(*groups));
    for (uint32_t i = 0; i < keys->count; i++)
        groups[order[i]]++;
    for (uint32_t part = 0; part < count; part++) {
        if (!outs[part])
            continue;
        write_array_header(outs[part], before + groups[part] * step + split->argc - behind);
        write_args(split, 0, before - 1, outs[part]);
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        uint32_t first = keys->refs[i].index;
        if (outs[order[i]])
            write_args(split, first, first + step - 1, outs[order[i]]);
    }
    for (uint32_t part = 0; part < count && behind < split->argc; part++) {
        if (outs[part])
            write_args(split, behind, split->argc - 1, outs[part]);
    }
}
