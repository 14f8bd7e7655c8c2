/*
 * link_send.c - other ways to send a request (link.h).
 */
#include "backend/peer/link.h"

#include "shared/check.h"
#include "shared/out.h"

#include <stdlib.h>

enum peer_sent peer_link_send_out(struct peer_link *link, struct peer_request *request,
                                  uint8_t kind, struct out *out)
{
    struct bytes payload = out_take(out);
    enum peer_sent sent = !link ? PEER_NOT_UP
                          : payload.len > PEER_PAYLOAD_MAX
                              ? PEER_FULL
                              : peer_link_send(link, request, kind, payload);
    free((char *)payload.data);
    return sent;
}

enum peer_sent peer_link_post_out(struct peer_link *link, uint8_t kind, struct out *out)
{
    struct bytes payload = out_take(out);
    enum peer_sent sent = peer_link_post(link, kind, payload);
    free((char *)payload.data);
    return sent;
}

/* on_reply */
static void free_request(struct peer_request *request, enum peer_result result,
                         struct bytes payload)
{
    (void)result;
    (void)payload;
    free(request);
}

void peer_link_tell(struct peer_link *link, uint8_t kind, struct bytes payload)
{
    struct peer_request *request = malloc(sizeof *request);
    CHECK(request);
    *request = (struct peer_request){.on_reply = free_request};
    if (peer_link_send(link, request, kind, payload) != PEER_SENT)
        free(request);
}
