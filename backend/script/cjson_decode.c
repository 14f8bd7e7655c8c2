/*
 * cjson_decode.c - JSON to Lua, with the error texts of lua-cjson 2.1.0 and its deviations from JSON: a number is what
 * strtod accepts, and a zero byte ends the document.
 *
 * Lua stores a zero byte after each string, and every parsing step stops at a zero byte: so nothing is read beyond the
 * document.
 */
#include "backend/script/cjson.h"

#include <ctype.h>
#include <stdlib.h>

enum { CODE_UNIT_LEN = 6, PAIR_LEN = 12, ITEM_COST = 16 };

enum token_type {
    OBJECT_BEGIN,
    OBJECT_END,
    ARRAY_BEGIN,
    ARRAY_END,
    STRING,
    NUMBER,
    BOOLEAN,
    NOTHING,
    COLON,
    COMMA,
    END,
    BAD,
};

/* Names of the tokens in lua-cjson's errors. */
static const char *const token_names[] = {
    [OBJECT_BEGIN] = "T_OBJ_BEGIN",
    [OBJECT_END] = "T_OBJ_END",
    [ARRAY_BEGIN] = "T_ARR_BEGIN",
    [ARRAY_END] = "T_ARR_END",
    [STRING] = "T_STRING",
    [NUMBER] = "T_NUMBER",
    [BOOLEAN] = "T_BOOLEAN",
    [NOTHING] = "T_NULL",
    [COLON] = "T_COLON",
    [COMMA] = "T_COMMA",
    [END] = "T_END",
};

struct token {
    enum token_type type;
    size_t at;
    double number;
    bool is_true;
    const char *why;   /* reason, for BAD */
    struct bytes text; /* value, for STRING; in the state's scratch until the next token */
};

struct decoder {
    lua_State *lua;
    struct script_vm *vm;
    const struct cjson_settings *settings;
    const char *text;
    size_t at;
    int depth;
};

static void set_bad(const struct decoder *decoder, struct token *token, const char *why)
{
    token->type = BAD;
    token->at = decoder->at;
    token->why = why;
}

/* ---- strings ---- */

/* The value of the four hex digits at `text`; -1: there are not four. */
static int code_unit(const char *text)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)text[i]))
            return -1;
        int letter = tolower((unsigned char)text[i]);
        value = value << 4 | (letter <= '9' ? letter - '0' : letter - 'a' + 10);
    }
    return value;
}

static size_t to_utf8(char utf8[4], uint32_t code)
{
    if (code < 0x80) {
        utf8[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        utf8[i] = (char)(0x80 | (code & 0x3f));
    utf8[0] = (char)(0xf00 >> len | code);
    return len;
}

static void append_decoded(const struct decoder *decoder, const char *text, size_t len)
{
    memcpy(scratch_reserve(decoder->lua, len), text, len);
    decoder->vm->scratch.len += len;
}

/* Reads \uXXXX, or a surrogate pair of two. False: malformed. */
static bool read_unicode(struct decoder *decoder)
{
    const char *text = decoder->text + decoder->at;
    char utf8[4];
    size_t taken = CODE_UNIT_LEN;
    int high = code_unit(text + 2);
    if (high < 0)
        return false;
    uint32_t code = (uint32_t)high;
    if ((code & 0xf800) == 0xd800) {
        if (code & 0x400 || text[CODE_UNIT_LEN] != '\\' || text[CODE_UNIT_LEN + 1] != 'u')
            return false;
        int low = code_unit(text + CODE_UNIT_LEN + 2);
        if (low < 0 || (low & 0xfc00) != 0xdc00)
            return false;
        code = ((code & 0x3ff) << 10 | ((uint32_t)low & 0x3ff)) + 0x10000;
        taken = PAIR_LEN;
    }
    append_decoded(decoder, utf8, to_utf8(utf8, code));
    decoder->at += taken;
    return true;
}

/* The character that a backslash and this letter stand for; 0: no such escape. */
static char unescape_letter(char letter)
{
    static const char letters[] = "\"\\/btnfr";
    static const char bytes[] = "\"\\/\b\t\n\f\r";
    const char *found = letter ? strchr(letters, letter) : NULL;
    return (char)(found ? bytes[found - letters] : 0);
}

/* Reads the escape at the current position. Returns NULL, or the text of an error. */
static const char *read_escape(struct decoder *decoder)
{
    char letter = decoder->text[decoder->at + 1];
    if (letter == 'u')
        return read_unicode(decoder) ? NULL : "invalid unicode escape code";
    char byte = unescape_letter(letter);
    if (!byte)
        return "invalid escape code";
    append_decoded(decoder, &byte, 1);
    decoder->at += 2;
    return NULL;
}

static void read_string(struct decoder *decoder, struct token *token)
{
    const char *text = decoder->text;
    decoder->vm->scratch.len = 0;
    decoder->at++;
    while (text[decoder->at] != '"') {
        size_t plain = strcspn(text + decoder->at, "\"\\");
        vm_spend(decoder->lua, plain);
        append_decoded(decoder, text + decoder->at, plain);
        decoder->at += plain;
        const char *why = NULL;
        if (text[decoder->at] == '\\')
            why = read_escape(decoder);
        else if (text[decoder->at] == 0)
            why = "unexpected end of string";
        if (why) {
            set_bad(decoder, token, why);
            return;
        }
    }
    decoder->at++;
    token->type = STRING;
    token->text = (struct bytes){decoder->vm->scratch.data, decoder->vm->scratch.len};
}

/* ---- numbers and words ---- */

/* Is this a number for strtod that JSON does not allow? */
static bool is_invalid_number(const char *text)
{
    if (*text == '+')
        return true;
    text += *text == '-';
    if (*text == '0')
        return (text[1] | 0x20) == 'x' || isdigit((unsigned char)text[1]);
    if (*text <= '9')
        return false;
    return strncasecmp(text, "inf", 3) == 0 || strncasecmp(text, "nan", 3) == 0;
}

static void scan_number(struct decoder *decoder, struct token *token)
{
    char *end;
    const char *text = decoder->text + decoder->at;
    token->type = NUMBER;
    token->number = strtod(text, &end);
    if (end == text)
        set_bad(decoder, token, "invalid number");
    vm_spend(decoder->lua, (size_t)(end - text));
    decoder->at += (size_t)(end - text);
}

static void scan_word(struct decoder *decoder, struct token *token)
{
    const char *text = decoder->text + decoder->at;
    bool takes_invalid = decoder->settings->decode_invalid_numbers;
    if (*text == '-' || isdigit((unsigned char)*text)) {
        if (!takes_invalid && is_invalid_number(text))
            set_bad(decoder, token, "invalid number");
        else
            scan_number(decoder, token);
    } else if (strncmp(text, "true", 4) == 0) {
        token->type = BOOLEAN;
        token->is_true = true;
        decoder->at += 4;
    } else if (strncmp(text, "false", 5) == 0) {
        token->type = BOOLEAN;
        token->is_true = false;
        decoder->at += 5;
    } else if (strncmp(text, "null", 4) == 0) {
        token->type = NOTHING;
        decoder->at += 4;
    } else if (takes_invalid && is_invalid_number(text)) {
        scan_number(decoder, token);
    } else {
        set_bad(decoder, token, "invalid token");
    }
}

static void read_token(struct decoder *decoder, struct token *token)
{
    static const char marks[] = "{}[]:,";
    static const enum token_type types[] = {OBJECT_BEGIN, OBJECT_END, ARRAY_BEGIN,
                                            ARRAY_END,    COLON,      COMMA};
    size_t blank = strspn(decoder->text + decoder->at, " \t\n\r");
    vm_spend(decoder->lua, blank);
    decoder->at += blank;
    token->at = decoder->at;
    char c = decoder->text[decoder->at];
    const char *mark = c ? strchr(marks, c) : NULL;
    if (!c) {
        token->type = END;
    } else if (mark) {
        token->type = types[mark - marks];
        decoder->at++;
    } else if (c == '"') {
        read_string(decoder, token);
    } else {
        scan_word(decoder, token);
    }
}

/* ---- values ---- */

static void raise_decode_error(const struct decoder *decoder, const char *expected,
                               const struct token *token)
{
    const char *found = token->type == BAD ? token->why : token_names[token->type];
    luaL_error(decoder->lua, "Expected %s but found %s at character %d", expected, found,
               (int)token->at + 1);
}

static void descend(struct decoder *decoder, int slots)
{
    decoder->depth++;
    if (decoder->depth > decoder->settings->decode_max_depth ||
        !lua_checkstack(decoder->lua, slots))
        luaL_error(decoder->lua, "Found too many nested data structures (%d) at character %d",
                   decoder->depth, (int)decoder->at);
}

static void decode_value(struct decoder *decoder, const struct token *token);

static void push_object(struct decoder *decoder)
{
    lua_State *lua = decoder->lua;
    struct token token;
    descend(decoder, 3);
    lua_newtable(lua);
    read_token(decoder, &token);
    while (token.type != OBJECT_END) {
        if (token.type != STRING)
            raise_decode_error(decoder, "object key string", &token);
        lua_pushlstring(lua, token.text.data, token.text.len);
        read_token(decoder, &token);
        if (token.type != COLON)
            raise_decode_error(decoder, "colon", &token);
        read_token(decoder, &token);
        decode_value(decoder, &token);
        lua_rawset(lua, -3);
        read_token(decoder, &token);
        if (token.type == OBJECT_END)
            break;
        if (token.type != COMMA)
            raise_decode_error(decoder, "comma or object end", &token);
        read_token(decoder, &token);
        if (token.type == OBJECT_END)
            raise_decode_error(decoder, "object key string", &token);
    }
    decoder->depth--;
}

static void decode_array(struct decoder *decoder)
{
    struct token token;
    descend(decoder, 2);
    lua_newtable(decoder->lua);
    read_token(decoder, &token);
    for (int i = 1; token.type != ARRAY_END; i++) {
        decode_value(decoder, &token);
        lua_rawseti(decoder->lua, -2, i);
        read_token(decoder, &token);
        if (token.type == ARRAY_END)
            break;
        if (token.type != COMMA)
            raise_decode_error(decoder, "comma or array end", &token);
        read_token(decoder, &token);
        if (token.type == ARRAY_END)
            raise_decode_error(decoder, "value", &token);
    }
    decoder->depth--;
}

static void decode_value(struct decoder *decoder, const struct token *token)
{
    vm_spend(decoder->lua, ITEM_COST);
    switch (token->type) {
    case STRING:
        lua_pushlstring(decoder->lua, token->text.data, token->text.len);
        break;
    case NUMBER:
        lua_pushnumber(decoder->lua, token->number);
        break;
    case BOOLEAN:
        lua_pushboolean(decoder->lua, token->is_true);
        break;
    case OBJECT_BEGIN:
        push_object(decoder);
        break;
    case ARRAY_BEGIN:
        decode_array(decoder);
        break;
    case NOTHING:
        lua_pushlightuserdata(decoder->lua, NULL); /* nil would remove the key from its table */
        break;
    default:
        raise_decode_error(decoder, "value", token);
    }
}

int cjson_decode(lua_State *lua)
{
    size_t len;
    struct decoder decoder = {lua, vm_of(lua), cjson_settings_of(lua), NULL, 0, 0};
    struct token token;
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    luaL_checkstack(lua, LUA_MINSTACK, "not enough stack");
    decoder.text = luaL_checklstring(lua, 1, &len);
    if (len >= 2 && (!decoder.text[0] || !decoder.text[1]))
        return luaL_error(lua, "JSON parser does not support UTF-16 or UTF-32");
    read_token(&decoder, &token);
    decode_value(&decoder, &token);
    read_token(&decoder, &token);
    if (token.type != END)
        raise_decode_error(&decoder, "the end", &token);
    return 1;
}
