/*
 * json_edit.c - opens a document at a path, collects the answers of its matches, writes the document back.
 */
#include "backend/commands/json.h"
#include "backend/context/goes_on.h"
#include "backend/session/notify.h"

static const struct json_layout COMPACT;

bool json_path_argument(struct call *call, uint32_t index, struct json_path *path)
{
    char error[JSON_ERROR_MAX];
    json_use(call->arena);
    if (json_path_parse(call->arena, index ? call->argv[index] : BYTES("."), path, error))
        return true;
    call_errorf(call, "ERR %s", error);
    return false;
}

json *json_argument(struct call *call, uint32_t index)
{
    char error[JSON_ERROR_MAX];
    json_use(call->arena);
    json *value = json_parse(call->argv[index], error);
    if (!value)
        call_errorf(call, "ERR %s", error);
    return value;
}

bool json_open_text(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry)
{
    json_use(call->arena);
    return keyspace_open_type(call, call->argv[index], TYPE_JSON, flags, entry);
}

bool json_open_tree(struct call *call, const struct entry *entry, json **root)
{
    char error[JSON_ERROR_MAX];
    *root = NULL;
    if (!entry->exists)
        return true;
    *root = json_parse(entry->meta.payload, error);
    if (!*root)
        call_error(call, ERR_STORE);
    return *root != NULL;
}

bool json_open(struct call *call, uint32_t index, enum open_flag flags, struct entry *entry,
               json **root)
{
    *root = NULL;
    return json_open_text(call, index, flags, entry) && json_open_tree(call, entry, root);
}

/* Replies an error and returns true when the text, nested in `around` more containers, is nested too deeply. */
static bool is_too_deep(struct call *call, struct bytes text, unsigned around)
{
    if (!json_is_too_deep(text, around))
        return false;
    call_errorf(call, "ERR recursion limit exceeded: more than %d levels", JSON_DEPTH_MAX);
    return true;
}

static void save_text(struct call *call, struct entry *entry, struct bytes text)
{
    if (text.len > call_bulk_bytes_max(call))
        call_error(call, ERR_TOO_BIG);
    else
        entry_set_payload(call, entry, TYPE_JSON, text, entry->meta.expire_ms);
}

void json_save(struct call *call, struct entry *entry, json *root)
{
    struct json_text text;
    json_text_init(&text, call->arena);
    text.limit = call_bulk_bytes_max(call); /* save_text refuses a longer text */
    json_print(&text, root, &COMPACT, 0);
    if (!is_too_deep(call, json_text_bytes(&text), 0))
        save_text(call, entry, json_text_bytes(&text));
}

void json_save_place(struct json_edit *edit, struct bytes place, const json *value)
{
    struct call *call = edit->call;
    struct entry *entry = &edit->entry;
    struct json_text text;
    json_text_init(&text, call->arena);
    json_print(&text, value, &COMPACT, 0);
    struct bytes other = json_text_bytes(&text);
    if (!is_too_deep(call, other, edit->path.count)) /* one container per segment of the path */
        save_text(call, entry, json_place_put(call->arena, entry->meta.payload, place, other));
}

/* ---- errors ---- */

void json_error_matches(struct call *call)
{
    call_errorf(call, "ERR the path matches more than %d values: use a narrower path",
                JSON_MATCHES_MAX);
}

void json_error_no_key(struct call *call)
{
    call_error_text(call, "ERR could not perform this operation on a key that doesn't exist");
}

/* Splits a path for error messages, which show an old path as a $ path: `mark`, then `text`. */
static void shown(const struct json_path *path, struct bytes *text, const char **mark)
{
    *text = path->text;
    *mark = "";
    if (!path->is_legacy)
        return;
    *mark = "$";
    if (path->count == 0)
        text->len = 0;
    else if (*text->data != '.' && *text->data != '[')
        *mark = "$.";
}

void json_error_no_path(struct call *call, const struct json_path *path)
{
    struct bytes text;
    const char *mark;
    shown(path, &text, &mark);
    call_errorf(call, "ERR Path '%s%.*s' does not exist", mark, (int)text.len, text.data);
}

static void error_kind(struct call *call, const struct json_path *path, const char *expected)
{
    struct bytes text;
    const char *mark;
    shown(path, &text, &mark);
    call_errorf(call, "ERR Path '%s%.*s' does not exist or not %s", mark, (int)text.len, text.data,
                expected);
}

/* ---- an edit ---- */

bool json_begin_text(struct call *call, uint32_t path_at, enum open_flag flags,
                     struct json_edit *edit)
{
    *edit = (struct json_edit){.call = call};
    return json_path_argument(call, path_at, &edit->path) &&
           json_open_text(call, 1, flags, &edit->entry);
}

bool json_begin_tree(struct json_edit *edit, enum json_missing missing)
{
    struct call *call = edit->call;
    if (!json_open_tree(call, &edit->entry, &edit->root))
        return false;
    if (!edit->root) {
        if (missing == MISSING_IS_ERROR || (missing == MISSING_IS_BY_PATH && !edit->path.is_legacy))
            json_error_no_key(call);
        else
            reply_null(&call->reply);
        return false;
    }
    if (json_path_find(call->arena, &edit->path, edit->root, &edit->matches))
        return true;
    json_error_matches(call);
    return false;
}

bool json_begin(struct call *call, uint32_t path_at, enum open_flag flags,
                enum json_missing missing, struct json_edit *edit)
{
    return json_begin_text(call, path_at, flags, edit) && json_begin_tree(edit, missing);
}

void json_replace(struct json_edit *edit, const struct json_match *match, json *value)
{
    edit->changed = true;
    if (!match->parent)
        edit->root = value;
    else if (match->name.data)
        json_object_put(match->parent->value, match->name, value);
    else if (match->index < json_length(match->parent->value)) /* else it has been removed */
        json_array_put(match->parent->value, match->index, value);
}

void json_commit(struct json_edit *edit)
{
    if (!edit->changed || edit->call->failed)
        return;
    json_save(edit->call, &edit->entry, edit->root);
    if (edit->event)
        notify(edit->call, NOTIFY_MODULE, edit->event, edit->entry.key);
}

static void reply_answer(struct call *call, const struct json_answer *answer)
{
    if (answer->kind == ANSWER_INT)
        reply_int(&call->reply, answer->number);
    else if (answer->kind == ANSWER_TEXT)
        reply_bulk(&call->reply, answer->text);
    else
        reply_null(&call->reply);
}

/* The single answer for a path of the old dialect; NULL: an error or null must be replied. */
static const struct json_answer *only_answer(const struct json_edit *edit,
                                             const struct json_answer *answers, size_t count)
{
    size_t at = 0;
    for (size_t i = 1; i < count && edit->changed; i++)
        if (answers[i].kind != ANSWER_NULL)
            at = i;
    return count && answers[at].kind != ANSWER_NULL ? &answers[at] : NULL;
}

enum { ANSWER_WORK = 10 };

void json_finish(struct json_edit *edit, json_answer_fn *fn, const char *expected)
{
    struct call *call = edit->call;
    size_t count = edit->matches.count;
    struct json_answer *answers = arena_alloc(call->arena, (count + 1) * sizeof *answers);
    for (size_t i = count; i-- > 0 && call_goes_on(call, ANSWER_WORK) && !call->failed;) {
        answers[i] = (struct json_answer){.kind = ANSWER_NULL};
        fn(edit, edit->matches.items[i], &answers[i]);
    }
    if (call->failed)
        return;
    const struct json_answer *only = only_answer(edit, answers, count);
    if (!edit->path.is_legacy) {
        reply_array(&call->reply, (int64_t)count);
        for (size_t i = 0; i < count && call_goes_on(call, ANSWER_WORK); i++)
            reply_answer(call, &answers[i]);
    } else if (only) {
        reply_answer(call, only);
    } else if (count && !expected) {
        reply_null(&call->reply);
    } else if (expected) {
        error_kind(call, &edit->path, expected);
        return;
    } else {
        json_error_no_path(call, &edit->path);
        return;
    }
    json_commit(edit);
}
