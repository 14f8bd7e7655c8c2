/*
 * json_look.c - JSON commands that describe values: type, RESP form, size.
 */
#include "backend/commands/json.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "shared/command/command_reply.h"

static const struct json_layout COMPACT;

static void answer_kind(struct json_edit *edit, const struct json_match *match,
                        struct json_answer *answer)
{
    (void)edit;
    answer->kind = ANSWER_TEXT;
    answer->text = bytes_of(json_kind_name(match->value));
}

void cmd_json_type(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    bool is_resp3 = call->reply.resp == 3;
    if (is_resp3) /* RESP3: one more array around the reply */
        reply_array(&call->reply, 1);
    if (!json_begin(call, call->argc > 2 ? 2 : 0, OPEN_READ, MISSING_IS_NULL, &edit))
        return;
    if (call->argc == 2 && !is_resp3)
        edit.path.is_legacy = false; /* without a path the reply is an array, as for a $ path */
    if (edit.path.is_legacy && edit.matches.count == 0)
        reply_null(&call->reply);
    else
        json_finish(&edit, answer_kind, NULL);
}

enum { VALUE_WORK = 5 };

static void reply_as_resp(struct call *call, const json *value)
{
    struct json_text text;
    if (!call_goes_on(call, VALUE_WORK))
        return;
    switch (json_kind_of(value)) {
    case JSON_KIND_OBJECT:
        reply_array(&call->reply, 1 + 2 * (int64_t)json_length(value));
        reply_status(&call->reply, "{");
        for (void *it = json_first(value); it && !call->failed; it = json_next(value, it)) {
            reply_bulk(&call->reply, json_it_name(it));
            reply_as_resp(call, json_it_value(it));
        }
        return;
    case JSON_KIND_ARRAY:
        reply_array(&call->reply, 1 + (int64_t)json_length(value));
        reply_status(&call->reply, "[");
        for (size_t i = 0; i < json_length(value) && !call->failed; i++)
            reply_as_resp(call, json_at(value, i));
        return;
    case JSON_KIND_STRING:
        reply_bulk(&call->reply, json_to_string(value));
        return;
    case JSON_KIND_INTEGER:
        reply_int(&call->reply, json_to_integer(value));
        return;
    case JSON_KIND_REAL:
        if (call->reply.resp == 3) {
            reply_double(&call->reply, json_to_double(value));
            return;
        }
        json_text_init(&text, call->arena);
        json_print(&text, value, &COMPACT, 0);
        reply_bulk(&call->reply, json_text_bytes(&text));
        return;
    case JSON_KIND_TRUE:
        reply_status(&call->reply, "true");
        return;
    case JSON_KIND_FALSE:
        reply_status(&call->reply, "false");
        return;
    case JSON_KIND_NULL:
        reply_null(&call->reply);
        return;
    }
}

void cmd_json_resp(struct call *call)
{
    struct json_edit edit;
    if (call->argc > 3) {
        call_error_arity(call);
        return;
    }
    if (!json_begin(call, call->argc > 2 ? 2 : 0, OPEN_READ, MISSING_IS_NULL, &edit))
        return;
    if (edit.path.is_legacy && edit.matches.count == 0) {
        json_error_no_path(call, &edit.path);
        return;
    }
    size_t count = edit.path.is_legacy ? 1 : edit.matches.count;
    if (!edit.path.is_legacy)
        reply_array(&call->reply, (int64_t)count);
    for (size_t i = 0; i < count && !call->failed; i++)
        reply_as_resp(call, edit.matches.items[i]->value);
}

/* Answers the length of the value's text. */
static void answer_bytes(struct json_edit *edit, const struct json_match *match,
                         struct json_answer *answer)
{
    struct json_text text;
    json_text_init(&text, edit->call->arena);
    json_print(&text, match->value, &COMPACT, 0);
    answer->kind = ANSWER_INT;
    answer->number = (int64_t)text.len;
}

void cmd_json_debug_memory(struct call *call)
{
    struct call inner = *call; /* shifted by one argument, because the key follows a subcommand */
    struct json_edit edit;
    if (call->argc > 4) {
        call_error_arity(call);
        return;
    }
    inner.argv++;
    inner.argc--;
    if (json_begin_text(&inner, inner.argc > 2 ? 2 : 0, OPEN_READ, &edit)) {
        if (!edit.entry.exists && edit.path.is_legacy)
            reply_int(&inner.reply, 0);
        else if (!edit.entry.exists)
            reply_array(&inner.reply, 0);
        else if (json_begin_tree(&edit, MISSING_IS_NULL))
            json_finish(&edit, answer_bytes, NULL);
    }
    call->failed |= inner.failed;
}

/* JSON.INFO of Kvrocks: documents are stored as text. */
void cmd_json_info(struct call *call)
{
    struct entry entry;
    if (!keyspace_open_type(call, call->argv[1], TYPE_JSON, OPEN_READ, &entry))
        return;
    if (!entry.exists) {
        json_error_no_key(call);
        return;
    }
    reply_array(&call->reply, 2);
    reply_bulk_text(&call->reply, "storage_format");
    reply_bulk_text(&call->reply, "json");
}

void cmd_json_debug_help(struct call *call)
{
    command_reply_help(&call->reply, command_of(call->command->parent), HANDLER_BACKEND);
}
