/*
 * json_document.c - JSON commands on whole values: set, get, merge, delete, clear.
 */
#include "backend/commands/equal_words.h"
#include "backend/commands/json.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/merge_sort.h"
#include "shared/table.h"

#include <stdlib.h>

static const struct json_layout COMPACT;

/* ---- JSON.SET, JSON.MSET, JSON.MERGE ---- */

enum when { ALWAYS, ONLY_NEW, ONLY_OLD };

/* Error for a path that matches nothing and does not end in a member's name, so that no value can be added. */
static void error_no_place(struct call *call, const struct json_path *path)
{
    if (json_path_ends_in_index(path))
        call_error_text(call, "ERR array index out of range");
    else
        call_error_text(call, "ERR the path matches nothing; only a path that ends in a "
                              "member's name can add a value");
}

enum { MEMBER_WORK = 20 };

/* Work of setting a member: its name is copied. */
static size_t member_work(struct bytes name)
{
    return MEMBER_WORK + name.len / 32;
}

/* Sets a value at a path: replaces every match; without a match, adds a member to the objects that the path without
 * its last name matches. False: nothing was changed, or an error was replied. */
static bool put_value(struct json_edit *edit, json *value, enum when when)
{
    struct json_path parent;
    struct json_matches parents;
    struct bytes name;
    for (size_t i = 0;
         i < edit->matches.count && when != ONLY_NEW && call_goes_on(edit->call, MEMBER_WORK); i++)
        json_replace(edit, edit->matches.items[i], value);
    if (edit->matches.count || when == ONLY_OLD)
        return edit->changed;
    if (!json_path_split(&edit->path, &parent, &name)) {
        error_no_place(edit->call, &edit->path);
        return false;
    }
    if (!json_path_find(edit->call->arena, &parent, edit->root, &parents))
        return false;
    for (size_t i = 0; i < parents.count && call_goes_on(edit->call, member_work(name)); i++) {
        if (json_kind_of(parents.items[i]->value) != JSON_KIND_OBJECT)
            continue;
        json_object_put(parents.items[i]->value, name, value);
        edit->changed = true;
    }
    return edit->changed;
}

/* Replaces the document of the entry, or creates it; removes the TTL. */
static bool put_document(struct call *call, struct entry *entry, json *value)
{
    if (entry->exists)
        entry->meta.expire_ms = 0;
    json_save(call, entry, value);
    return !call->failed;
}

/* Replaces the value at the path in the document's text, without a tree. False: not possible in the text; use the
 * tree. */
static bool put_place(struct json_edit *edit, json *value, enum when when)
{
    struct call *call = edit->call;
    struct bytes place;
    if (when == ONLY_NEW || !edit->entry.exists ||
        !json_place_find(call->arena, &edit->path, edit->entry.meta.payload, &place))
        return false;
    json_save_place(edit, place, value);
    if (!call->failed)
        notify(call, NOTIFY_MODULE, edit->event, edit->entry.key);
    return true;
}

/* Stores `value` at the path. *done: something was stored. False: an error was replied. */
static bool store_value(struct call *call, uint32_t key_at, uint32_t path_at, json *value,
                        enum when when, bool *done)
{
    struct json_edit edit = {.call = call, .event = "json.set"};
    *done = false;
    if (!json_path_argument(call, path_at, &edit.path) ||
        !json_open_text(call, key_at, OPEN_WRITE, &edit.entry))
        return false;
    if (!json_path_is_root(&edit.path) && put_place(&edit, value, when)) {
        *done = true;
        return !call->failed;
    }
    if (!json_open_tree(call, &edit.entry, &edit.root))
        return false;
    if (json_path_is_root(&edit.path)) {
        *done = when == ALWAYS || (when == ONLY_NEW) != (edit.root != NULL);
        if (!*done || !put_document(call, &edit.entry, value))
            return !call->failed;
        notify(call, NOTIFY_MODULE, edit.event, call->argv[key_at]);
        return true;
    }
    if (!edit.root) {
        if (when == ONLY_OLD)
            return true;
        call_error_text(call, "ERR new objects must be created at the root");
        return false;
    }
    if (!json_path_find(call->arena, &edit.path, edit.root, &edit.matches)) {
        json_error_matches(call);
        return false;
    }
    *done = put_value(&edit, value, when);
    json_commit(&edit);
    return !call->failed;
}

void cmd_json_set(struct call *call)
{
    enum when when = ALWAYS;
    bool done;
    for (uint32_t i = 4; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "NX") && when == ALWAYS) {
            when = ONLY_NEW;
        } else if (bytes_is(call->argv[i], "XX") && when == ALWAYS) {
            when = ONLY_OLD;
        } else {
            call_error(call, ERR_SYNTAX);
            return;
        }
    }
    json *value = json_argument(call, 3);
    if (!value || !store_value(call, 1, 2, value, when, &done))
        return;
    if (done)
        reply_ok(&call->reply);
    else
        reply_null(&call->reply);
}

/* All or nothing: an error rolls back the keys that were set before. */
void cmd_json_mset(struct call *call)
{
    if (call->argc % 3 != 1) {
        call_error_arity(call);
        return;
    }
    for (uint32_t i = 1; i < call->argc; i += 3) {
        bool done;
        struct call_mark mark = keyspace_mark(call);
        json *value = json_argument(call, i + 2);
        if (!value || !store_value(call, i, i + 1, value, ALWAYS, &done))
            return;
        keyspace_release(call, &mark);
    }
    reply_ok(&call->reply);
}

/* RFC 7396: members of the patch are set, null removes a member, and a patch that is no object replaces the target. */
static json *merge(struct call *call, json *target, json *patch)
{
    if (json_kind_of(patch) != JSON_KIND_OBJECT)
        return patch;
    if (!target || json_kind_of(target) != JSON_KIND_OBJECT)
        target = json_new_object();
    for (void *it = json_first(patch); it; it = json_next(patch, it)) {
        struct bytes name = json_it_name(it);
        if (!call_goes_on(call, member_work(name)))
            return target;
        json *value = json_it_value(it);
        if (json_kind_of(value) == JSON_KIND_NULL)
            (void)json_object_drop(target, name);
        else
            json_object_put(target, name, merge(call, json_member(target, name), value));
    }
    return target;
}

/* JSON.MERGE with null: removes the members that match. */
static void merge_null(struct json_edit *edit)
{
    for (size_t i = 0; i < edit->matches.count && call_goes_on(edit->call, MEMBER_WORK); i++) {
        const struct json_match *match = edit->matches.items[i];
        if (match->parent && match->name.data)
            edit->changed |= json_object_drop(match->parent->value, match->name);
    }
}

void cmd_json_merge(struct call *call)
{
    struct json_edit edit = {.call = call, .event = "json.merge"};
    json *patch = json_argument(call, 3);
    if (!patch || !json_path_argument(call, 2, &edit.path) ||
        !json_open(call, 1, OPEN_WRITE, &edit.entry, &edit.root))
        return;
    if (!edit.root && !json_path_is_root(&edit.path)) {
        call_error_text(call, "ERR new objects must be created at the root");
        return;
    }
    if (json_path_is_root(&edit.path)) {
        edit.root = merge(call, edit.root, patch);
        edit.changed = true;
    } else if (!json_path_find(call->arena, &edit.path, edit.root, &edit.matches)) {
        json_error_matches(call);
        return;
    } else if (json_kind_of(patch) == JSON_KIND_NULL) {
        merge_null(&edit);
    } else {
        for (size_t i = 0; i < edit.matches.count && call_goes_on(call, MEMBER_WORK); i++)
            json_replace(&edit, edit.matches.items[i],
                         merge(call, edit.matches.items[i]->value, patch));
        if (edit.matches.count == 0)
            (void)put_value(&edit, merge(call, NULL, patch), ALWAYS);
    }
    if (call->failed)
        return;
    if (edit.changed)
        reply_ok(&call->reply);
    else
        reply_null(&call->reply);
    json_commit(&edit);
}

/* ---- JSON.GET, JSON.MGET ---- */

static void print_matches(struct json_text *text, const struct json_matches *matches,
                          const struct json_layout *layout, unsigned depth)
{
    json *array = json_new_array(); /* in the arena of json_use */
    for (size_t i = 0; i < matches->count; i++)
        json_array_add(array, matches->items[i]->value);
    json_print(text, array, layout, depth);
}

/* What JSON.GET prints. Matches are in an arena of their own, which is emptied after each path: the text grows in the call's. */
struct printing {
    struct call *call;
    json *root;
    const struct json_layout *layout;
    struct json_text *text;
    struct arena matches;
    bool as_arrays;
};

/* Prints the matches of one path; false: an error was replied. */
static bool print_path(struct printing *printing, const struct json_path *path, unsigned depth)
{
    struct json_matches matches;
    struct json_text *text = printing->text;
    if (!json_path_find(&printing->matches, path, printing->root, &matches)) {
        json_error_matches(printing->call);
        return false;
    }
    if (printing->as_arrays) {
        print_matches(text, &matches, printing->layout, depth);
        return true;
    }
    if (matches.count == 0) {
        json_error_no_path(printing->call, path);
        return false;
    }
    json_print(text, matches.items[0]->value, printing->layout, depth);
    return true;
}

/* Prints several paths as an object with a member per path. If one of them is a $ path, all members are arrays. */
static bool print_members(struct printing *printing, const struct json_path *paths, uint32_t count)
{
    struct json_text *text = printing->text;
    const struct json_layout *layout = printing->layout;
    json_text_add(text, BYTES("{"));
    for (uint32_t i = 0; i < count && text->len <= text->limit; i++) {
        if (i)
            json_text_add(text, BYTES(","));
        json_text_add(text, layout->newline);
        json_text_add(text, layout->indent);
        json_print_string(text, paths[i].text);
        json_text_add(text, BYTES(":"));
        json_text_add(text, layout->space);
        if (!print_path(printing, &paths[i], 1))
            return false;
        arena_reset(&printing->matches);
    }
    json_text_add(text, layout->newline);
    json_text_add(text, BYTES("}"));
    return true;
}

static bool print_paths(struct printing *printing, const struct json_path *paths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        printing->as_arrays |= !paths[i].is_legacy;
    arena_init(&printing->matches);
    printing->matches.meter = printing->call->arena->meter;
    json_use(&printing->matches); /* for print_matches */
    bool is_good =
        count == 1 ? print_path(printing, paths, 0) : print_members(printing, paths, count);
    json_use(printing->call->arena);
    arena_fini(&printing->matches);
    return is_good;
}

/* Parses options up to the first path. */
static uint32_t layout_parse(const struct call *call, struct json_layout *layout)
{
    uint32_t i = 2;
    *layout = COMPACT;
    for (; i < call->argc; i++) {
        bool has_value = i + 1 < call->argc;
        if (bytes_is(call->argv[i], "NOESCAPE"))
            continue;
        if (bytes_is(call->argv[i], "INDENT") && has_value)
            layout->indent = call->argv[++i];
        else if (bytes_is(call->argv[i], "NEWLINE") && has_value)
            layout->newline = call->argv[++i];
        else if (bytes_is(call->argv[i], "SPACE") && has_value)
            layout->space = call->argv[++i];
        else
            break;
    }
    return i;
}

/* Copies the value at the path from the stored text. False: not possible in the text; use the tree. */
static bool text_of_place(struct call *call, const struct json_path *path, struct bytes document,
                          struct json_text *text)
{
    struct bytes place;
    if (!json_place_find(call->arena, path, document, &place))
        return false;
    if (!path->is_legacy)
        json_text_add(text, BYTES("["));
    json_text_add(text, place);
    if (!path->is_legacy)
        json_text_add(text, BYTES("]"));
    return true;
}

void cmd_json_get(struct call *call)
{
    struct json_layout layout;
    struct entry entry;
    struct json_text text;
    uint32_t first = layout_parse(call, &layout);
    uint32_t count = first < call->argc ? call->argc - first : 1;
    struct json_path *paths = arena_alloc(call->arena, count * sizeof *paths);
    for (uint32_t i = 0; i < count; i++)
        if (!json_path_argument(call, first < call->argc ? first + i : 0, &paths[i]))
            return;
    if (!json_open_text(call, 1, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        reply_null(&call->reply);
        return;
    }
    json_text_init(&text, call->arena);
    text.limit = call_bulk_bytes_max(call);
    bool is_compact = layout.indent.len + layout.newline.len + layout.space.len == 0;
    bool is_place =
        count == 1 && is_compact && text_of_place(call, paths, entry.meta.payload, &text);
    struct printing printing = {.call = call, .layout = &layout, .text = &text};
    if (!is_place &&
        (!json_open_tree(call, &entry, &printing.root) || !print_paths(&printing, paths, count)))
        return;
    if (text.len > text.limit)
        call_error(call, ERR_TOO_BIG);
    else
        reply_bulk(&call->reply, json_text_bytes(&text));
}

/* Prints the value at the path of one key. Without data: it is missing, or the key has no document. */
static struct bytes json_value_text(struct call *call, uint32_t index, const struct json_path *path)
{
    struct entry entry;
    struct json_matches matches;
    struct json_text text;
    char error[JSON_ERROR_MAX];
    if (!keyspace_open(call, call->argv[index], OPEN_READ, &entry))
        return (struct bytes){0};
    json *root = entry.meta.type == TYPE_JSON ? json_parse(entry.meta.payload, error) : NULL;
    if (!root || !json_path_find(call->arena, path, root, &matches) ||
        (path->is_legacy && matches.count == 0))
        return (struct bytes){0};
    json_text_init(&text, call->arena);
    text.limit = call_bulk_bytes_max(call);
    if (path->is_legacy)
        json_print(&text, matches.items[0]->value, &COMPACT, 0);
    else
        print_matches(&text, &matches, &COMPACT, 0);
    if (text.len > text.limit)
        call_error(call, ERR_TOO_BIG);
    return json_text_bytes(&text);
}

static void reply_json_text(struct call *call, struct bytes text)
{
    if (call->failed)
        return;
    if (text.data)
        reply_bulk(&call->reply, text);
    else
        reply_null(&call->reply);
}

/* Frees what was allocated since the mark, but for a copy of the text. */
static struct bytes release_but(struct call *call, const struct call_mark *mark, struct bytes text)
{
    char *copy = text.data ? malloc(text.len + 1) : NULL;
    if (!copy) {
        keyspace_release(call, mark);
        return (struct bytes){0};
    }
    memcpy(copy, text.data, text.len);
    keyspace_release(call, mark);
    struct bytes kept = arena_copy(call->arena, (struct bytes){copy, text.len});
    free(copy);
    return kept;
}

/* A key that is given several times is parsed and printed once. */
struct mget_key {
    bool is_again; /* a later word is equal */
    struct bytes text;
};

static struct mget_key *mget_keys(struct call *call, const uint32_t *first, uint32_t count)
{
    struct mget_key *keys = arena_alloc(call->arena, count * sizeof *keys);
    for (uint32_t i = 0; i < count; i++) {
        keys[i].is_again = false;
        keys[first[i]].is_again |= first[i] != i;
    }
    return keys;
}

static void mget_first(struct call *call, uint32_t index, const struct json_path *path,
                       struct mget_key *key)
{
    struct call_mark mark = keyspace_mark(call);
    struct bytes text = json_value_text(call, index, path);
    reply_json_text(call, text);
    if (key->is_again)
        key->text = release_but(call, &mark, text);
    else
        keyspace_release(call, &mark);
}

void cmd_json_mget(struct call *call)
{
    struct json_path path;
    uint32_t count = call->argc - 2;
    if (!json_path_argument(call, call->argc - 1, &path))
        return;
    const uint32_t *first = first_of_equal(call->arena, call->argv + 1, count);
    struct mget_key *keys = mget_keys(call, first, count);
    reply_array(&call->reply, count);
    for (uint32_t i = 0; i < count && !call->failed && call_goes_on(call, MEMBER_WORK); i++)
        if (first[i] == i)
            mget_first(call, 1 + i, &path, &keys[i]);
        else
            reply_json_text(call, keys[first[i]].text);
}

/* ---- JSON.DEL, JSON.CLEAR ---- */

/* An array element to delete. */
struct place {
    json *array;
    size_t index;
};

/* Orders by array, then by index. */
static int by_array_index(const void *a, const void *b, void *owner)
{
    (void)owner;
    const struct place *x = a;
    const struct place *y = b;
    if (x->array != y->array)
        return (uintptr_t)x->array < (uintptr_t)y->array ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static struct bytes address(json *const *value)
{
    return (struct bytes){(const char *)value, sizeof(*value)};
}

/* Is a container of the match deleted? Matches are ordered so that containers come before their content. */
static bool is_going(const struct table *going, const struct json_match *match)
{
    for (const struct json_match *up = match->parent; up; up = up->parent)
        if (table_get(going, address(&up->value)))
            return true;
    return false;
}

/* Deletes array elements, visiting each array only once. Returns the number of deleted elements. */
static size_t drop_places(struct arena *arena, struct place *places, size_t count)
{
    size_t *indexes = arena_alloc(arena, (count + 1) * sizeof *indexes);
    size_t dropped = 0;
    if (!merge_sort(arena, places, count, sizeof *places, by_array_index, NULL))
        return 0;
    for (size_t i = 0; i < count;) {
        json *array = places[i].array;
        size_t going = 0;
        for (; i < count && places[i].array == array; i++)
            if (!going || indexes[going - 1] != places[i].index) /* a path may match it twice */
                indexes[going++] = places[i].index;
        json_array_drop_all(array, indexes, going);
        dropped += going;
    }
    return dropped;
}

/* Deletes object members immediately, array elements at the end, because deleting shifts indexes. Returns the number
 * of deleted values. */
enum { CLIMB_WORK = 50 }; /* of looking at the containers around a match */

static size_t delete_matches(struct json_edit *edit)
{
    struct place *places =
        arena_alloc(edit->call->arena, (edit->matches.count + 1) * sizeof *places);
    struct table *going = table_new();
    size_t dropped = 0;
    size_t count = 0;
    for (size_t i = 0; i < edit->matches.count && call_goes_on(edit->call, CLIMB_WORK); i++) {
        const struct json_match *match = edit->matches.items[i];
        if (is_going(going, match))
            continue;
        if (json_kind_of(match->value) <= JSON_KIND_ARRAY)
            (void)table_put(going, address(&match->value), going);
        if (match->name.data)
            dropped += json_object_drop(match->parent->value, match->name);
        else
            places[count++] = (struct place){match->parent->value, match->index};
    }
    table_free(going);
    return dropped + drop_places(edit->call->arena, places, count);
}

void cmd_json_del(struct call *call)
{
    struct json_edit edit = {.call = call, .event = "json.del"};
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!json_path_argument(call, call->argc > 2 ? 2 : 0, &edit.path) ||
        !json_open(call, 1, OPEN_WRITE, &edit.entry, &edit.root))
        return;
    if (!edit.root) {
        reply_int(&call->reply, 0);
        return;
    }
    if (json_path_is_root(&edit.path)) {
        entry_delete(call, &edit.entry);
        notify(call, NOTIFY_MODULE, edit.event, call->argv[1]);
        notify(call, NOTIFY_GENERIC, "del", call->argv[1]);
        reply_int(&call->reply, 1);
        return;
    }
    if (!json_path_find(call->arena, &edit.path, edit.root, &edit.matches)) {
        json_error_matches(call);
        return;
    }
    size_t count = delete_matches(&edit);
    edit.changed = count > 0;
    reply_int(&call->reply, (int64_t)count);
    json_commit(&edit);
}

void cmd_json_forget(struct call *call)
{
    cmd_json_del(call);
}

/* Is the match still in the document? A container around it may have been emptied. */
static bool is_there(const struct json_match *match)
{
    for (; match->parent; match = match->parent) {
        json *parent = match->parent->value;
        if (match->name.data ? json_member(parent, match->name) == NULL
                             : match->index >= json_length(parent))
            return false;
    }
    return true;
}

/* Empties a container, or sets a number to 0. False: it is empty or 0 already, or has another kind. */
static bool clear_value(struct json_edit *edit, const struct json_match *match)
{
    switch (json_kind_of(match->value)) {
    case JSON_KIND_OBJECT:
    case JSON_KIND_ARRAY:
        if (json_length(match->value) == 0)
            return false;
        json_clear(match->value);
        edit->changed = true;
        return true;
    case JSON_KIND_INTEGER:
    case JSON_KIND_REAL:
        if (json_to_double(match->value) == 0)
            return false;
        json_replace(edit, match, json_new_integer(0));
        return true;
    default:
        return false;
    }
}

void cmd_json_clear(struct call *call)
{
    struct json_edit edit;
    int64_t count = 0;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!json_begin(call, call->argc > 2 ? 2 : 0, OPEN_WRITE, MISSING_IS_ERROR, &edit))
        return;
    edit.event = "json.clear";
    for (size_t i = 0; i < edit.matches.count && call_goes_on(call, CLIMB_WORK); i++)
        if (is_there(edit.matches.items[i]))
            count += clear_value(&edit, edit.matches.items[i]);
    reply_int(&call->reply, count);
    json_commit(&edit);
}
