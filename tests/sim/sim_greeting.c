#include "tests/sim/sim_greeting.h"

#include "shared/check.h"
#include "shared/list.h"
#include "shared/net/stream.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct greeting {
    struct list link; /* in greetings */
    const struct sim_greeter *greeter;
    void *owner;
    struct stream *stream;
    bool is_refused;
};

static struct list greetings = {&greetings, &greetings};

static void greeting_free(struct greeting *greeting)
{
    list_remove(&greeting->link);
    free(greeting);
}

static void greeting_ended(void *owner, int err)
{
    struct greeting *greeting = owner;
    (void)err;
    stream_abort(greeting->stream);
    greeting_free(greeting);
}

/* Takes a word of the protocol from the front. False: it is not whole. */
static bool take_word(struct bytes *from, struct bytes *word)
{
    uint64_t len;
    const char *end = from->len ? memmem(from->data, from->len, "\r\n", 2) : NULL;
    if (!end)
        return false;
    CHECK(*from->data == '$');
    CHECK(
        number_parse_uint64((struct bytes){from->data + 1, (size_t)(end - from->data) - 1}, &len));
    size_t head = (size_t)(end - from->data) + 2;
    if (from->len < head + len + 2)
        return false;
    *word = (struct bytes){from->data + head, len};
    *from = (struct bytes){from->data + head + len + 2, from->len - head - len - 2};
    return true;
}

static void refuse(struct greeting *greeting, const char *error)
{
    out_printf(stream_out(greeting->stream), "+OK\r\n-%s\r\n", error);
    stream_send(greeting->stream);
    greeting->is_refused = true;
}

/* False: it was refused. */
static bool admit(struct greeting *greeting, const struct bytes words[3])
{
    char bytes[PEER_IDENTITY_MAX];
    struct peer_identity identity;
    const char *error;
    struct stream *stream = greeting->stream;
    if (!greeting->greeter->admit(greeting->owner, words[0], words[1], words[2], &identity,
                                  &error)) {
        refuse(greeting, error);
        return false;
    }
    size_t written = greeting->greeter->identity(greeting->owner, bytes);
    out_printf(stream_out(stream), "+OK\r\n$%zu\r\n", written);
    out_write(stream_out(stream), bytes, written);
    out_write(stream_out(stream), "\r\n", 2);
    stream_send(stream);
    greeting->greeter->adopt(greeting->owner, stream, &identity);
    return true;
}

/* SCREE AUTH comes first; all is in one piece behind the word. */
static size_t greeting_received(void *owner, struct block *block, const char *data, size_t len,
                                size_t *need)
{
    struct greeting *greeting = owner;
    struct bytes words[3];
    char word[32];
    (void)block;
    (void)need;
    if (greeting->is_refused || !greeting->greeter->is_open(greeting->owner))
        return len;
    (void)snprintf(word, sizeof word, "\r\n%s\r\n", greeting->greeter->word);
    const char *at = memmem(data, len, word, strlen(word));
    if (!at)
        return 0;
    at += strlen(word);
    struct bytes rest = {at, len - (size_t)(at - data)};
    for (unsigned i = 0; i < 3; i++)
        if (!take_word(&rest, &words[i]))
            return 0;
    if (admit(greeting, words))
        greeting_free(greeting);
    return len;
}

void sim_greet(const struct sim_greeter *greeter, struct stream *stream, void *owner)
{
    static const struct stream_events events = {.on_data = greeting_received,
                                                .on_end = greeting_ended};
    struct greeting *greeting = calloc(1, sizeof *greeting);
    CHECK(greeting);
    *greeting = (struct greeting){.greeter = greeter, .owner = owner, .stream = stream};
    list_push(&greetings, &greeting->link);
    stream_set_owner(stream, &events, greeting);
}

void sim_greet_no_more(const void *owner)
{
    struct list *next;
    for (struct list *at = greetings.next; at != &greetings; at = next) {
        struct greeting *greeting = container_of(at, struct greeting, link);
        next = at->next;
        if (greeting->owner == owner)
            greeting_ended(greeting, 0);
    }
}
