/*
 * fuzz_json.c - "path, zero byte, document": any path on any document ends with a result. A printed document reads back
 * as an equal one that prints the same text; positions found in the text are those of the tree.
 */
#include "backend/format/json/json_place.h"

#include <stdint.h>
#include <stdlib.h>

static const struct json_layout COMPACT;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bytes print(struct arena *arena, const json *value)
{
    struct json_text text;
    json_text_init(&text, arena);
    json_print(&text, value, &COMPACT, 0);
    return json_text_bytes(&text);
}

static void check_round_trip(struct arena *arena, const json *value)
{
    char error[JSON_ERROR_MAX];
    struct bytes text = print(arena, value);
    json *back = json_parse(text, error);
    if (!back || !bytes_equal(print(arena, back), text))
        abort();
}

/* The value found in the text equals the match in the tree, and replacing it in the text gives what the changed tree
 * prints. */
static void check_place(struct arena *arena, const struct json_path *path, json *root,
                        const struct json_matches *matches)
{
    struct bytes text = print(arena, root);
    struct bytes place;
    if (!json_place_find(arena, path, text, &place))
        return;
    const struct json_match *match = matches->count == 1 ? matches->items[0] : NULL;
    if (!match || !bytes_equal(print(arena, match->value), place))
        abort();
    struct bytes edited = json_place_put(arena, text, place, BYTES("-7"));
    if (!match->parent)
        root = json_new_integer(-7);
    else if (match->name.data)
        json_object_put(match->parent->value, match->name, json_new_integer(-7));
    else
        json_array_put(match->parent->value, match->index, json_new_integer(-7));
    if (!bytes_equal(print(arena, root), edited))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[JSON_ERROR_MAX];
    struct arena arena;
    struct json_path path;
    struct json_matches matches;
    const char *input = (const char *)data;
    const char *zero = size ? memchr(input, 0, size) : NULL;
    size_t path_len = zero ? (size_t)(zero - input) : 0;
    arena_init(&arena);
    json_use(&arena);
    json *root = json_parse(
        zero ? (struct bytes){zero + 1, size - path_len - 1} : (struct bytes){input, size}, error);
    if (root)
        check_round_trip(&arena, root);
    if (json_path_parse(&arena, (struct bytes){input, path_len}, &path, error) && root &&
        json_path_find(&arena, &path, root, &matches)) {
        for (size_t i = 0; i < matches.count && i < 100; i++)
            check_round_trip(&arena, matches.items[i]->value);
        check_place(&arena, &path, root, &matches);
    }
    arena_fini(&arena);
    return 0;
}
