#include "backend/session/pause.h"

#include "backend/context/partition.h"
#include "backend/session/session.h"

void partition_resume(struct partition *partition)
{
    if (!partition->pause.has_waiting)
        return;
    partition->pause.has_waiting = false;
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next)
        session_resume(container_of(link, struct session, link));
}

void partition_pause(struct partition *partition, uint64_t until_ms, bool writes_only)
{
    partition->pause.until_ms = until_ms;
    partition->pause.writes_only = writes_only;
    if (until_ms == 0)
        partition_resume(partition);
}
