#include "backend/notify.h"

void notify(struct call *call, enum notify_class class, const char *name, struct bytes key)
{
    (void)call;
    (void)class;
    (void)name;
    (void)key;
}

void notify_in(struct call *call, const struct space *space, enum notify_class class,
               const char *name, struct bytes key)
{
    (void)space;
    notify(call, class, name, key);
}
