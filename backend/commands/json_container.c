/*
 * json_container.c - JSON commands on arrays and objects in a document.
 */
#include "backend/commands/json.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"

static const struct json_layout COMPACT;

/* An edit and the arguments that its answers need. */
struct array_edit {
    struct json_edit edit; /* first member: the answer functions get its address and cast it */
    json **values;
    uint32_t count;
    int64_t from, to;
};

enum { ELEMENT_WORK = 2, MOVED_PER_WORK = 8 /* elements */ };

static bool is_json_array(const json *value)
{
    return json_kind_of(value) == JSON_KIND_ARRAY;
}

static void answer_int(struct json_answer *answer, int64_t number)
{
    answer->kind = ANSWER_INT;
    answer->number = number;
}

/* Parses the values from argument `first` on. */
static bool json_values_parse(struct call *call, uint32_t first, struct array_edit *array)
{
    array->count = call->argc - first;
    array->values = arena_alloc(call->arena, (array->count + 1) * sizeof *array->values);
    for (uint32_t i = 0; i < array->count; i++) {
        array->values[i] = json_argument(call, first + i);
        if (!array->values[i])
            return false;
    }
    return true;
}

/* ---- adding ---- */

static void append_to_array(struct json_edit *edit, const struct json_match *match,
                            struct json_answer *answer)
{
    const struct array_edit *array = (const struct array_edit *)edit;
    if (!is_json_array(match->value))
        return;
    for (uint32_t i = 0; i < array->count; i++) {
        if (!call_goes_on(edit->call, ELEMENT_WORK))
            return;
        json_array_add(match->value, array->values[i]);
    }
    edit->changed = true;
    answer_int(answer, (int64_t)json_length(match->value));
}

void cmd_json_arrappend(struct call *call)
{
    struct array_edit array;
    if (!json_values_parse(call, 3, &array) ||
        !json_begin(call, 2, OPEN_WRITE, MISSING_IS_ERROR, &array.edit))
        return;
    array.edit.event = "json.arrappend";
    json_finish(&array.edit, append_to_array, "an array");
}

static void answer_insert(struct json_edit *edit, const struct json_match *match,
                          struct json_answer *answer)
{
    const struct array_edit *array = (const struct array_edit *)edit;
    if (!is_json_array(match->value))
        return;
    int64_t len = (int64_t)json_length(match->value);
    int64_t at = array->from < 0 ? array->from + len : array->from;
    if (at < 0 || at > len ||
        !call_goes_on(edit->call, ELEMENT_WORK * (size_t)(len - at + array->count)))
        return;
    json_array_insert_all(match->value, (size_t)at, array->values, array->count);
    edit->changed = true;
    answer_int(answer, (int64_t)json_length(match->value));
}

void cmd_json_arrinsert(struct call *call)
{
    struct array_edit array;
    int64_t at;
    if (!call_int64(call, 3, &at) || !json_values_parse(call, 4, &array) ||
        !json_begin(call, 2, OPEN_WRITE, MISSING_IS_NULL, &array.edit))
        return;
    array.from = at;
    array.edit.event = "json.arrinsert";
    json_finish(&array.edit, answer_insert, "an array");
}

/* ---- removing ---- */

static void answer_pop(struct json_edit *edit, const struct json_match *match,
                       struct json_answer *answer)
{
    const struct array_edit *array = (const struct array_edit *)edit;
    struct json_text text;
    if (!is_json_array(match->value) || json_length(match->value) == 0)
        return;
    int64_t len = (int64_t)json_length(match->value);
    int64_t at = array->from < 0 ? array->from + len : array->from;
    at = at < 0 ? 0 : at >= len ? len - 1 : at;
    if (!call_goes_on(edit->call, (size_t)(len - at) / MOVED_PER_WORK))
        return;
    json_text_init(&text, edit->call->arena);
    json_print(&text, json_at(match->value, (size_t)at), &COMPACT, 0);
    json_array_drop(match->value, (size_t)at);
    edit->changed = true;
    answer->kind = ANSWER_TEXT;
    answer->text = json_text_bytes(&text);
}

void cmd_json_arrpop(struct call *call)
{
    struct array_edit array = {.from = -1};
    int64_t at = -1;
    if (call->argc > 4) {
        call_error_arity(call);
        return;
    }
    if ((call->argc == 4 && !call_int64(call, 3, &at)) ||
        !json_begin(call, call->argc > 2 ? 2 : 0, OPEN_WRITE, MISSING_IS_ERROR, &array.edit))
        return;
    array.from = at;
    array.edit.event = "json.arrpop";
    if (array.edit.path.is_legacy && array.edit.matches.count &&
        is_json_array(array.edit.matches.items[0]->value) &&
        json_length(array.edit.matches.items[0]->value) == 0)
        reply_null(&call->reply);
    else
        json_finish(&array.edit, answer_pop, "an array");
}

static void answer_trim(struct json_edit *edit, const struct json_match *match,
                        struct json_answer *answer)
{
    const struct array_edit *array = (const struct array_edit *)edit;
    if (!is_json_array(match->value))
        return;
    int64_t len = (int64_t)json_length(match->value);
    int64_t from = array->from < 0 ? array->from + len : array->from;
    int64_t to = array->to < 0 ? array->to + len : array->to;
    from = from < 0 ? 0 : from;
    to = to >= len ? len - 1 : to;
    if (!call_goes_on(edit->call, ELEMENT_WORK * (size_t)len))
        return;
    json_array_keep(match->value, (size_t)from, from <= to ? (size_t)(to - from) + 1 : 0);
    edit->changed = true;
    answer_int(answer, (int64_t)json_length(match->value));
}

void cmd_json_arrtrim(struct call *call)
{
    struct array_edit array;
    int64_t from;
    int64_t to;
    if (!call_int64(call, 3, &from) || !call_int64(call, 4, &to) ||
        !json_begin(call, 2, OPEN_WRITE, MISSING_IS_ERROR, &array.edit))
        return;
    array.from = from;
    array.to = to;
    array.edit.event = "json.arrtrim";
    json_finish(&array.edit, answer_trim, "an array");
}

/* ---- reads ---- */

static void answer_index(struct json_edit *edit, const struct json_match *match,
                         struct json_answer *answer)
{
    const struct array_edit *array = (const struct array_edit *)edit;
    if (!is_json_array(match->value))
        return;
    int64_t len = (int64_t)json_length(match->value);
    int64_t from = array->from < 0 ? array->from + len : array->from;
    int64_t to = array->to <= 0 ? array->to + len : array->to; /* 0: the end */
    /* beyond the end: the last element */
    from = from >= len ? len - 1 : from;
    answer_int(answer, -1);
    for (int64_t i = from < 0 ? 0 : from;
         i < to && i < len && call_goes_on(edit->call, ELEMENT_WORK); i++)
        if (json_equals(edit->call->arena, json_at(match->value, (size_t)i), array->values[0])) {
            answer->number = i;
            return;
        }
}

void cmd_json_arrindex(struct call *call)
{
    struct array_edit array;
    int64_t from = 0;
    int64_t to = 0;
    if (call->argc > 6) {
        call_error_arity(call);
        return;
    }
    json *value = json_argument(call, 3);
    if (!value || (call->argc > 4 && !call_int64(call, 4, &from)) ||
        (call->argc > 5 && !call_int64(call, 5, &to)) ||
        !json_begin(call, 2, OPEN_READ, MISSING_IS_BY_PATH, &array.edit))
        return;
    if (!array.edit.path.is_legacy && json_kind_of(value) <= JSON_KIND_ARRAY) {
        call_errorf(call, "WRONGTYPE wrong type of value - expected a scalar but found an %s",
                    json_kind_name(value));
        return;
    }
    array.values = &value;
    array.from = from;
    array.to = to;
    json_finish(&array.edit, answer_index, "an array");
}

static void answer_array_length(struct json_edit *edit, const struct json_match *match,
                                struct json_answer *answer)
{
    (void)edit;
    if (is_json_array(match->value))
        answer_int(answer, (int64_t)json_length(match->value));
}

static void answer_object_length(struct json_edit *edit, const struct json_match *match,
                                 struct json_answer *answer)
{
    (void)edit;
    if (json_kind_of(match->value) == JSON_KIND_OBJECT)
        answer_int(answer, (int64_t)json_length(match->value));
}

void cmd_json_arrlen(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3)
        call_error_arity(call);
    else if (json_begin(call, call->argc > 2 ? 2 : 0, OPEN_READ, MISSING_IS_BY_PATH, &edit))
        json_finish(&edit, answer_array_length, "an array");
}

void cmd_json_objlen(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3)
        call_error_arity(call);
    else if (!json_begin(call, call->argc > 2 ? 2 : 0, OPEN_READ, MISSING_IS_BY_PATH, &edit))
        return;
    else if (edit.path.is_legacy && edit.matches.count == 0)
        reply_null(&call->reply);
    else
        json_finish(&edit, answer_object_length, "an object");
}

static void reply_names(struct call *call, const json *value)
{
    if (json_kind_of(value) != JSON_KIND_OBJECT) {
        reply_null(&call->reply);
        return;
    }
    reply_array(&call->reply, (int64_t)json_length(value));
    for (void *it = json_first(value); it && call_goes_on(call, ELEMENT_WORK);
         it = json_next(value, it))
        reply_bulk(&call->reply, json_it_name(it));
}

void cmd_json_objkeys(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!json_begin(call, call->argc > 2 ? 2 : 0, OPEN_READ, MISSING_IS_BY_PATH, &edit))
        return;
    if (!edit.path.is_legacy) {
        reply_array(&call->reply, (int64_t)edit.matches.count);
        for (size_t i = 0; i < edit.matches.count && call_goes_on(call, ELEMENT_WORK); i++)
            reply_names(call, edit.matches.items[i]->value);
    } else if (edit.matches.count == 0) {
        reply_null(&call->reply);
    } else if (json_kind_of(edit.matches.items[0]->value) != JSON_KIND_OBJECT) {
        call_error_text(call, "ERR wrong type of path value - expected an object");
    } else {
        reply_names(call, edit.matches.items[0]->value);
    }
}
