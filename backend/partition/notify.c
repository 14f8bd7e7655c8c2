#include "backend/partition/notify.h"

#include "backend/partition/call.h"
#include "backend/partition/partition.h"
#include "backend/partition/pubsub.h"
#include "backend/partition/settings.h"

#include <stdio.h>

/* The letters in the order CONFIG GET shows them; the class A stands for those of ALL. */
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
    PREFIX_MAX = 32, /* "__keyspace@255__:" */
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
        bool in_all = LETTERS[i].class & (NOTIFY_ALL | NOTIFY_NEW); /* Redis shows no n beside A */
        if (classes & LETTERS[i].class && !(all && in_all))
            text[len++] = LETTERS[i].letter;
    }
    text[len] = 0;
    return len;
}

/* Publishes to __<what>@<db>__:<name>. */
static void publish(struct call *call, const struct space *space, const char *what,
                    struct bytes name, struct bytes payload)
{
    struct bytes namespace_name;
    uint8_t database;
    space_place(call->partition->spaces, space, &namespace_name, &database);
    char *channel = arena_alloc(call->arena, PREFIX_MAX + name.len);
    int len = snprintf(channel, PREFIX_MAX, "__%s@%u__:", what, database);
    if (name.len)
        memcpy(channel + len, name.data, name.len);
    (void)pubsub_publish(call->partition, namespace_name, CHANNEL_PLAIN,
                         (struct bytes){channel, (size_t)len + name.len}, payload);
}

void notify_in(struct call *call, const struct space *space, enum notify_class class,
               const char *name, struct bytes key)
{
    unsigned classes = call->partition->settings->notify_classes;
    struct messages *messages = &call->partition->watchers.messages;
    uint32_t before = messages->count;
    if (!(classes & class))
        return;
    if (classes & NOTIFY_KEYSPACE)
        publish(call, space, "keyspace", key, bytes_of(name));
    if (classes & NOTIFY_KEYEVENT)
        publish(call, space, "keyevent", bytes_of(name), key);
    if (class == NOTIFY_MISS)
        messages_keep(messages,
                      before); /* that nothing was found stays true if the command fails */
}

void notify(struct call *call, enum notify_class class, const char *name, struct bytes key)
{
    notify_in(call, call->space, class, name, key);
}
