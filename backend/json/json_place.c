/*
 * json_place.c - passing over values of a stored document until the one that is asked for.
 */
#include "backend/json/json_place.h"

#include "backend/json/json_segment.h"

/* `at` is on the next byte to be looked at; every reader stops at `end`. */
struct scan {
    const char *at;
    const char *end;
};

static bool accept(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* From the opening quote to behind the closing one. */
static void pass_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->end && *scan->at != '"')
        scan->at += *scan->at == '\\' && scan->end - scan->at > 1 ? 2 : 1;
    (void)accept(scan, '"');
}

/* To the comma or bracket behind the value. */
static void pass_value(struct scan *scan)
{
    unsigned depth = 0;
    while (scan->at < scan->end) {
        char c = *scan->at;
        if (depth == 0 && (c == ',' || c == ']' || c == '}'))
            return;
        if (c == '"') {
            pass_string(scan);
            continue;
        }
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
        scan->at++;
    }
}

/* Goes to the value of the member with this name, given as it is printed. */
static bool enter_member(struct scan *scan, struct bytes printed)
{
    if (!accept(scan, '{'))
        return false;
    while (scan->at < scan->end && *scan->at == '"') {
        const char *name = scan->at;
        pass_string(scan);
        bool is_it = bytes_equal((struct bytes){name, (size_t)(scan->at - name)}, printed);
        if (!accept(scan, ':'))
            return false;
        if (is_it)
            return true;
        pass_value(scan);
        if (!accept(scan, ','))
            return false;
    }
    return false;
}

static bool enter_element(struct scan *scan, int64_t index)
{
    if (!accept(scan, '[') || scan->at == scan->end || *scan->at == ']')
        return false;
    for (; index > 0; index--) {
        pass_value(scan);
        if (!accept(scan, ','))
            return false;
    }
    return true;
}

static bool enter(struct arena *arena, struct scan *scan, const struct json_segment *segment)
{
    const struct json_selector *selector = segment->selectors;
    if (segment->is_deep || segment->count != 1)
        return false;
    if (selector->kind == SELECT_INDEX)
        return selector->index >= 0 && enter_element(scan, selector->index);
    if (selector->kind != SELECT_NAME)
        return false;
    struct json_text printed;
    json_text_init(&printed, arena);
    json_print_string(&printed, selector->name);
    return enter_member(scan, json_text_bytes(&printed));
}

bool json_place_find(struct arena *arena, const struct json_path *path, struct bytes text,
                     struct bytes *place)
{
    struct scan scan = {text.data, text.data + text.len};
    for (uint32_t i = 0; i < path->count; i++)
        if (!enter(arena, &scan, &path->segments[i]))
            return false;
    const char *from = scan.at;
    pass_value(&scan);
    *place = (struct bytes){from, (size_t)(scan.at - from)};
    return place->len > 0;
}

struct bytes json_place_put(struct arena *arena, struct bytes text, struct bytes place,
                            struct bytes other)
{
    struct json_text made;
    const char *behind = place.data + place.len;
    json_text_init(&made, arena);
    json_text_add(&made, (struct bytes){text.data, (size_t)(place.data - text.data)});
    json_text_add(&made, other);
    json_text_add(&made, (struct bytes){behind, (size_t)(text.data + text.len - behind)});
    return json_text_bytes(&made);
}
