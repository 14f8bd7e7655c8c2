#include "shared/acl/acl_log.h"

#include "shared/check.h"

#include <stdlib.h>

enum { SAME_EVENT_MS = 60 * 1000 };

const char *acl_denied_name(enum acl_denied reason)
{
    static const char *const names[] = {
        [ACL_DENIED_COMMAND] = "command",
        [ACL_DENIED_KEY] = "key",
        [ACL_DENIED_AUTH] = "auth",
        [ACL_DENIED_CHANNEL] = "channel",
    };
    return names[reason];
}

void acl_log_init(struct acl_log *log)
{
    list_init(&log->entries);
    log->count = 0;
}

static void event_free(struct acl_log *log, struct acl_event *event)
{
    list_remove(&event->link);
    log->count--;
    free((char *)event->object.data);
    free((char *)event->user.data);
    free((char *)event->client.data);
    free(event);
}

static void shorten(struct acl_log *log, size_t count)
{
    while (log->count > count)
        event_free(log, container_of(log->entries.prev, struct acl_event, link));
}

void acl_log_clear(struct acl_log *log)
{
    shorten(log, 0);
}

static struct bytes copy_of(struct bytes text)
{
    char *copy = malloc(text.len + 1);
    CHECK(copy);
    if (text.len)
        memcpy(copy, text.data, text.len);
    return (struct bytes){copy, text.len};
}

static struct acl_event *find_same(struct acl_log *log, const struct acl_event *wanted)
{
    for (struct list *link = log->entries.next; link != &log->entries; link = link->next) {
        struct acl_event *event = container_of(link, struct acl_event, link);
        if (event->reason == wanted->reason && event->context == wanted->context &&
            wanted->at_ms - event->at_ms <= SAME_EVENT_MS &&
            bytes_equal(event->object, wanted->object) && bytes_equal(event->user, wanted->user))
            return event;
    }
    return NULL;
}

void acl_log_add(struct acl_log *log, const struct acl_event *wanted, size_t count_max)
{
    struct acl_event *event = find_same(log, wanted);
    if (!event) {
        event = malloc(sizeof *event);
        CHECK(event);
        *event = *wanted;
        event->times = 0;
        list_init(&event->link);
        event->object = copy_of(wanted->object);
        event->user = copy_of(wanted->user);
        log->count++;
    } else {
        list_remove(&event->link);
        free((char *)event->client.data);
    }
    event->client = copy_of(wanted->client);
    event->times++;
    event->at_ms = wanted->at_ms;
    list_push(log->entries.next, &event->link);
    shorten(log, count_max);
}
