/*
 * resolve_uv.c - getaddrinfo on a detached thread per lookup.
 *
 *   lookup_start ─► thread: getaddrinfo ─► task in the loop's mail ─► on_done
 *   lookup_cancel ─► the thread finds no loop and only frees the lookup
 *
 * The last good addresses of each name are kept, because the server may be well while its name server is not: they are
 * used when there is no answer (connect_uv.c). The answer that the name does not exist counts.
 *
 * We do not use libuv's thread pool: lookups that hang would block its few threads, and a loop could not be closed
 * before they return. `lock` serializes posting and cancelling.
 */
#include "shared/check.h"
#include "shared/log.h"
#include "shared/net/net_uv.h"
#include "shared/table.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOKUPS_MAX = 64, /* threads of the whole process */
    LOOKUP_STACK_BYTES = 512 * 1024,
    NAMES_MAX = 2048, /* whose addresses are kept; names come from configurations only */
};

/* The last good addresses of a name. */
struct known_name {
    int count;
    struct address list[ADDRESS_LIST_MAX];
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
/* struct known_name by host; guarded by names_lock, lives as long as the process */
static struct table *names;

struct lookup {
    pthread_mutex_t lock; /* guards loop and is_posted */
    struct loop *loop;    /* NULL: cancelled */
    bool is_posted;
    struct task task;
    lookup_fn *on_done;
    void *owner;
    uint16_t port;
    int count; /* number of addresses, or a negative errno */
    struct address list[ADDRESS_LIST_MAX];
    char host[ADDRESS_HOST_MAX];
};

static atomic_int lookups_running;

/* ---- the last good addresses ---- */

static void keep_addresses(const char *host, const struct address *list, int count)
{
    pthread_mutex_lock(&names_lock);
    if (!names)
        names = table_new();
    struct known_name *known = table_get(names, bytes_of(host));
    if (!known && table_count(names) < NAMES_MAX) {
        known = calloc(1, sizeof(*known));
        CHECK(known);
        (void)table_put(names, bytes_of(host), known);
    }
    if (known) {
        known->count = count;
        memcpy(known->list, list, sizeof(*list) * (size_t)count);
    }
    pthread_mutex_unlock(&names_lock);
}

int lookup_last_good(const char *host, uint16_t port, struct address list[ADDRESS_LIST_MAX])
{
    pthread_mutex_lock(&names_lock);
    const struct known_name *known = names ? table_get(names, bytes_of(host)) : NULL;
    int count = known ? known->count : 0;
    if (known)
        memcpy(list, known->list, sizeof(*list) * (size_t)count);
    pthread_mutex_unlock(&names_lock);
    for (int i = 0; i < count; i++)
        *(list[i].any.sa_family == AF_INET6 ? &list[i].v6.sin6_port : &list[i].v4.sin_port) =
            htons(port);
    return count;
}

/* ---- lookups ---- */

static void lookup_release(struct lookup *lookup)
{
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void on_looked_up(struct task *task)
{
    struct lookup *lookup = container_of(task, struct lookup, task);
    pthread_mutex_lock(&lookup->lock); /* waits until the thread has released the lock */
    pthread_mutex_unlock(&lookup->lock);
    lookup->on_done(lookup->owner, lookup->list, lookup->count);
    lookup_release(lookup);
}

static int errno_of(int problem)
{
    if (problem == EAI_SYSTEM)
        return -errno;
    if (problem == EAI_AGAIN || problem == EAI_FAIL)
        return -EAGAIN; /* the name server did not answer */
    return problem == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
}

static void resolve_host(struct lookup *lookup)
{
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", lookup->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(lookup->host, port, &hints, &found);
    if (problem) {
        lookup->count = errno_of(problem);
        log_event(LOG_DEBUG, "lookup_failed", "host=%s reason=\"%s\"", lookup->host,
                  gai_strerror(problem));
        return;
    }
    lookup->count = 0;
    for (struct addrinfo *info = found; info && lookup->count < ADDRESS_LIST_MAX;
         info = info->ai_next) {
        struct address *address = &lookup->list[lookup->count++];
        address->len = info->ai_addrlen;
        memcpy(&address->any, info->ai_addr, info->ai_addrlen);
    }
    freeaddrinfo(found);
    keep_addresses(lookup->host, lookup->list, lookup->count);
}

static void *lookup_main(void *argument)
{
    struct lookup *lookup = argument;
    resolve_host(lookup);
    atomic_fetch_sub(&lookups_running, 1);
    pthread_mutex_lock(&lookup->lock);
    bool is_cancelled = !lookup->loop;
    if (!is_cancelled) {
        lookup->is_posted = true;
        loop_post(lookup->loop, &lookup->task);
    }
    pthread_mutex_unlock(&lookup->lock);
    if (is_cancelled)
        lookup_release(lookup);
    return NULL;
}

static bool lookup_thread(struct lookup *lookup)
{
    if (atomic_fetch_add(&lookups_running, 1) >= LOOKUPS_MAX) {
        atomic_fetch_sub(&lookups_running, 1);
        return false;
    }
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, LOOKUP_STACK_BYTES);
    int err = pthread_create(&thread, &attributes, lookup_main, lookup);
    pthread_attr_destroy(&attributes);
    if (err)
        atomic_fetch_sub(&lookups_running, 1);
    return err == 0;
}

struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, lookup_fn *on_done,
                            void *owner)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    CHECK(lookup);
    CHECK(pthread_mutex_init(&lookup->lock, NULL) == 0);
    lookup->loop = loop;
    lookup->task.run = on_looked_up;
    lookup->on_done = on_done;
    lookup->owner = owner;
    lookup->port = port;
    (void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    if (!lookup_thread(lookup)) {
        lookup->count = -EAGAIN;
        lookup->is_posted = true;
        loop_post(loop, &lookup->task);
    }
    return lookup;
}

void lookup_cancel(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool is_posted = lookup->is_posted;
    struct loop *loop = lookup->loop;
    lookup->loop = NULL;
    pthread_mutex_unlock(&lookup->lock);
    if (!is_posted)
        return;
    loop_unpost(loop, &lookup->task);
    lookup_release(lookup);
}
