#include "backend/format/change_list.h"

#include "shared/byte_order.h"
#include "shared/check.h"
#include "shared/out.h"

enum { HEAD = 3 + 4 }; /* bytes of a change before the key */

void change_list_begin(struct out *out, struct bytes client)
{
    char len = (char)client.len;
    CHECK(!out->bytes && client.len <= TRACKING_NAME_MAX);
    out_write(out, &len, 1);
    out_write(out, client.data, client.len);
}

void change_list_put(struct out *out, const struct listed_change *change)
{
    char head[HEAD] = {(char)change->kind, (char)change->type, (char)change->by_client};
    put_be32(head + 3, (uint32_t)change->row_key.len);
    out_write(out, head, sizeof head);
    out_write(out, change->row_key.data, change->row_key.len);
}

/* Removes the first `len` bytes. */
static struct bytes take_front(struct bytes *rest, size_t len)
{
    struct bytes front = {rest->data, len};
    *rest = (struct bytes){rest->data + len, rest->len - len};
    return front;
}

bool change_list_open(struct bytes bytes, struct change_list *list)
{
    *list = (struct change_list){.rest = bytes};
    if (!bytes.len)
        return true;
    size_t len = (uint8_t)*take_front(&list->rest, 1).data;
    if (len > TRACKING_NAME_MAX || len > list->rest.len)
        return false;
    list->client = take_front(&list->rest, len);
    return true;
}

bool change_list_next(struct change_list *list, struct listed_change *change)
{
    if (list->rest.len < HEAD)
        return false;
    size_t len = get_be32(list->rest.data + 3);
    if (len > list->rest.len - HEAD)
        return false;
    const char *head = take_front(&list->rest, HEAD).data;
    *change = (struct listed_change){.kind = (uint8_t)head[0],
                                     .type = (uint8_t)head[1],
                                     .by_client = head[2],
                                     .row_key = take_front(&list->rest, len)};
    return true;
}
