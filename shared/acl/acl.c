#include "shared/acl/acl.h"

#include "shared/acl/acl_order.h"
#include "shared/acl/acl_user.h"
#include "shared/check.h"
#include "shared/command/keys.h"
#include "shared/digest.h"
#include "shared/glob.h"
#include "shared/namespace.h"
#include "shared/table.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct acl {
    _Atomic uint32_t refs;
    struct acl_user **users; /* sorted by name */
    size_t count;
};

enum { SEARCHES = 64 }; /* in a list of texts, before a table is made */

static const struct bytes DEFAULT_NAME = {"default", 7};

/* ---- texts ---- */

static struct bytes copy_text(struct bytes text)
{
    char *copy = malloc(text.len + 1);
    CHECK(copy);
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    return (struct bytes){copy, text.len};
}

/* A place, which begins at 1, as a value of a table. */
static void *place_of(size_t place)
{
    return (void *)(uintptr_t)place;
}

/* Room for another text: `items` always has room for the next power of two. */
static void make_text_room(struct acl_texts *texts)
{
    if (texts->count & (texts->count - 1))
        return;
    size_t room = texts->count ? texts->count * 2 : 1;
    texts->items = realloc(texts->items, room * sizeof *texts->items);
    CHECK(texts->items);
}

static void forget_order(struct acl_texts *texts)
{
    free(texts->order);
    texts->order = NULL;
}

void acl_texts_add(struct acl_texts *texts, struct bytes text, unsigned tag)
{
    forget_order(texts);
    make_text_room(texts);
    texts->items[texts->count++] = (struct acl_text){copy_text(text), tag};
    if (texts->places)
        (void)table_put(texts->places, text, place_of(texts->count));
}

static void forget_places(struct acl_texts *texts)
{
    table_free(texts->places);
    texts->places = NULL;
    texts->compared = 0;
}

void acl_texts_remove(struct acl_texts *texts, size_t index)
{
    forget_order(texts);
    forget_places(texts);
    free((char *)texts->items[index].text.data);
    texts->count--;
    memmove(texts->items + index, texts->items + index + 1,
            (texts->count - index) * sizeof *texts->items);
}

void acl_texts_clear(struct acl_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free((char *)texts->items[i].text.data);
    free(texts->items);
    table_free(texts->places);
    free(texts->order);
    *texts = (struct acl_texts){0};
}

static void make_places(struct acl_texts *texts)
{
    texts->places = table_new();
    for (size_t i = texts->count; i-- > 0;) /* the first of equal texts counts */
        (void)table_put(texts->places, texts->items[i].text, place_of(i + 1));
}

struct acl_text *acl_texts_find(struct acl_texts *texts, struct bytes text)
{
    if (!texts->places && texts->compared > SEARCHES * texts->count)
        make_places(texts);
    if (texts->places) {
        size_t place = (uintptr_t)table_get(texts->places, text);
        return place ? &texts->items[place - 1] : NULL;
    }
    texts->compared += texts->count;
    for (size_t i = 0; i < texts->count; i++)
        if (bytes_equal(texts->items[i].text, text))
            return &texts->items[i];
    return NULL;
}

static struct acl_texts texts_copy(const struct acl_texts *from)
{
    struct acl_texts texts = {0};
    for (size_t i = 0; i < from->count; i++)
        acl_texts_add(&texts, from->items[i].text, from->items[i].tag);
    acl_order_copy(&texts, from);
    return texts;
}

/* ---- selectors and users ---- */

struct acl_selector *acl_selector_new(bool all_channels)
{
    struct acl_selector *selector = calloc(1, sizeof *selector);
    CHECK(selector);
    selector->all_channels = all_channels;
    return selector;
}

void acl_selector_free(struct acl_selector *selector)
{
    acl_texts_clear(&selector->first_arguments);
    acl_texts_clear(&selector->rules);
    acl_texts_clear(&selector->keys);
    acl_texts_clear(&selector->channels);
    free(selector);
}

static void copy_selectors(struct acl_user *user, const struct acl_selector *from)
{
    struct acl_selector **end = &user->selectors;
    for (; from; from = from->next) {
        struct acl_selector *copy = malloc(sizeof *copy);
        CHECK(copy);
        *copy = *from;
        copy->first_arguments = texts_copy(&from->first_arguments);
        copy->rules = texts_copy(&from->rules);
        copy->keys = texts_copy(&from->keys);
        copy->channels = texts_copy(&from->channels);
        copy->next = NULL;
        *end = user->last = copy;
        end = &copy->next;
    }
}

static struct acl_user *user_new(struct bytes name, bool all_channels)
{
    struct acl_user *user = calloc(1, sizeof *user);
    CHECK(user);
    user->name = copy_text(name);
    user->starts_all_channels = all_channels;
    user->selectors = user->last = acl_selector_new(all_channels);
    return user;
}

static struct acl_user *user_copy(const struct acl_user *from)
{
    struct acl_user *user = malloc(sizeof *user);
    CHECK(user);
    *user = *from;
    user->name = copy_text(from->name);
    user->passwords = texts_copy(&from->passwords);
    copy_selectors(user, from->selectors);
    return user;
}

static void user_free(struct acl_user *user)
{
    while (user->selectors) {
        struct acl_selector *next = user->selectors->next;
        acl_selector_free(user->selectors);
        user->selectors = next;
    }
    acl_texts_clear(&user->passwords);
    free((char *)user->name.data);
    free(user);
}

/* ---- the set of users ---- */

static struct acl *acl_empty(void)
{
    struct acl *acl = calloc(1, sizeof *acl);
    CHECK(acl);
    acl->refs = 1;
    return acl;
}

static void add_default(struct acl *acl)
{
    const struct bytes rules[] = {BYTES("on"), BYTES("nopass"), BYTES("~*"), BYTES("&*"),
                                  BYTES("+@all")};
    char error[64];
    struct acl_user *user = acl_user_add(acl, DEFAULT_NAME, true);
    CHECK(acl_user_set(user, rules, 2, error, sizeof error));
    CHECK(acl_user_set(user, rules + 2, 3, error, sizeof error));
}

struct acl *acl_new(void)
{
    struct acl *acl = acl_empty();
    add_default(acl);
    return acl;
}

struct acl *acl_copy(const struct acl *from)
{
    struct acl *acl = acl_empty();
    acl->count = from->count;
    acl->users = malloc(from->count * sizeof *acl->users);
    CHECK(acl->users);
    for (size_t i = 0; i < from->count; i++)
        acl->users[i] = user_copy(from->users[i]);
    return acl;
}

struct acl *acl_ref(struct acl *acl)
{
    atomic_fetch_add(&acl->refs, 1);
    return acl;
}

void acl_unref(struct acl *acl)
{
    if (atomic_fetch_sub(&acl->refs, 1) > 1)
        return;
    for (size_t i = 0; i < acl->count; i++)
        user_free(acl->users[i]);
    free(acl->users);
    free(acl);
}

/* Index of the first user whose name is not less than `name`. */
static size_t user_place(const struct acl *acl, struct bytes name, bool *is_there)
{
    size_t low = 0;
    size_t high = acl->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_compare(acl->users[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = low < acl->count && bytes_equal(acl->users[low]->name, name);
    return low;
}

const struct acl_user *acl_user_at(const struct acl *acl, size_t index)
{
    return index < acl->count ? acl->users[index] : NULL;
}

struct acl_user *acl_user_find(const struct acl *acl, struct bytes name)
{
    bool is_there;
    size_t place = user_place(acl, name, &is_there);
    return is_there ? acl->users[place] : NULL;
}

struct acl_user *acl_user_add(struct acl *acl, struct bytes name, bool all_channels)
{
    bool is_there;
    size_t place = user_place(acl, name, &is_there);
    if (is_there)
        return acl->users[place];
    acl->users = realloc(acl->users, (acl->count + 1) * sizeof(struct acl_user *));
    CHECK(acl->users);
    memmove(acl->users + place + 1, acl->users + place,
            (acl->count - place) * sizeof(struct acl_user *));
    acl->count++;
    return acl->users[place] = user_new(name, all_channels);
}

bool acl_user_remove(struct acl *acl, struct bytes name)
{
    bool is_there;
    size_t place = user_place(acl, name, &is_there);
    if (!is_there)
        return false;
    user_free(acl->users[place]);
    acl->count--;
    memmove(acl->users + place, acl->users + place + 1,
            (acl->count - place) * sizeof(struct acl_user *));
    return true;
}

bool acl_name_ok(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++)
        if (strchr(" \t\n\v\f\r",
                   name.data[i])) /* also true for a zero byte, which ends the string */
            return false;
    return true;
}

/* ---- users ---- */

struct bytes acl_user_name(const struct acl_user *user)
{
    return user->name;
}

bool acl_user_is_enabled(const struct acl_user *user)
{
    return user->is_enabled;
}

bool acl_user_needs_password(const struct acl_user *user)
{
    return !user->no_password;
}

bool acl_user_accepts(const struct acl_user *user, struct bytes password)
{
    char digest[SHA256_HEX_LEN];
    bool fine = user->no_password;
    sha256_hex(password, digest);
    for (size_t i = 0; i < user->passwords.count; i++)
        fine |= secret_equal(user->passwords.items[i].text, (struct bytes){digest, sizeof digest});
    return user->is_enabled && fine;
}

/* ---- the file ---- */

/* The next word of a line; empty at the end of the line. */
static struct bytes next_rule_word(struct bytes *line)
{
    while (line->len && (*line->data == ' ' || *line->data == '\t' || *line->data == '\r'))
        *line = (struct bytes){line->data + 1, line->len - 1};
    struct bytes word = {line->data, 0};
    while (word.len < line->len && !strchr(" \t\r", word.data[word.len]))
        word.len++;
    *line = (struct bytes){line->data + word.len, line->len - word.len};
    return word;
}

/* The words of a line, in an array that the caller frees. */
static struct bytes *split_rules(struct bytes line, size_t *count)
{
    struct bytes *rules = NULL;
    struct bytes word;
    size_t room = 0;
    for (*count = 0; (word = next_rule_word(&line)).len; rules[(*count)++] = word) {
        if (*count < room)
            continue;
        room = room ? room * 2 : 16;
        struct bytes *more = realloc(rules, room * sizeof *rules);
        CHECK(more);
        rules = more;
    }
    return rules;
}

/* Parses a line "user NAME rule …". Empty lines and comments are skipped. False: the reason is in error[size]. */
static bool parse_line(struct acl *acl, struct bytes line, bool all_channels, char *error,
                       size_t size)
{
    struct bytes word = next_rule_word(&line);
    if (word.len == 0 || *word.data == '#')
        return true;
    struct bytes name = next_rule_word(&line);
    if (!bytes_equal(word, BYTES("user")) || name.len == 0) {
        (void)snprintf(error, size, "expected 'user NAME rules…'");
        return false;
    }
    if (acl_user_find(acl, name)) {
        (void)snprintf(error, size, "user '%.*s' is defined twice", (int)name.len, name.data);
        return false;
    }
    size_t count;
    struct bytes *rules = split_rules(line, &count);
    bool is_good = acl_user_set(acl_user_add(acl, name, all_channels), rules, count, error, size);
    free(rules);
    return is_good;
}

struct acl *acl_parse(struct bytes text, bool all_channels, char *error, size_t size)
{
    struct acl *acl = acl_empty();
    char reason[256];
    for (unsigned number = 1; text.len; number++) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        if (!parse_line(acl, (struct bytes){text.data, len}, all_channels, reason, sizeof reason)) {
            (void)snprintf(error, size, "line %u: %s", number, reason);
            acl_unref(acl);
            return NULL;
        }
        len += end != NULL;
        text = (struct bytes){text.data + len, text.len - len};
    }
    if (!acl_user_find(acl, DEFAULT_NAME))
        add_default(acl);
    return acl;
}

void acl_print(const struct acl *acl, struct out *out)
{
    for (size_t i = 0; i < acl->count; i++) {
        out_printf(out, "user %s ", acl->users[i]->name.data);
        acl_user_describe(acl->users[i], out);
        out_write(out, "\n", 1);
    }
}
