#include "backend/session/notify.h"

#include "backend/context/call.h"
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/keyspace/space.h"
#include "backend/session/pubsub.h"
#include "backend/session/push_message.h"

#include <stdio.h>

enum { PREFIX_MAX = 32 }; /* "__keyspace@255__:" */

/* Publishes to __<what>@<db>__:<name>. */
static void publish_event(struct call *call, const struct space *space, const char *what,
                          struct bytes name, struct bytes payload)
{
    struct bytes namespace_name;
    uint8_t database;
    space_place(call->partition->spaces, space, &namespace_name, &database);
    char *channel = arena_alloc(call->arena, PREFIX_MAX + name.len);
    int len = snprintf(channel, PREFIX_MAX, "__%s@%u__:", what, database);
    if (name.len)
        memcpy(channel + len, name.data, name.len);
    (void)pubsub_publish(call, namespace_name, CHANNEL_PLAIN,
                         (struct bytes){channel, (size_t)len + name.len}, payload);
}

void notify_in(struct call *call, const struct space *space, enum notify_class class,
               const char *name, struct bytes key)
{
    unsigned classes = call->partition->snapshot->notify_classes;
    struct push_messages *messages = call->partition->watchers.messages;
    uint32_t before = messages->count;
    if (!(classes & class))
        return;
    if (classes & NOTIFY_KEYSPACE)
        publish_event(call, space, "keyspace", key, bytes_of(name));
    if (classes & NOTIFY_KEYEVENT)
        publish_event(call, space, "keyevent", bytes_of(name), key);
    if (class == NOTIFY_MISS)
        push_messages_keep(messages, before); /* a keymiss is sent even if the command fails */
}

void notify(struct call *call, enum notify_class class, const char *name, struct bytes key)
{
    notify_in(call, call->space, class, name, key);
}
