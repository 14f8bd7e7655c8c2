#include "backend/context/notify_class.h"

/* Letters in the order of CONFIG GET; class A includes those of ALL. */
static const struct {
    char letter;
    unsigned class;
} LETTERS[] = {
    {'g', NOTIFY_GENERIC},  {'$', NOTIFY_STRING}, {'l', NOTIFY_LIST},    {'s', NOTIFY_SET},
    {'h', NOTIFY_HASH},     {'z', NOTIFY_ZSET},   {'x', NOTIFY_EXPIRED}, {'e', NOTIFY_EVICTED},
    {'t', NOTIFY_STREAM},   {'d', NOTIFY_MODULE}, {'n', NOTIFY_NEW},     {'K', NOTIFY_KEYSPACE},
    {'E', NOTIFY_KEYEVENT}, {'m', NOTIFY_MISS},
};

enum {
    LETTERS_COUNT = sizeof LETTERS / sizeof LETTERS[0],
    NOTIFY_ALL = NOTIFY_GENERIC | NOTIFY_STRING | NOTIFY_LIST | NOTIFY_SET | NOTIFY_HASH |
                 NOTIFY_ZSET | NOTIFY_EXPIRED | NOTIFY_EVICTED | NOTIFY_STREAM | NOTIFY_MODULE,
};

bool notify_parse(struct bytes text, unsigned *classes)
{
    *classes = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned class = text.data[i] == 'A' ? NOTIFY_ALL : 0;
        for (size_t j = 0; j < LETTERS_COUNT; j++)
            if (LETTERS[j].letter == text.data[i])
                class = LETTERS[j].class;
        if (!class)
            return false;
        *classes |= class;
    }
    return true;
}

size_t notify_format(unsigned classes, char text[NOTIFY_TEXT_MAX])
{
    size_t len = 0;
    bool all = (classes & NOTIFY_ALL) == NOTIFY_ALL;
    if (all)
        text[len++] = 'A';
    for (size_t i = 0; i < LETTERS_COUNT; i++) {
        /* as Redis, omits the letter n after A */
        bool in_all = LETTERS[i].class & (NOTIFY_ALL | NOTIFY_NEW);
        if (classes & LETTERS[i].class && !(all && in_all))
            text[len++] = LETTERS[i].letter;
    }
    text[len] = 0;
    return len;
}
