/*
 * json_scalar.c - JSON commands on numbers, strings and booleans in a document.
 */
#include "backend/commands/json.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"

#include <math.h>

static const struct json_layout COMPACT;

static bool is_json_number(const json *value)
{
    enum json_kind kind = json_kind_of(value);
    return kind == JSON_KIND_INTEGER || kind == JSON_KIND_REAL;
}

/* ---- JSON.NUMINCRBY, JSON.NUMMULTBY ---- */

/* Adds or multiplies. Integers stay integers unless the result does not fit into 64 bits. NULL: the result is not
 * finite. */
static json *calculate(const json *a, const json *b, bool multiply)
{
    int64_t result;
    if (json_kind_of(a) == JSON_KIND_INTEGER && json_kind_of(b) == JSON_KIND_INTEGER) {
        int64_t x = json_to_integer(a);
        int64_t y = json_to_integer(b);
        if (multiply ? !__builtin_mul_overflow(x, y, &result)
                     : !__builtin_add_overflow(x, y, &result))
            return json_new_integer(result);
    }
    double x = json_to_double(a);
    double y = json_to_double(b);
    double real = multiply ? x * y : x + y;
    return isfinite(real) ? json_new_real(real) : NULL;
}

/* Does the reply have an element per match? Otherwise it is a single value. */
static bool is_array_reply(const struct json_edit *edit)
{
    return !edit->path.is_legacy || edit->call->reply.resp == 3;
}

static void reply_json_number(struct reply *reply, const json *number)
{
    if (json_kind_of(number) == JSON_KIND_INTEGER)
        reply_int(reply, json_to_integer(number));
    else if (json_kind_of(number) == JSON_KIND_REAL)
        reply_double(reply, json_to_double(number));
    else
        reply_null(reply);
}

/* Replies results. RESP2: JSON text, an array for a $ path, otherwise a single number. RESP3: an array of numbers
 * and nulls. */
static void reply_numbers(struct call *call, const struct json_edit *edit, const json *results)
{
    struct json_text text;
    if (call->reply.resp == 3) {
        reply_array(&call->reply, (int64_t)json_length(results));
        for (size_t i = 0; i < json_length(results); i++)
            reply_json_number(&call->reply, json_at(results, i));
        return;
    }
    json_text_init(&text, call->arena);
    if (!edit->path.is_legacy)
        json_print(&text, results, &COMPACT, 0);
    else
        json_print(&text, json_at(results, json_length(results) - 1), &COMPACT, 0);
    reply_bulk(&call->reply, json_text_bytes(&text));
}

/* Is the value a number? Integers too big for 64 bits, which are parsed as doubles, are refused. */
static bool is_amount(const json *value, struct bytes text)
{
    return is_json_number(value) &&
           (json_kind_of(value) == JSON_KIND_INTEGER || memchr(text.data, '.', text.len) ||
            memchr(text.data, 'e', text.len) || memchr(text.data, 'E', text.len));
}

/* Changes the number at the path in the document's text. False: not possible in the text; use the tree. */
static bool change_place(struct json_edit *edit, const json *amount, bool multiply)
{
    struct call *call = edit->call;
    char error[JSON_ERROR_MAX];
    struct bytes place;
    if (!edit->entry.exists ||
        !json_place_find(call->arena, &edit->path, edit->entry.meta.payload, &place) ||
        (*place.data != '-' && (*place.data < '0' || *place.data > '9')))
        return false;
    json *old = json_parse(place, error);
    json *result = old ? calculate(old, amount, multiply) : NULL;
    if (!result)
        return false;
    json *results = json_new_array();
    json_array_add(results, result);
    reply_numbers(call, edit, results);
    json_save_place(edit, place, result);
    notify(call, NOTIFY_MODULE, edit->event, edit->entry.key);
    return true;
}

enum { NUMBER_WORK = 20 };

static void change_numbers(struct call *call, bool multiply, const char *event)
{
    struct json_edit edit;
    char error[JSON_ERROR_MAX];
    json *results;
    json *amount = json_argument(call, 3);
    if (!amount)
        return;
    if (!is_amount(amount, call->argv[3])) {
        call_error_text(call, "ERR expected a number");
        return;
    }
    if (!json_begin_text(call, 2, OPEN_WRITE, &edit))
        return;
    edit.event = event;
    if (change_place(&edit, amount, multiply) || !json_begin_tree(&edit, MISSING_IS_ERROR))
        return;
    results = json_new_array();
    for (size_t i = 0; i < edit.matches.count && call_goes_on(call, NUMBER_WORK); i++) {
        const struct json_match *match = edit.matches.items[i];
        json *result = NULL;
        if (is_json_number(match->value)) {
            result = calculate(match->value, amount, multiply);
            if (!result) {
                call_error_text(call, "ERR result is not a number");
                return;
            }
            json_replace(&edit, match, result);
        }
        if (result || is_array_reply(&edit))
            json_array_add(results, result ? result : json_parse(BYTES("null"), error));
    }
    if (call->failed)
        return;
    if (!is_array_reply(&edit) && json_length(results) == 0) {
        if (edit.matches.count)
            call_error_text(call, "ERR wrong type of path value - expected a number");
        else
            json_error_no_path(call, &edit.path);
        return;
    }
    reply_numbers(call, &edit, results);
    json_commit(&edit);
}

void cmd_json_numincrby(struct call *call)
{
    change_numbers(call, false, "json.numincrby");
}

void cmd_json_nummultby(struct call *call)
{
    change_numbers(call, true, "json.nummultby");
}

/* ---- strings ---- */

/* The text of JSON.STRAPPEND, for the answer function. */
struct append {
    struct json_edit edit; /* first member: the answer function gets its address and casts it */
    struct bytes more;
};

static void append_to_string(struct json_edit *edit, const struct json_match *match,
                             struct json_answer *answer)
{
    const struct append *append = (const struct append *)edit;
    if (json_kind_of(match->value) != JSON_KIND_STRING)
        return;
    struct bytes old = json_to_string(match->value);
    if (!call_goes_on(edit->call, (old.len + append->more.len) / 32))
        return;
    char *text = arena_alloc(edit->call->arena, old.len + append->more.len + 1);
    memcpy(text, old.data, old.len);
    memcpy(text + old.len, append->more.data, append->more.len);
    struct bytes joined = {text, old.len + append->more.len};
    json_replace(edit, match, json_new_string(joined));
    answer->kind = ANSWER_INT;
    answer->number = (int64_t)joined.len;
}

void cmd_json_strappend(struct call *call)
{
    struct append append;
    if (call->argc > 4) {
        call_error_arity(call);
        return;
    }
    json *more = json_argument(call, call->argc - 1);
    if (!more)
        return;
    if (json_kind_of(more) != JSON_KIND_STRING) {
        call_error_text(call, "ERR expected a string");
        return;
    }
    if (!json_begin(call, call->argc == 4 ? 2 : 0, OPEN_WRITE, MISSING_IS_ERROR, &append.edit))
        return;
    append.more = json_to_string(more);
    append.edit.event = "json.strappend";
    json_finish(&append.edit, append_to_string, "a string");
}

static void answer_length(struct json_edit *edit, const struct json_match *match,
                          struct json_answer *answer)
{
    (void)edit;
    if (json_kind_of(match->value) != JSON_KIND_STRING)
        return;
    answer->kind = ANSWER_INT;
    answer->number = (int64_t)json_to_string(match->value).len;
}

void cmd_json_strlen(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3)
        call_error_arity(call);
    else if (json_begin(call, call->argc == 3 ? 2 : 0, OPEN_READ, MISSING_IS_BY_PATH, &edit))
        json_finish(&edit, answer_length, "a string");
}

/* ---- booleans ---- */

static void answer_toggle(struct json_edit *edit, const struct json_match *match,
                          struct json_answer *answer)
{
    bool was_true = json_kind_of(match->value) == JSON_KIND_TRUE;
    if (!was_true && json_kind_of(match->value) != JSON_KIND_FALSE)
        return;
    json_replace(edit, match, json_new_boolean(!was_true));
    answer->kind = edit->path.is_legacy ? ANSWER_TEXT : ANSWER_INT;
    answer->number = !was_true;
    answer->text = was_true ? BYTES("false") : BYTES("true");
}

void cmd_json_toggle(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!json_begin(call, call->argc == 3 ? 2 : 0, OPEN_WRITE, MISSING_IS_ERROR, &edit))
        return;
    edit.event = "json.toggle";
    json_finish(&edit, answer_toggle, "a bool");
}
