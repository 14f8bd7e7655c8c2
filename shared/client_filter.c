#include "shared/client_filter.h"

#include "shared/check.h"
#include "shared/number.h"

#include <stdlib.h>

enum client_field {
    FIELD_ID,
    FIELD_TYPE,
    FIELD_USER,
    FIELD_ADDR,
    FIELD_LADDR,
    FIELD_IP,
    FIELD_NAME,
    FIELD_FLAGS,
    FIELD_LIB_NAME,
    FIELD_LIB_VERSION,
    FIELD_DB,
    FIELD_CAPA,
    FIELD_MAX_AGE,
    FIELD_IDLE,
    FIELD_COUNT,
};

/* A field of this enum in client_type_matches(): there are no replicas and masters. */
enum client_type { CLIENT_NORMAL, CLIENT_PUBSUB, CLIENT_NOBODY };

struct client_condition {
    enum client_field field;
    bool is_not;
    uint64_t number;
    size_t at; /* the text, in the block behind the conditions */
    size_t len;
};

struct client_filter {
    size_t size; /* of the block */
    bool skips_me;
    uint32_t count;
    struct client_condition conditions[];
};

static const struct {
    const char *word;
    bool may_negate; /* NOT-word exists too */
} FIELDS[FIELD_COUNT] = {
    [FIELD_ID] = {"ID", true},
    [FIELD_TYPE] = {"TYPE", true},
    [FIELD_USER] = {"USER", true},
    [FIELD_ADDR] = {"ADDR", true},
    [FIELD_LADDR] = {"LADDR", true},
    [FIELD_IP] = {"IP", true},
    [FIELD_NAME] = {"NAME", true},
    [FIELD_FLAGS] = {"FLAGS", true},
    [FIELD_LIB_NAME] = {"LIB-NAME", true},
    [FIELD_LIB_VERSION] = {"LIB-VER", true},
    [FIELD_DB] = {"DB", true},
    [FIELD_CAPA] = {"CAPA", true},
    [FIELD_MAX_AGE] = {"MAXAGE", false},
    [FIELD_IDLE] = {"IDLE", false},
};

/* The letters of CLIENT LIST's flags, as documented for Redis and Valkey. */
static const char FLAG_LETTERS[] = "AbcdeiMNOPrSuUxtTRBEI";

/* ---- parsing ---- */

struct filter_parser {
    const struct bytes *argv;
    uint32_t argc;
    uint32_t at;
    const struct client_filter_rules *rules;
    struct reply *reply;
    struct client_filter *filter;
};

/* The field of a word; FIELD_COUNT: none. */
static enum client_field field_of(struct bytes word, bool *is_not)
{
    *is_not = word.len > 4 && bytes_is((struct bytes){word.data, 4}, "NOT-");
    if (*is_not)
        word = (struct bytes){word.data + 4, word.len - 4};
    for (int field = 0; field < FIELD_COUNT; field++)
        if (bytes_is(word, FIELDS[field].word) && (!*is_not || FIELDS[field].may_negate))
            return (enum client_field)field;
    return FIELD_COUNT;
}

static bool refuse_filter(struct filter_parser *parser, const char *text)
{
    reply_error(parser->reply, text);
    return false;
}

/* ID has the errors of Redis, NOT-ID those of Valkey. */
static bool parse_id(struct filter_parser *parser, bool is_not, struct bytes value,
                     uint64_t *number)
{
    int64_t id;
    bool is_number = number_parse_int64(value, &id);
    *number = is_number ? (uint64_t)id : 0;
    if (is_not && !is_number)
        return refuse_filter(parser, "ERR syntax error");
    if (!is_not && parser->rules->may_repeat)
        return is_number || refuse_filter(parser, "ERR Invalid client ID");
    return (is_number && id > 0) || refuse_filter(parser, "ERR client-id should be greater than 0");
}

static bool parse_type(struct filter_parser *parser, struct bytes value, uint64_t *number)
{
    bool is_nobody = bytes_is(value, "slave") || bytes_is(value, "replica") ||
                     bytes_is(value, "master") || bytes_is(value, "primary");
    *number = bytes_is(value, "normal")   ? CLIENT_NORMAL
              : bytes_is(value, "pubsub") ? CLIENT_PUBSUB
                                          : CLIENT_NOBODY;
    if (*number != CLIENT_NOBODY || is_nobody)
        return true;
    reply_errorf(parser->reply, "ERR Unknown client type '%.*s'", (int)value.len, value.data);
    return false;
}

static bool parse_letters(struct filter_parser *parser, enum client_field field, bool is_not,
                          struct bytes value)
{
    bool is_capa = field == FIELD_CAPA;
    const char *known = is_capa ? "r" : FLAG_LETTERS;
    for (size_t i = 0; i < value.len; i++)
        if (value.data[i] == 0 || !strchr(known, value.data[i])) {
            reply_errorf(parser->reply, "ERR Unknown %s found in the %s filter: %.*s",
                         is_capa ? "capa" : "flags",
                         !is_not   ? "provided"
                         : is_capa ? "NOT-CAPA"
                                   : "NOT-FLAGS",
                         (int)value.len, value.data);
            return false;
        }
    return true;
}

static bool parse_db_filter(struct filter_parser *parser, bool is_not, struct bytes value,
                            uint64_t *number)
{
    const char *word = is_not ? "NOT-DB" : "DB";
    int64_t db;
    if (!number_parse_int64(value, &db) || db < INT32_MIN || db > INT32_MAX) {
        reply_errorf(parser->reply, "ERR %s is not an integer or out of range", word);
        return false;
    }
    if (db < 0 || db >= parser->rules->databases) {
        reply_errorf(parser->reply, "ERR %s number should be between 0 and %u", word,
                     parser->rules->databases - 1);
        return false;
    }
    *number = (uint64_t)db;
    return true;
}

/* Parses the value of a field that is a number, or must be checked. */
static bool parse_value(struct filter_parser *parser, enum client_field field, bool is_not,
                        struct bytes value, uint64_t *number)
{
    const struct client_filter_rules *rules = parser->rules;
    int64_t parsed;
    switch (field) {
    case FIELD_ID:
        return parse_id(parser, is_not, value, number);
    case FIELD_TYPE:
        return parse_type(parser, value, number);
    case FIELD_USER:
        if (!rules->is_user || rules->is_user(rules->owner, value))
            return true;
        reply_errorf(parser->reply, "ERR No such user '%.*s'", (int)value.len, value.data);
        return false;
    case FIELD_FLAGS:
    case FIELD_CAPA:
        return parse_letters(parser, field, is_not, value);
    case FIELD_DB:
        return parse_db_filter(parser, is_not, value, number);
    case FIELD_MAX_AGE:
    case FIELD_IDLE:
        if (!number_parse_int64(value, &parsed)) {
            reply_errorf(parser->reply, "ERR %s is not an integer or out of range",
                         field == FIELD_IDLE ? "idle" : "maxage");
            return false;
        }
        if (field == FIELD_MAX_AGE && parsed <= 0)
            return refuse_filter(parser, "ERR maxage should be greater than 0");
        if (field == FIELD_IDLE && parsed <= 0)
            return refuse_filter(parser, "ERR idle should be greater than 0");
        *number = (uint64_t)parsed;
        return true;
    default:
        return true;
    }
}

static bool add_condition(struct filter_parser *parser, enum client_field field, bool is_not,
                          struct bytes value)
{
    struct client_filter *filter = parser->filter;
    struct client_condition *condition = &filter->conditions[filter->count];
    *condition = (struct client_condition){
        .field = field, .is_not = is_not, .at = filter->size, .len = value.len};
    if (!parse_value(parser, field, is_not, value, &condition->number))
        return false;
    memcpy((char *)filter + filter->size, value.data, value.len);
    filter->size += value.len;
    filter->count++;
    return true;
}

/* The further arguments of ID, up to the next option. */
static bool add_more_ids(struct filter_parser *parser, bool is_not)
{
    bool ignored;
    int64_t number;
    while (parser->at < parser->argc) {
        struct bytes word = parser->argv[parser->at];
        if (!number_parse_int64(word, &number) &&
            (field_of(word, &ignored) != FIELD_COUNT || bytes_is(word, "SKIPME")))
            break;
        if (!add_condition(parser, FIELD_ID, is_not, word))
            return false;
        parser->at++;
    }
    return true;
}

static bool parse_condition(struct filter_parser *parser)
{
    bool is_not;
    struct bytes word = parser->argv[parser->at];
    if (parser->at + 1 == parser->argc)
        return refuse_filter(parser, "ERR syntax error");
    struct bytes value = parser->argv[parser->at + 1];
    enum client_field field = field_of(word, &is_not);
    parser->at += 2;
    if (bytes_is(word, "SKIPME") && (bytes_is(value, "yes") || bytes_is(value, "no"))) {
        parser->filter->skips_me = bytes_is(value, "yes");
        return true;
    }
    if (field == FIELD_COUNT)
        return refuse_filter(parser, "ERR syntax error");
    return add_condition(parser, field, is_not, value) &&
           (field != FIELD_ID || !(is_not || parser->rules->may_repeat) ||
            add_more_ids(parser, is_not));
}

static struct client_filter *conditions_new(uint32_t conditions, size_t text)
{
    size_t head = sizeof(struct client_filter) + conditions * sizeof(struct client_condition);
    struct client_filter *filter = calloc(1, head + text);
    CHECK(filter);
    filter->size = head;
    return filter;
}

struct client_filter *client_filter_parse(const struct bytes *argv, uint32_t argc, uint32_t from,
                                          const struct client_filter_rules *rules,
                                          struct reply *reply)
{
    size_t text = 0;
    for (uint32_t i = from; i < argc; i++)
        text += argv[i].len;
    struct filter_parser parser = {.argv = argv,
                                   .argc = argc,
                                   .at = from,
                                   .rules = rules,
                                   .reply = reply,
                                   .filter = conditions_new(argc - from, text)};
    parser.filter->skips_me = rules->skips_me;
    while (parser.at < argc)
        if (!parse_condition(&parser)) {
            free(parser.filter);
            return NULL;
        }
    return parser.filter;
}

struct client_filter *client_filter_of_addr(struct bytes addr)
{
    struct client_filter *filter = conditions_new(1, addr.len);
    filter->conditions[0] =
        (struct client_condition){.field = FIELD_ADDR, .at = filter->size, .len = addr.len};
    memcpy((char *)filter + filter->size, addr.data, addr.len);
    filter->size += addr.len;
    filter->count = 1;
    return filter;
}

size_t client_filter_size(const struct client_filter *filter)
{
    return filter->size;
}

bool client_filter_skips_me(const struct client_filter *filter)
{
    return filter->skips_me;
}

/* ---- matching ---- */

static bool text_is_field(const char *field, struct bytes text)
{
    return bytes_equal(bytes_of(field ? field : ""), text);
}

/* "1.2.3.4:5" and "[::1]:5" without the port. */
static bool addr_has_ip(const char *addr, struct bytes ip)
{
    const char *colon = strrchr(addr, ':');
    size_t len = colon ? (size_t)(colon - addr) : strlen(addr);
    if (len >= 2 && addr[0] == '[')
        return bytes_equal((struct bytes){addr + 1, len - 2}, ip);
    return bytes_equal((struct bytes){addr, len}, ip);
}

static bool has_letters(const char *flags, struct bytes letters)
{
    for (size_t i = 0; i < letters.len; i++)
        if (!strchr(flags, letters.data[i]))
            return false;
    return true;
}

static bool condition_holds(const struct client_condition *condition, struct bytes text,
                            const struct client_facts *facts)
{
    switch (condition->field) {
    case FIELD_ID:
        return facts->id == condition->number;
    case FIELD_TYPE:
        return condition->number ==
               (uint64_t)(facts->is_subscriber ? CLIENT_PUBSUB : CLIENT_NORMAL);
    case FIELD_USER:
        return bytes_equal(facts->user, text);
    case FIELD_ADDR:
        return text_is_field(facts->addr, text);
    case FIELD_LADDR:
        return text_is_field(facts->laddr, text);
    case FIELD_IP:
        return addr_has_ip(facts->addr, text);
    case FIELD_NAME:
        return text_is_field(facts->name, text);
    case FIELD_FLAGS:
        return has_letters(facts->flags, text);
    case FIELD_LIB_NAME:
        return text_is_field(facts->lib_name, text);
    case FIELD_LIB_VERSION:
        return text_is_field(facts->lib_version, text);
    case FIELD_DB:
        return facts->db == condition->number;
    case FIELD_MAX_AGE:
        return facts->age_s >= condition->number;
    case FIELD_IDLE:
        return facts->idle_s >= condition->number;
    case FIELD_CAPA: /* no capability has an effect here, so no client has one */
        return text.len == 0;
    case FIELD_COUNT:
        return false;
    }
    return false;
}

bool client_filter_matches(const struct client_filter *filter, const struct client_facts *facts)
{
    bool wants_id = false;
    bool has_id = false;
    for (uint32_t i = 0; i < filter->count; i++) {
        const struct client_condition *condition = &filter->conditions[i];
        struct bytes text = {(const char *)filter + condition->at, condition->len};
        bool holds = condition_holds(condition, text, facts);
        if (condition->field == FIELD_ID && !condition->is_not) {
            wants_id = true;
            has_id |= holds;
        } else if (holds == condition->is_not) {
            return false;
        }
    }
    return has_id || !wants_id;
}
