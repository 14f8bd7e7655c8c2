#include "backend/replica/outbox.h"

void outbox_save_begun(struct outbox *outbox)
{
    outbox->begun++;
}

void outbox_saved(struct outbox *outbox)
{
    outbox->durable++;
}

bool outbox_put(struct outbox *outbox, const struct consensus_message *message)
{
    if (outbox->count == OUTBOX_MAX)
        return false;
    size_t at = (outbox->first + outbox->count++) % OUTBOX_MAX;
    outbox->mail[at] = (struct outbox_mail){*message, outbox->begun};
    return true;
}

bool outbox_take(struct outbox *outbox, struct consensus_message *message)
{
    const struct outbox_mail *mail = &outbox->mail[outbox->first];
    if (!outbox->count || mail->after_saves > outbox->durable)
        return false;
    *message = mail->message;
    outbox->first = (outbox->first + 1) % OUTBOX_MAX;
    outbox->count--;
    return true;
}
