#include "shared/command/argument_docs.h"

/* ---- the table ---- */

#define ARGUMENT(kind, label, ...)                                                                 \
    {                                                                                              \
        .name = (label), .type = ARGUMENT_##kind, __VA_ARGS__                                      \
    }
#define STRING(...)    ARGUMENT(STRING, __VA_ARGS__, )
#define INTEGER(...)   ARGUMENT(INTEGER, __VA_ARGS__, )
#define DOUBLE(...)    ARGUMENT(DOUBLE, __VA_ARGS__, )
#define KEY(...)       ARGUMENT(KEY, __VA_ARGS__, )
#define PATTERN(...)   ARGUMENT(PATTERN, __VA_ARGS__, )
#define UNIX_TIME(...) ARGUMENT(UNIX_TIME, __VA_ARGS__, )
#define ONE_OF(...)    ARGUMENT(ONE_OF, __VA_ARGS__, )
#define BLOCK(...)     ARGUMENT(BLOCK, __VA_ARGS__, )
#define WORD(label, word, ...)                                                                     \
    {                                                                                              \
        .name = (label), .type = ARGUMENT_TOKEN, .token = (word), __VA_ARGS__                      \
    }
#define TOKEN(...)      WORD(__VA_ARGS__, )
#define BEHIND(word)    .token = (word)
#define KEY_SPEC(index) .key_spec = (index)
#define OPTIONAL        .is_optional = true
#define REPEATED        .is_repeated = true
#define WITH_ITS_WORD   .repeats_token = true
#define SINCE(version)  .since = (version)
#define UNTIL(version)  .outdated = (version)
#define LIST(...)                                                                                  \
    (const struct argument[])                                                                      \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .name = NULL                                                                           \
        }                                                                                          \
    }
#define PARTS(...) .parts = LIST(__VA_ARGS__)

static const struct argument *const table[COMMAND_COUNT] = {
#define ARGUMENTS(id, ...) [COMMAND_##id] = LIST(__VA_ARGS__),
#include "shared/command/argument_docs.def"
#undef ARGUMENTS
};

const struct argument *argument_docs_of(enum command_id id)
{
    return table[id];
}

/* ---- the reply ---- */

static const char *const type_names[] = {
    [ARGUMENT_STRING] = "string",    [ARGUMENT_INTEGER] = "integer",
    [ARGUMENT_DOUBLE] = "double",    [ARGUMENT_KEY] = "key",
    [ARGUMENT_PATTERN] = "pattern",  [ARGUMENT_UNIX_TIME] = "unix-time",
    [ARGUMENT_TOKEN] = "pure-token", [ARGUMENT_ONE_OF] = "oneof",
    [ARGUMENT_BLOCK] = "block",
};

static bool has_key_spec(const struct argument *argument)
{
    return argument->type == ARGUMENT_KEY || argument->key_spec > 0;
}

static uint32_t count_argument_flags(const struct argument *argument)
{
    return (uint32_t)argument->is_optional + argument->is_repeated + argument->repeats_token;
}

static void write_word(struct reply *reply, const char *name, const char *text)
{
    if (!text)
        return;
    reply_bulk_text(reply, name);
    reply_bulk_text(reply, text);
}

static void write_argument_flags(struct reply *reply, const struct argument *argument)
{
    uint32_t count = count_argument_flags(argument);
    if (!count)
        return;
    reply_bulk_text(reply, "flags");
    reply_set(reply, count);
    if (argument->is_optional)
        reply_status(reply, "optional");
    if (argument->is_repeated)
        reply_status(reply, "multiple");
    if (argument->repeats_token)
        reply_status(reply, "multiple_token");
}

/* Writes the argument's map; its parts, if it has some, are announced as the last field, and follow. */
static void write_argument(struct reply *reply, const struct argument *argument)
{
    reply_map(reply, 2 + has_key_spec(argument) + !!argument->token + !!argument->since +
                         !!argument->outdated + !!count_argument_flags(argument) +
                         !!argument->parts);
    write_word(reply, "name", argument->name);
    write_word(reply, "type", type_names[argument->type]);
    if (has_key_spec(argument)) {
        reply_bulk_text(reply, "key_spec_index");
        reply_int(reply, argument->key_spec);
    }
    write_word(reply, "token", argument->token);
    write_word(reply, "since", argument->since);
    write_word(reply, "deprecated_since", argument->outdated);
    write_argument_flags(reply, argument);
    if (argument->parts)
        reply_bulk_text(reply, "arguments");
}

void argument_docs_reply(struct reply *reply, const struct argument *arguments)
{
    int64_t count = 0;
    while (arguments[count].name)
        count++;
    reply_array(reply, count);
    for (; arguments->name; arguments++) {
        write_argument(reply, arguments);
        if (arguments->parts)
            argument_docs_reply(reply, arguments->parts);
    }
}
