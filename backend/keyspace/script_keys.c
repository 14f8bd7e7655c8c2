#include "backend/keyspace/script_keys.h"

#include "shared/check.h"
#include "shared/number.h"
#include "shared/table.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SCRIPTS_MAX = 512, /* known at a time; a power of two */
    PATTERNS_MAX = 16, /* of a script; likewise */
    PIECES_MAX = 8,
    WORDS_MAX = 64, /* the first ones of a call; others are not looked for */
    TEXT_MAX = 64,  /* constant text of a pattern */
    KEY_MAX = 512,
    DIGITS_MAX = 15,
    WORD_SURE = 4,  /* shorter words count only where they are whole fields of the key */
    UNUSED_MAX = 3, /* a pattern with so many wrong guesses in succession is not guessed any more */
    NEAR_MAX = 16,  /* if the number was so much higher, it is worth another guess */
};

/* What a piece of a name is, if it is no word of the call. */
enum { PIECE_TEXT = WORDS_MAX, PIECE_NUMBER, PIECE_STEM };

struct piece {
    uint8_t what; /* the number of a word, or PIECE_… */
    uint8_t at;   /* of a text: where it begins in pattern->text */
    uint16_t len; /* while a key is taken apart: of any piece; afterwards of a text */
};

struct pattern {
    struct piece pieces[PIECES_MAX];
    char text[TEXT_MAX];
    uint8_t count; /* of pieces; 0: the pattern is not used */
    uint8_t text_len;
    uint8_t unused; /* wrong guesses in succession, at most UNUSED_MAX */
    bool writes;
    bool has_number;
    bool ascends;    /* the number was higher each time */
    uint64_t number; /* of the last run */
};

struct known_script {
    uint64_t hash;
    uint32_t next; /* the pattern that gives way when all are used */
    struct pattern patterns[PATTERNS_MAX];
};

struct script_keys {
    struct known_script *scripts[SCRIPTS_MAX]; /* by hash; NULL: none */
};

struct script_keys *script_keys_new(void)
{
    struct script_keys *keys = calloc(1, sizeof *keys);
    CHECK(keys);
    return keys;
}

void script_keys_free(struct script_keys *keys)
{
    for (uint32_t i = 0; keys && i < SCRIPTS_MAX; i++)
        free(keys->scripts[i]);
    free(keys);
}

/* ---- taking a key apart ---- */

static struct bytes stem_of(const struct script_words *call)
{
    struct bytes first = call->count && call->words[0].len <= KEY_MAX ? call->words[0] : BYTES("");
    while (first.len && first.data[first.len - 1] != ':')
        first.len--;
    return first;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is the text between these two places a field of its own, and no part of a longer word or number? */
static bool is_field(struct bytes key, size_t at, size_t end)
{
    return (at == 0 || !isalnum((unsigned char)key.data[at - 1])) &&
           (end == key.len || !isalnum((unsigned char)key.data[end]));
}

static bool cuts_number(struct bytes key, size_t at)
{
    return at > 0 && at < key.len && is_digit(key.data[at - 1]) && is_digit(key.data[at]);
}

static bool has_word(struct bytes key, size_t at, struct bytes word)
{
    size_t end = at + word.len;
    if (!word.len || end > key.len || memcmp(key.data + at, word.data, word.len) != 0)
        return false;
    return is_field(key, at, end) ||
           (word.len >= WORD_SURE && !cuts_number(key, at) && !cuts_number(key, end));
}

/* The longest word of the call, or the stem, at this place of the key; its length is 0 if there is none. */
static struct piece longest_word_at(const struct script_words *call, struct bytes key, size_t at)
{
    struct piece found = {.what = PIECE_STEM};
    struct bytes stem = stem_of(call);
    if (at == 0 && stem.len && stem.len <= key.len && memcmp(key.data, stem.data, stem.len) == 0)
        found.len = (uint16_t)stem.len;
    for (uint32_t i = 0; i < call->count && i < WORDS_MAX; i++)
        if (call->words[i].len > found.len && has_word(key, at, call->words[i]))
            found = (struct piece){.what = (uint8_t)i, .len = (uint16_t)call->words[i].len};
    return found;
}

/* The number at this place; its length is 0 if there is none that could be counted. */
static struct piece number_at(struct bytes key, size_t at)
{
    size_t end = at;
    while (end < key.len && is_digit(key.data[end]))
        end++;
    bool is_number = end - at <= DIGITS_MAX && (key.data[at] != '0' || end == at + 1);
    return (struct piece){.what = PIECE_NUMBER, .len = is_number ? (uint16_t)(end - at) : 0};
}

/* Appends a character to the text at the end of the pattern. False: the pattern is full. */
static bool add_text(struct pattern *pattern, char c)
{
    struct piece *last = pattern->count ? &pattern->pieces[pattern->count - 1] : NULL;
    if (pattern->text_len == TEXT_MAX)
        return false;
    if (!last || last->what != PIECE_TEXT) {
        if (pattern->count == PIECES_MAX)
            return false;
        last = &pattern->pieces[pattern->count++];
        *last = (struct piece){.what = PIECE_TEXT, .at = pattern->text_len};
    }
    pattern->text[pattern->text_len++] = c;
    last->len++;
    return true;
}

static bool add_number_piece(struct pattern *pattern, struct bytes digits)
{
    int64_t number;
    if (pattern->has_number || !number_parse_int64(digits, &number))
        return false;
    pattern->has_number = true;
    pattern->number = (uint64_t)number;
    return true;
}

static bool add_name_piece(struct pattern *pattern, struct piece piece, struct bytes key, size_t at)
{
    if (pattern->count == PIECES_MAX ||
        (piece.what == PIECE_NUMBER &&
         !add_number_piece(pattern, (struct bytes){key.data + at, piece.len})))
        return false;
    piece.len = 0; /* that of another call's word may be another */
    pattern->pieces[pattern->count++] = piece;
    return true;
}

/* False: the key cannot be put together from few pieces. Names with several numbers are those of single things (a UUID), which no other run will
 * use: so a constant text has no digits. */
static bool take_apart(const struct script_words *call, struct bytes key, struct pattern *pattern)
{
    memset(pattern, 0, sizeof *pattern); /* patterns are compared as bytes */
    for (size_t at = 0; at < key.len;) {
        struct piece piece = longest_word_at(call, key, at);
        if (!piece.len && is_digit(key.data[at]))
            piece = number_at(key, at);
        if (!piece.len && is_digit(key.data[at]))
            return false;
        size_t len = piece.len ? piece.len : 1;
        if (piece.len ? !add_name_piece(pattern, piece, key, at) : !add_text(pattern, key.data[at]))
            return false;
        at += len;
    }
    return pattern->count > 0;
}

/* ---- patterns of a script ---- */

static bool are_alike(const struct pattern *a, const struct pattern *b)
{
    return a->count == b->count && a->text_len == b->text_len &&
           memcmp(a->pieces, b->pieces, sizeof a->pieces) == 0 &&
           memcmp(a->text, b->text, a->text_len) == 0;
}

static uint64_t hash_of_script(const struct script_words *call)
{
    return hash_bytes(call->script) + 31 * hash_bytes(call->space);
}

static struct known_script *find_known_script(const struct script_keys *keys,
                                              const struct script_words *call)
{
    uint64_t hash = hash_of_script(call);
    struct known_script *known = keys->scripts[hash % SCRIPTS_MAX];
    return known && known->hash == hash ? known : NULL;
}

/* Another script that has the place is forgotten. */
static struct known_script *script_of(struct script_keys *keys, const struct script_words *call)
{
    struct known_script *known = find_known_script(keys, call);
    if (known)
        return known;
    uint64_t hash = hash_of_script(call);
    free(keys->scripts[hash % SCRIPTS_MAX]);
    known = calloc(1, sizeof *known);
    CHECK(known);
    known->hash = hash;
    keys->scripts[hash % SCRIPTS_MAX] = known;
    return known;
}

/* The place of the pattern, or one for it. */
static struct pattern *pattern_place(struct known_script *known, const struct pattern *pattern)
{
    struct pattern *empty = NULL;
    for (uint32_t i = 0; i < PATTERNS_MAX; i++) {
        struct pattern *other = &known->patterns[i];
        if (other->count && are_alike(other, pattern))
            return other;
        if (!other->count && !empty)
            empty = other;
    }
    if (!empty) {
        empty = &known->patterns[known->next++ % PATTERNS_MAX];
        empty->count = 0;
    }
    return empty;
}

/* A run has waited for a key of a pattern that is known: how many wrong guesses in succession does the pattern have now? None, unless its
 * number has jumped, for then the next guess will be wrong, too. */
static uint8_t unused_after(const struct pattern *before, const struct pattern *learned)
{
    uint64_t ahead = learned->number - before->number;
    bool begins_to_ascend = !before->ascends && learned->number > before->number;
    if (!before->count || !learned->has_number || ahead == before->ascends || begins_to_ascend)
        return 0;
    return before->unused == UNUSED_MAX && ahead <= NEAR_MAX ? UNUSED_MAX - 1 : before->unused;
}

void script_keys_learn(struct script_keys *keys, const struct script_words *call, struct bytes key,
                       bool writes)
{
    struct pattern learned;
    if (key.len > KEY_MAX || !take_apart(call, key, &learned))
        return;
    struct pattern *pattern = pattern_place(script_of(keys, call), &learned);
    learned.writes = writes || (pattern->count && pattern->writes);
    learned.ascends = pattern->count && pattern->number != learned.number;
    learned.unused = unused_after(pattern, &learned);
    *pattern = learned;
}

/* ---- guesses ---- */

/* The text of a piece; `number` is room for the digits of a number. */
static struct bytes piece_text(const struct script_words *call, const struct pattern *pattern,
                               const struct piece *piece, char number[static DIGITS_MAX + 6])
{
    switch (piece->what) {
    case PIECE_TEXT:
        return (struct bytes){pattern->text + piece->at, piece->len};
    case PIECE_NUMBER:
        (void)snprintf(number, DIGITS_MAX + 6, "%" PRIu64, pattern->number + pattern->ascends);
        return bytes_of(number);
    case PIECE_STEM:
        return stem_of(call);
    default:
        return piece->what < call->count ? call->words[piece->what] : BYTES("");
    }
}

/* Puts the name together in `to`. Empty: it is too long, or a word is missing. */
static struct bytes put_together(const struct script_words *call, const struct pattern *pattern,
                                 char to[static KEY_MAX])
{
    char number[DIGITS_MAX + 6];
    char *end = to;
    for (uint32_t i = 0; i < pattern->count; i++) {
        struct bytes text = piece_text(call, pattern, &pattern->pieces[i], number);
        if (!text.len || text.len > (size_t)(to + KEY_MAX - end))
            return BYTES("");
        (void)bytes_copy_to(&end, text);
    }
    return (struct bytes){to, (size_t)(end - to)};
}

void script_keys_guess(struct script_keys *keys, const struct script_words *call, bool counts,
                       script_keys_fn *on_key, void *owner)
{
    char text[KEY_MAX];
    struct known_script *known = find_known_script(keys, call);
    for (uint32_t i = 0; known && i < PATTERNS_MAX; i++) {
        struct pattern *pattern = &known->patterns[i];
        if (pattern->unused == UNUSED_MAX)
            continue;
        struct bytes key = put_together(call, pattern, text);
        pattern->number += counts && pattern->ascends;
        if (key.len)
            on_key(owner, key, pattern->writes,
                   (uint32_t)(known->hash % SCRIPTS_MAX) * PATTERNS_MAX + i + 1);
    }
}

void script_keys_judge(struct script_keys *keys, uint32_t number, bool is_used)
{
    struct known_script *known = keys->scripts[(number - 1) / PATTERNS_MAX];
    struct pattern *pattern = known ? &known->patterns[(number - 1) % PATTERNS_MAX] : NULL;
    if (!pattern)
        return;
    if (is_used)
        pattern->unused = 0;
    else if (pattern->unused < UNUSED_MAX)
        pattern->unused++;
}
