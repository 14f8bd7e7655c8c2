#include "backend/session/memory.h"

#include "backend/context/partition.h"
#include "backend/session/session.h"
#include "backend/session/session_reply.h"
#include "backend/session/waits.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* jemalloc's; NULL when jemalloc is not linked. http://jemalloc.net/jemalloc.3.html */
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size)
    __attribute__((weak));
extern void malloc_stats_print(void (*write)(void *owner, const char *text), void *owner,
                               const char *options) __attribute__((weak));

static _Atomic uint64_t startup_bytes;

static uint64_t read_resident(void)
{
    char line[256] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    /* the line is: total resident … */
    const char *pages = fgets(line, sizeof line, file) ? strchr(line, ' ') : NULL;
    (void)fclose(file);
    return pages ? strtoull(pages, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* A statistic of jemalloc; without jemalloc `otherwise`. */
static uint64_t allocator_figure(const char *name, uint64_t otherwise)
{
    size_t figure;
    size_t size = sizeof figure;
    return mallctl && mallctl(name, &figure, &size, NULL, 0) == 0 ? figure : otherwise;
}

static void allocator_refresh(void)
{
    uint64_t epoch = 1;
    if (mallctl)
        (void)mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
}

uint64_t memory_of_clients(const struct partition *partition)
{
    uint64_t bytes = 0;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next) {
        const struct session *session = container_of(link, struct session, link);
        bytes += sizeof *session + session_state_bytes(session) + waits_bytes(session) +
                 session_owed_bytes(session) + stream_held(session->stream) +
                 stream_tls_bytes(session->stream);
    }
    return bytes;
}

void memory_read(struct partition *partition, struct memory *memory)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    *memory = (struct memory){.rss = read_resident()};
    memory->peak_rss = (uint64_t)usage.ru_maxrss * 1024;
    if (memory->peak_rss < memory->rss)
        memory->peak_rss = memory->rss;
    allocator_refresh();
    memory->allocated = allocator_figure("stats.allocated", memory->rss);
    memory->active = allocator_figure("stats.active", memory->rss);
    memory->resident = allocator_figure("stats.resident", memory->rss);
    memory->startup = atomic_load_explicit(&startup_bytes, memory_order_relaxed);
    memory->block_cache = store_figure(storage_store(partition->storage), "cache_bytes");
    memory->memtables = store_figure(storage_store(partition->storage), "memtable_bytes");
    memory->table_readers = store_figure(storage_store(partition->storage), "table_reader_bytes");
    memory->batches = overlay_memory(partition->overlay);
    memory->clients = memory_of_clients(partition);
}

void memory_started(void)
{
    allocator_refresh();
    atomic_store(&startup_bytes, allocator_figure("stats.allocated", read_resident()));
}

bool memory_purge(void)
{
    char name[64];
    enum { ALL_ARENAS = 4096 }; /* MALLCTL_ARENAS_ALL */
    (void)snprintf(name, sizeof name, "arena.%d.purge", ALL_ARENAS);
    return !mallctl || mallctl(name, NULL, NULL, NULL, 0) == 0;
}

static void write_report(void *owner, const char *text)
{
    out_write(owner, text, strlen(text));
}

bool memory_report(struct out *out)
{
    if (!malloc_stats_print)
        return false;
    malloc_stats_print(write_report, out, "");
    return true;
}
