/*
 * pattern.c - string.find, match, gmatch and gsub, with the patterns of Lua 5.1:
 * https://www.lua.org/manual/5.1/manual.html#5.4.1
 *
 * They replace Lua's functions because matching may take exponential time, and Lua's matcher cannot be interrupted:
 * this matcher counts its steps, so the time limit and SCRIPT KILL can end it.
 *
 *   match(s, p) ─┬─ one item of p fits at s: continue after both
 *                └─ item with ? * + - or a capture: match(…) for each possible length, recursively
 *
 * The recursion is at most as deep as the pattern has items, hence PATTERN_MAX. A zero byte ends a pattern.
 */
#include "backend/script/vm.h"

#include <ctype.h>

enum {
    PATTERN_MAX = 16 * 1024,
    CAPTURES_MAX = 32,
    STEPS_COUNTED = 256, /* steps per call of vm_spend */
    CALL_COST = 1000,
    ESCAPE = '%',
};

static const ptrdiff_t unfinished = -1;
static const ptrdiff_t position = -2;

struct match {
    lua_State *lua;
    const char *begin; /* of the subject */
    const char *end;
    int level; /* number of captures so far, including open ones */
    size_t steps;
    struct {
        const char *begin;
        ptrdiff_t len; /* or one of the constants `unfinished` and `position` */
    } captures[CAPTURES_MAX];
};

static void count_steps(struct match *match, size_t steps)
{
    match->steps += steps;
    if (match->steps >= STEPS_COUNTED) {
        vm_spend(match->lua, match->steps);
        match->steps = 0;
    }
}

/* ---- one character ---- */

static bool is_in_class(int c, int letter)
{
    bool is;
    switch (tolower(letter)) {
    case 'a':
        is = isalpha(c);
        break;
    case 'c':
        is = iscntrl(c);
        break;
    case 'd':
        is = isdigit(c);
        break;
    case 'l':
        is = islower(c);
        break;
    case 'p':
        is = ispunct(c);
        break;
    case 's':
        is = isspace(c);
        break;
    case 'u':
        is = isupper(c);
        break;
    case 'w':
        is = isalnum(c);
        break;
    case 'x':
        is = isxdigit(c);
        break;
    case 'z':
        is = c == 0;
        break;
    default:
        return letter == c;
    }
    return islower(letter) ? is : !is;
}

/* The end of the item that begins at p: a character, %x or [set]. */
static const char *item_end(struct match *match, const char *p)
{
    char first = *p++;
    if (first == ESCAPE) {
        if (!*p)
            luaL_error(match->lua, "malformed pattern (ends with '%%')");
        return p + 1;
    }
    if (first != '[')
        return p;
    const char *begin = p;
    p += *p == '^';
    do {
        if (!*p)
            luaL_error(match->lua, "malformed pattern (missing ']')");
        if (*p++ == ESCAPE && *p)
            p++;
    } while (*p != ']');
    count_steps(match, (size_t)(p - begin));
    return p + 1;
}

/* set: from '[' to the ']' at `last`. */
static bool is_in_set(struct match *match, int c, const char *set, const char *last)
{
    bool found = true;
    count_steps(match, (size_t)(last - set));
    if (set[1] == '^') {
        found = false;
        set++;
    }
    while (++set < last) {
        if (*set == ESCAPE) {
            set++;
            if (is_in_class(c, (unsigned char)*set))
                return found;
        } else if (set[1] == '-' && set + 2 < last) {
            if ((unsigned char)set[0] <= c && c <= (unsigned char)set[2])
                return found;
            set += 2;
        } else if ((unsigned char)*set == c) {
            return found;
        }
    }
    return !found;
}

/* Does the character at s match the item from p to `end`? */
static bool fits(struct match *match, const char *s, const char *p, const char *end)
{
    if (s >= match->end)
        return false;
    int c = (unsigned char)*s;
    switch (*p) {
    case '.':
        return true;
    case ESCAPE:
        return is_in_class(c, (unsigned char)p[1]);
    case '[':
        return is_in_set(match, c, p, end - 1);
    default:
        return (unsigned char)*p == c;
    }
}

/* ---- items and captures: each returns where the match ends, or NULL ---- */

static const char *match_here(struct match *match, const char *s, const char *p);

/* %bxy; p: x */
static const char *match_balance(struct match *match, const char *s, const char *p)
{
    size_t open = 1;
    if (!p[0] || !p[1])
        luaL_error(match->lua, "unbalanced pattern");
    if (s >= match->end || *s != p[0])
        return NULL;
    while (++s < match->end) {
        count_steps(match, 1);
        if (*s == p[1] && --open == 0)
            return s + 1;
        if (*s != p[1] && *s == p[0])
            open++;
    }
    return NULL;
}

static const char *match_longest(struct match *match, const char *s, const char *p, const char *end)
{
    size_t count = 0;
    for (; fits(match, s + count, p, end); count++)
        count_steps(match, 1);
    for (;; count--) {
        const char *found = match_here(match, s + count, end + 1);
        if (found || count == 0)
            return found;
    }
}

static const char *match_shortest(struct match *match, const char *s, const char *p,
                                  const char *end)
{
    for (;; s++) {
        const char *found = match_here(match, s, end + 1);
        if (found || !fits(match, s, p, end))
            return found;
    }
}

static const char *open_capture(struct match *match, const char *s, const char *p, ptrdiff_t len)
{
    if (match->level >= CAPTURES_MAX)
        luaL_error(match->lua, "too many captures");
    match->captures[match->level].begin = s;
    match->captures[match->level].len = len;
    match->level++;
    const char *found = match_here(match, s, p);
    if (!found)
        match->level--;
    return found;
}

static const char *close_capture(struct match *match, const char *s, const char *p)
{
    int i = match->level - 1;
    while (i >= 0 && match->captures[i].len != unfinished)
        i--;
    if (i < 0) {
        luaL_error(match->lua, "invalid pattern capture");
        return NULL;
    }
    match->captures[i].len = s - match->captures[i].begin;
    const char *found = match_here(match, s, p);
    if (!found)
        match->captures[i].len = unfinished;
    return found;
}

/* %1 … %9: matches the bytes of an earlier capture. */
static const char *match_capture(struct match *match, const char *s, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= match->level || match->captures[i].len == unfinished) {
        luaL_error(match->lua, "invalid capture index");
        return NULL;
    }
    ptrdiff_t len = match->captures[i].len;
    if (len < 0 || match->end - s < len)
        return NULL;
    count_steps(match, (size_t)len);
    return memcmp(match->captures[i].begin, s, (size_t)len) == 0 ? s + len : NULL;
}

/* %f[set]: does a run of characters of the set begin at s? *p is moved from after %f to after the set. */
static bool match_frontier(struct match *match, const char *s, const char **p)
{
    const char *set = *p;
    if (*set != '[')
        luaL_error(match->lua, "missing '[' after '%%f' in pattern");
    *p = item_end(match, set);
    int before = s == match->begin ? 0 : (unsigned char)s[-1];
    return !is_in_set(match, before, set, *p - 1) &&
           is_in_set(match, (unsigned char)*s, set, *p - 1);
}

/* Matches %b, %f or %1 at *p, and moves *p after the item; *s becomes NULL if the item does not match. False: *p is no
 * such item. */
static bool match_special(struct match *match, const char **s, const char **p)
{
    char letter = (*p)[1];
    if (letter == 'b') {
        *s = match_balance(match, *s, *p + 2);
        *p += 4;
    } else if (letter == 'f') {
        *p += 2;
        if (!match_frontier(match, *s, p))
            *s = NULL;
    } else if (isdigit((unsigned char)letter)) {
        *s = match_capture(match, *s, letter);
        *p += 2;
    } else {
        return false;
    }
    return true;
}

static const char *match_here(struct match *match, const char *s, const char *p)
{
    for (;;) {
        count_steps(match, 1);
        if (!*p)
            return s;
        if (*p == '(')
            return p[1] == ')' ? open_capture(match, s, p + 2, position)
                               : open_capture(match, s, p + 1, unfinished);
        if (*p == ')')
            return close_capture(match, s, p + 1);
        if (*p == '$' && !p[1])
            return s == match->end ? s : NULL;
        if (*p == ESCAPE && match_special(match, &s, &p)) {
            if (!s)
                return NULL;
            continue;
        }
        const char *end = item_end(match, p);
        if (*end == '*')
            return match_longest(match, s, p, end);
        if (*end == '-')
            return match_shortest(match, s, p, end);
        bool is_fit = fits(match, s, p, end);
        if (*end == '+')
            return is_fit ? match_longest(match, s + 1, p, end) : NULL;
        if (*end == '?') {
            const char *found = is_fit ? match_here(match, s + 1, end + 1) : NULL;
            if (found)
                return found;
            p = end + 1;
            continue;
        }
        if (!is_fit)
            return NULL;
        s++;
        p = end;
    }
}

/* ---- results ---- */

/* Pushes capture i; in a pattern without captures capture 0 is the whole match. */
static void push_capture(struct match *match, int i, const char *begin, const char *end)
{
    if (i >= match->level) {
        if (i > 0)
            luaL_error(match->lua, "invalid capture index");
        lua_pushlstring(match->lua, begin, (size_t)(end - begin));
        return;
    }
    ptrdiff_t len = match->captures[i].len;
    if (len == unfinished)
        luaL_error(match->lua, "unfinished capture");
    if (len == position)
        lua_pushinteger(match->lua, match->captures[i].begin - match->begin + 1);
    else
        lua_pushlstring(match->lua, match->captures[i].begin, (size_t)len);
}

/* Pushes all captures, or the whole match if there are none; returns their number. */
static int push_captures(struct match *match, const char *begin, const char *end)
{
    int count = match->level == 0 && begin ? 1 : match->level;
    luaL_checkstack(match->lua, count, "too many captures");
    for (int i = 0; i < count; i++)
        push_capture(match, i, begin, end);
    return count;
}

/* Begins a match; the subject is argument 1, the pattern is argument 2. */
static const char *begin_match(lua_State *lua, struct match *match)
{
    size_t len;
    size_t pattern_len;
    const char *text = luaL_checklstring(lua, 1, &len);
    const char *pattern = luaL_checklstring(lua, 2, &pattern_len);
    if (pattern_len > PATTERN_MAX)
        luaL_error(lua, "pattern too long");
    *match = (struct match){.lua = lua, .begin = text, .end = text + len};
    return pattern;
}

/* ---- find, match ---- */

/* Offset at which a search begins: argument 3, counted from 1, or from the end if it is negative. */
static size_t first_place(lua_State *lua, size_t len)
{
    lua_Integer place = luaL_optinteger(lua, 3, 1);
    if (place < 0)
        place += (lua_Integer)len + 1;
    if (place < 1)
        return 0;
    return (size_t)place - 1 > len ? len : (size_t)place - 1;
}

static bool is_literal(const char *pattern)
{
    return !strpbrk(pattern, "^$*+?.([%-");
}

static int find_plain(lua_State *lua)
{
    size_t len;
    size_t part_len;
    const char *text = luaL_checklstring(lua, 1, &len);
    const char *part = luaL_checklstring(lua, 2, &part_len);
    size_t from = first_place(lua, len);
    vm_spend(lua, len - from + part_len);
    const char *found = memmem(text + from, len - from, part, part_len);
    if (!found) {
        lua_pushnil(lua);
        return 1;
    }
    lua_pushinteger(lua, found - text + 1);
    lua_pushinteger(lua, found - text + (lua_Integer)part_len);
    return 2;
}

static int search(lua_State *lua, bool is_find)
{
    struct match match;
    const char *pattern = begin_match(lua, &match);
    const char *s = match.begin + first_place(lua, (size_t)(match.end - match.begin));
    bool is_anchored = *pattern == '^';
    pattern += is_anchored;
    for (;; s++) {
        match.level = 0;
        const char *end = match_here(&match, s, pattern);
        if (end && !is_find)
            return push_captures(&match, s, end);
        if (end) {
            lua_pushinteger(lua, s - match.begin + 1);
            lua_pushinteger(lua, end - match.begin);
            return push_captures(&match, NULL, NULL) + 2;
        }
        if (s == match.end || is_anchored)
            break;
    }
    lua_pushnil(lua);
    return 1;
}

static int string_find(lua_State *lua)
{
    (void)luaL_checkstring(lua, 1);
    if (lua_toboolean(lua, 4) || is_literal(luaL_checkstring(lua, 2)))
        return find_plain(lua);
    return search(lua, true);
}

static int string_match(lua_State *lua)
{
    return search(lua, false);
}

/* ---- gmatch ---- */

/* Upvalues: subject, pattern, the offset at which the search continues. */
static int next_match(lua_State *lua)
{
    struct match match;
    lua_settop(lua, 0);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushvalue(lua, lua_upvalueindex(2));
    const char *pattern = begin_match(lua, &match);
    const char *s = match.begin + lua_tointeger(lua, lua_upvalueindex(3));
    for (; s <= match.end; s++) {
        match.level = 0;
        const char *end = match_here(&match, s, pattern);
        if (!end)
            continue;
        lua_pushinteger(lua, end - match.begin +
                                 (end == s)); /* after an empty match: one character further */
        lua_replace(lua, lua_upvalueindex(3));
        return push_captures(&match, s, end);
    }
    return 0;
}

static int string_gmatch(lua_State *lua)
{
    struct match match;
    (void)begin_match(lua, &match);
    lua_settop(lua, 2);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_match, 3);
    return 1;
}

/* ---- gsub ---- */

/* Appends the text of argument 3: %0 stands for the match, %1 for a capture, % before any other character for this
 * character. */
static void append_replacement(struct match *match, luaL_Buffer *buffer, const char *begin,
                               const char *end)
{
    size_t len;
    const char *text = lua_tolstring(match->lua, 3, &len);
    count_steps(match, len);
    for (size_t i = 0; i < len; i++) {
        if (text[i] != ESCAPE) {
            luaL_addchar(buffer, text[i]);
            continue;
        }
        i++;
        if (!isdigit((unsigned char)text[i])) {
            luaL_addchar(buffer, text[i]);
        } else if (text[i] == '0') {
            luaL_addlstring(buffer, begin, (size_t)(end - begin));
        } else {
            push_capture(match, text[i] - '1', begin, end);
            luaL_addvalue(buffer);
        }
    }
}

/* Appends the replacement of a match: argument 3 is a text, a table or a function. */
static void add_replacement(struct match *match, luaL_Buffer *buffer, const char *begin,
                            const char *end)
{
    lua_State *lua = match->lua;
    switch (lua_type(lua, 3)) {
    case LUA_TFUNCTION:
        vm_spend(lua, CALL_COST);
        lua_pushvalue(lua, 3);
        lua_call(lua, push_captures(match, begin, end), 1);
        break;
    case LUA_TTABLE:
        push_capture(match, 0, begin, end);
        lua_gettable(lua, 3);
        break;
    default:
        append_replacement(match, buffer, begin, end);
        return;
    }
    if (!lua_toboolean(lua, -1)) {
        lua_pop(lua, 1);
        lua_pushlstring(lua, begin, (size_t)(end - begin));
    } else if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    }
    luaL_addvalue(buffer);
}

static int string_gsub(lua_State *lua)
{
    struct match match;
    luaL_Buffer buffer;
    const char *pattern = begin_match(lua, &match);
    const char *s = match.begin;
    int type = lua_type(lua, 3);
    lua_Integer max = luaL_optinteger(lua, 4, (lua_Integer)(match.end - match.begin) + 1);
    lua_Integer count = 0;
    bool is_anchored = *pattern == '^';
    pattern += is_anchored;
    luaL_argcheck(lua,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    luaL_buffinit(lua, &buffer);
    while (count < max) {
        match.level = 0;
        const char *end = match_here(&match, s, pattern);
        if (end) {
            count++;
            add_replacement(&match, &buffer, s, end);
        }
        if (end && end > s)
            s = end;
        else if (s < match.end)
            luaL_addchar(&buffer, *s++);
        else
            break;
        if (is_anchored)
            break;
    }
    luaL_addlstring(&buffer, s, (size_t)(match.end - s));
    luaL_pushresult(&buffer);
    lua_pushinteger(lua, count);
    return 2;
}

void pattern_install(lua_State *lua)
{
    static const struct luaL_Reg functions[] = {{"find", string_find},
                                                {"match", string_match},
                                                {"gmatch", string_gmatch},
                                                {"gfind", string_gmatch},
                                                {"gsub", string_gsub}};
    lua_getglobal(lua, "string");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i].func);
        lua_setfield(lua, -2, functions[i].name);
    }
    lua_pop(lua, 1);
}
