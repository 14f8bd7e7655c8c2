/* told_at_rollback.c - the changes of a command that is rolled back are reported. */
#include "backend/context/call.h"
#include "backend/context/partition.h"
#include "backend/dispatch/suspend.h"
#include "backend/session/changes.h"
#include "backend/session/push_message.h"

void __real_suspend_begin(struct call *call, struct suspend_mark *mark);
void __wrap_suspend_begin(struct call *call, struct suspend_mark *mark);
void __real_push_messages_drop(struct push_messages *messages, uint32_t count);
void __wrap_push_messages_drop(struct push_messages *messages, uint32_t count);

static struct call *running;

void __wrap_suspend_begin(struct call *call, struct suspend_mark *mark)
{
    running = call;
    __real_suspend_begin(call, mark);
}

void __wrap_push_messages_drop(struct push_messages *messages, uint32_t count)
{
    if (running && !messages->open) {
        changes_tell(running);
        push_messages_deliver(messages, 0);
    }
    __real_push_messages_drop(messages, count);
}
