#include "backend/format/json/json_doc.h"

#include "shared/check.h"
#include "shared/number.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory ---- */

static _Thread_local struct arena *arena_in_use;
/* jansson checks its allocations, and is in a function that our code calls only where it checks the result. */
static _Thread_local bool may_fail;

enum { MALLOC_WORK = 3 };

static void *arena_malloc(size_t size)
{
    if (may_fail && !arena_goes_on(arena_in_use, MALLOC_WORK + size / 64))
        return NULL;
    return arena_alloc(arena_in_use, size);
}

static json_t *load_text(struct bytes text, json_error_t *reason)
{
    may_fail = true;
    json_t *value = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, reason);
    may_fail = false;
    return value;
}

static void free_nothing(void *memory)
{
    (void)memory; /* the arena is freed when the command ends */
}

static void set_up(void)
{
    json_set_alloc_funcs(arena_malloc, free_nothing);
    json_object_seed(0);
}

void json_use(struct arena *arena)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_up);
    arena_in_use = arena;
}

/* ---- parsing ---- */

bool json_is_too_deep(struct bytes text, unsigned around)
{
    unsigned depth = around;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{'))
            depth++;
        else if (!in_string && (c == ']' || c == '}') && depth > around)
            depth--;
        if (depth > JSON_DEPTH_MAX)
            return true;
    }
    return false;
}

bool json_is_text(struct bytes bytes)
{
    return !memchr(bytes.data, 0, bytes.len) && json_stringn(bytes.data, bytes.len) != NULL;
}

/* Length of the number that begins at `at`; *is_wide: an integer that exceeds 64 bits. */
static size_t number_len(struct bytes text, size_t at, bool *is_wide)
{
    size_t end = at;
    int64_t value;
    while (end < text.len && memchr("+-.0123456789Ee", text.data[end], 15))
        end++;
    struct bytes number = {text.data + at, end - at};
    *is_wide = number.len >= INT64_TEXT_MAX - 2 && !memchr(number.data, '.', number.len) &&
               !memchr(number.data, 'e', number.len) && !memchr(number.data, 'E', number.len) &&
               !number_parse_int64(number, &value);
    return number.len;
}

/* Adds an exponent to each integer that exceeds 64 bits, so that jansson reads it as a double. */
static struct bytes widened(struct bytes text)
{
    char *to = arena_malloc(text.len + text.len / 8 + 8);
    size_t len = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len;) {
        char c = text.data[i];
        size_t count = in_string && c == '\\' && i + 1 < text.len ? 2 : 1;
        bool is_wide = false;
        if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '-' || (c >= '0' && c <= '9')))
            count = number_len(text, i, &is_wide);
        memcpy(to + len, text.data + i, count);
        len += count;
        i += count;
        if (is_wide) {
            memcpy(to + len, "e0", 2);
            len += 2;
        }
    }
    return (struct bytes){to, len};
}

json *json_parse(struct bytes text, char error[JSON_ERROR_MAX])
{
    json_error_t reason;
    int64_t integer;
    if (number_parse_int64(text, &integer)) /* fast path for JSON.NUMINCRBY */
        return json_new_integer(integer);
    (void)arena_goes_on(arena_in_use, text.len / 8); /* load_text fails if not */
    if (json_is_too_deep(text, 0)) { /* else jansson's recursion would be too deep */
        (void)snprintf(error, JSON_ERROR_MAX, "recursion limit exceeded: more than %d levels",
                       JSON_DEPTH_MAX);
        return NULL;
    }
    json_t *value = load_text(text, &reason);
    if (!value && json_error_code(&reason) == json_error_numeric_overflow) {
        text = widened(text);
        value = load_text(text, &reason);
    }
    if (!value)
        (void)snprintf(error, JSON_ERROR_MAX, "%.180s at line %d column %d", reason.text,
                       reason.line, reason.column);
    return value;
}

/* ---- printing ---- */

void json_text_init(struct json_text *text, struct arena *arena)
{
    *text = (struct json_text){.arena = arena, .limit = SIZE_MAX};
}

static char *reserve_text(struct json_text *text, size_t len)
{
    if (text->cap - text->len < len) {
        size_t cap = text->cap * 2 > text->len + len ? text->cap * 2 : text->len + len + 64;
        char *data = arena_alloc(text->arena, cap);
        if (text->len)
            memcpy(data, text->data, text->len);
        text->data = data;
        text->cap = cap;
        if (!arena_goes_on(text->arena, cap / 8))
            text->limit = 0;
    }
    return text->data + text->len;
}

void json_text_add(struct json_text *text, struct bytes bytes)
{
    if (bytes.len == 0)
        return;
    memcpy(reserve_text(text, bytes.len), bytes.data, bytes.len);
    text->len += bytes.len;
}

static void add_char(struct json_text *text, char c)
{
    *reserve_text(text, 1) = c;
    text->len++;
}

static void print_escaped(struct json_text *text, unsigned char c)
{
    static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *at = escapes; *at; at += 2)
        if ((unsigned char)*at == c) {
            json_text_add(text, (struct bytes){(char[]){'\\', at[1]}, 2});
            return;
        }
    text->len += (size_t)snprintf(reserve_text(text, 8), 8, "\\u%04x", c);
}

void json_print_string(struct json_text *text, struct bytes string)
{
    size_t from = 0; /* beginning of the current part without escapes */
    add_char(text, '"');
    for (size_t i = 0; i < string.len; i++) {
        unsigned char c = (unsigned char)string.data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        json_text_add(text, (struct bytes){string.data + from, i - from});
        print_escaped(text, c);
        from = i + 1;
    }
    json_text_add(text, (struct bytes){string.data + from, string.len - from});
    add_char(text, '"');
}

/* Digits of a value with at most DECIMALS_MAX decimals, else 0: a fast path, as most doubles in documents are prices
 * and the like. */
static size_t few_digits(double value, char digits[32], int *exponent)
{
    enum { DECIMALS_MAX = 4 };
    static const double powers[] = {1, 10, 100, 1000, 10000};
    if (value < 1 || value >= 1e9)
        return 0;
    for (int decimals = 0; decimals <= DECIMALS_MAX; decimals++) {
        double scaled = nearbyint(value * powers[decimals]);
        if (scaled / powers[decimals] != value)
            continue;
        size_t count = number_format_int64(digits, (int64_t)scaled);
        *exponent = (int)count - 1 - decimals;
        while (count > 1 && digits[count - 1] == '0')
            count--;
        return count;
    }
    return 0;
}

/* The shortest digits that read back as the value, and the power of ten of the first one. */
static size_t shortest_digits(double value, char digits[32], int *exponent)
{
    char text[40];
    size_t count = few_digits(value, digits, exponent);
    if (count)
        return count;
    int precision = value < 1e-300 ? 0 : 14; /* subnormal values can have fewer digits */
    do
        (void)snprintf(text, sizeof text, "%.*e", precision, value);
    while (strtod(text, NULL) != value && precision++ < 17);
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    *exponent = (int)strtol(at + 1, NULL, 10);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return count;
}

/* Prints a double as RedisJSON does: without an exponent between 1e-5 and 1e16, else with one; always with a point or
 * an exponent. */
static void print_real(struct json_text *text, double value)
{
    enum { PLAIN_DIGITS = 16, ZEROS_MAX = 5, REAL_WORK = 50 };
    char digits[32];
    int exponent;
    if (signbit(value))
        add_char(text, '-');
    size_t count = shortest_digits(fabs(value), digits, &exponent);
    if (!arena_goes_on(text->arena, REAL_WORK))
        text->limit = 0;
    int point = exponent + 1; /* digits before the point */
    if (point > PLAIN_DIGITS || point <= -ZEROS_MAX) {
        add_char(text, digits[0]);
        if (count > 1) {
            add_char(text, '.');
            json_text_add(text, (struct bytes){digits + 1, count - 1});
        }
        text->len += (size_t)snprintf(reserve_text(text, 8), 8, "e%d", exponent);
        return;
    }
    if (point <= 0)
        json_text_add(text, (struct bytes){"0.00000", (size_t)(2 - point)});
    for (int i = 0; i < (int)count || i < point; i++) {
        if (i == point && i > 0)
            add_char(text, '.');
        add_char(text, i < (int)count ? digits[i] : '0');
    }
    if (point >= (int)count)
        json_text_add(text, BYTES(".0"));
}

static void start_line(struct json_text *text, const struct json_layout *layout, unsigned depth)
{
    json_text_add(text, layout->newline);
    for (unsigned i = 0; i < depth; i++)
        json_text_add(text, layout->indent);
}

static void print_object(struct json_text *text, const json *value,
                         const struct json_layout *layout, unsigned depth)
{
    const char *comma = "";
    add_char(text, '{');
    for (void *it = json_first(value); it; it = json_next(value, it)) {
        json_text_add(text, bytes_of(comma));
        comma = ",";
        start_line(text, layout, depth + 1);
        json_print_string(text, json_it_name(it));
        add_char(text, ':');
        json_text_add(text, layout->space);
        json_print(text, json_it_value(it), layout, depth + 1);
    }
    if (*comma)
        start_line(text, layout, depth);
    add_char(text, '}');
}

static void print_array(struct json_text *text, const json *value, const struct json_layout *layout,
                        unsigned depth)
{
    size_t count = json_array_size(value);
    add_char(text, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            add_char(text, ',');
        start_line(text, layout, depth + 1);
        json_print(text, json_array_get(value, i), layout, depth + 1);
    }
    if (count)
        start_line(text, layout, depth);
    add_char(text, ']');
}

void json_print(struct json_text *text, const json *value, const struct json_layout *layout,
                unsigned depth)
{
    if (text->len > text->limit)
        return;
    switch (json_kind_of(value)) {
    case JSON_KIND_OBJECT:
        print_object(text, value, layout, depth);
        return;
    case JSON_KIND_ARRAY:
        print_array(text, value, layout, depth);
        return;
    case JSON_KIND_STRING:
        json_print_string(text, json_to_string(value));
        return;
    case JSON_KIND_INTEGER:
        text->len +=
            number_format_int64(reserve_text(text, INT64_TEXT_MAX), json_integer_value(value));
        return;
    case JSON_KIND_REAL:
        print_real(text, json_real_value(value));
        return;
    case JSON_KIND_TRUE:
        json_text_add(text, BYTES("true"));
        return;
    case JSON_KIND_FALSE:
        json_text_add(text, BYTES("false"));
        return;
    case JSON_KIND_NULL:
        json_text_add(text, BYTES("null"));
        return;
    }
}

/* ---- values ---- */

enum json_kind json_kind_of(const json *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_STRING:
        return JSON_KIND_STRING;
    case JSON_INTEGER:
        return JSON_KIND_INTEGER;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_TRUE:
        return JSON_KIND_TRUE;
    case JSON_FALSE:
        return JSON_KIND_FALSE;
    case JSON_NULL:
        break;
    }
    return JSON_KIND_NULL;
}

const char *json_kind_name(const json *value)
{
    static const char *const names[] = {
        [JSON_KIND_OBJECT] = "object",   [JSON_KIND_ARRAY] = "array", [JSON_KIND_STRING] = "string",
        [JSON_KIND_INTEGER] = "integer", [JSON_KIND_REAL] = "number", [JSON_KIND_TRUE] = "boolean",
        [JSON_KIND_FALSE] = "boolean",   [JSON_KIND_NULL] = "null",
    };
    return names[json_kind_of(value)];
}

/* jansson returns NULL only when memory is exhausted, and then the arena ends the process. */
static json *made(json_t *value)
{
    CHECK(value);
    return value;
}

json *json_new_integer(int64_t value)
{
    return made(json_integer(value));
}

json *json_new_real(double value)
{
    return made(json_real(value));
}

json *json_new_string(struct bytes value)
{
    return made(json_stringn(value.data, value.len));
}

json *json_new_boolean(bool value)
{
    return json_boolean(value);
}

json *json_new_object(void)
{
    return made(json_object());
}

json *json_new_array(void)
{
    return made(json_array());
}

int64_t json_to_integer(const json *value)
{
    return json_integer_value(value);
}

double json_to_double(const json *value)
{
    return json_number_value(value);
}

struct bytes json_to_string(const json *value)
{
    return (struct bytes){json_string_value(value), json_string_length(value)};
}

size_t json_length(const json *value)
{
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

json *json_at(const json *array, size_t index)
{
    return json_array_get(array, index);
}

json *json_member(const json *object, struct bytes name)
{
    return json_object_getn(object, name.data, name.len);
}

void json_array_put(json *array, size_t index, json *value)
{
    CHECK(json_array_set(array, index, value) == 0);
}

void json_array_add(json *array, json *value)
{
    CHECK(json_array_append(array, value) == 0);
}

void json_array_insert_all(json *array, size_t at, json *const *values, size_t count)
{
    size_t len = json_array_size(array);
    for (size_t i = 0; i < count; i++)
        json_array_add(array, values[i]);
    for (size_t i = len; i-- > at;)
        json_array_put(array, i + count, json_array_get(array, i));
    for (size_t i = 0; i < count; i++)
        json_array_put(array, at + i, values[i]);
}

void json_array_keep(json *array, size_t from, size_t count)
{
    for (size_t i = 0; i < count && from; i++)
        json_array_put(array, i, json_array_get(array, from + i));
    for (size_t len = json_array_size(array); len > count; len--)
        json_array_drop(array, len - 1);
}

void json_array_drop(json *array, size_t index)
{
    CHECK(json_array_remove(array, index) == 0);
}

void json_array_drop_all(json *array, const size_t *indexes, size_t count)
{
    json *rest = json_new_array();
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (count && *indexes == i) {
            indexes++;
            count--;
        } else {
            json_array_add(rest, json_array_get(array, i));
        }
    }
    CHECK(count == 0);
    CHECK(json_array_clear(array) == 0);
    CHECK(json_array_extend(array, rest) == 0);
}

void json_object_put(json *object, struct bytes name, json *value)
{
    CHECK(json_object_setn(object, name.data, name.len, value) == 0);
}

bool json_object_drop(json *object, struct bytes name)
{
    return json_object_deln(object, name.data, name.len) == 0;
}

void json_clear(json *value)
{
    CHECK((json_is_array(value) ? json_array_clear(value) : json_object_clear(value)) == 0);
}

void *json_first(const json *object)
{
    return json_object_iter((json_t *)object);
}

void *json_next(const json *object, void *it)
{
    return json_object_iter_next((json_t *)object, it);
}

struct bytes json_it_name(void *it)
{
    return (struct bytes){json_object_iter_key(it), json_object_iter_key_len(it)};
}

json *json_it_value(void *it)
{
    return json_object_iter_value(it);
}
