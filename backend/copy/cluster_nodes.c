#include "backend/copy/cluster_nodes.h"

#include "config/option.h"
#include "shared/check.h"
#include "shared/slot_ranges.h"

#include <stdio.h>
#include <stdlib.h>

/* Takes what stands before the mark, and the mark. */
static struct bytes take_until(struct bytes *rest, char mark)
{
    const char *end = rest->len ? memchr(rest->data, mark, rest->len) : NULL;
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    struct bytes taken = {rest->data, len};
    size_t used = end ? len + 1 : len;
    *rest = (struct bytes){rest->data + used, rest->len - used};
    return taken;
}

static bool has_flag(struct bytes flags, const char *name)
{
    while (flags.len > 0)
        if (bytes_is(take_until(&flags, ','), name))
            return true;
    return false;
}

static void add_node_slots(void *owner, uint16_t first, uint16_t last)
{
    struct cluster_slots *slots = owner;
    for (unsigned slot = first; slot <= last; slot++) {
        if (cluster_slots_have(slots, (uint16_t)slot))
            continue;
        slots->words[slot / 64] |= (uint64_t)1 << slot % 64;
        slots->sum = (slots->sum + slot_term((uint16_t)slot)) & SLOT_SUM_MASK;
        slots->count++;
    }
}

/* The port of host:port@bus is behind the last colon. */
static void write_node_address(struct cluster_node *node, struct bytes host, struct bytes port)
{
    bool is_v6 = memchr(host.data, ':', host.len) != NULL;
    if (host.len + port.len + 4 < COPY_ADDRESS_MAX)
        (void)snprintf(node->address, COPY_ADDRESS_MAX, "%s%.*s%s:%.*s", is_v6 ? "[" : "",
                       (int)host.len, host.data, is_v6 ? "]" : "", (int)port.len, port.data);
    if (!address_valid(bytes_of(node->address)))
        *node->address = '\0';
}

/* ip:port@bus[,hostname[,…]]. A node that does not know its own address has none: then it is where it was asked. */
static void read_node_address(struct cluster_node *node, struct bytes text, const char *asked,
                              bool prefers_names)
{
    struct bytes place = take_until(&text, ',');
    struct bytes name = take_until(&text, ',');
    struct bytes host = take_until(&place, '@');
    const char *colon = host.len ? memrchr(host.data, ':', host.len) : NULL;
    if (!colon)
        return;
    struct bytes port = {colon + 1, host.len - (size_t)(colon - host.data) - 1};
    host.len = (size_t)(colon - host.data);
    if (prefers_names && name.len > 0 && !memchr(name.data, '=', name.len))
        host = name;
    if (host.len == 0 && node->is_myself)
        (void)snprintf(node->address, COPY_ADDRESS_MAX, "%s", asked);
    else if (host.len > 0)
        write_node_address(node, host, port);
}

/* False: a slot is no number. */
static bool read_node_slots(struct cluster_node *node, struct bytes rest)
{
    while (rest.len > 0) {
        struct bytes word = take_until(&rest, ' ');
        if (word.len == 0)
            continue;
        node->is_moving |= *word.data == '[';
        if (*word.data != '[' && !slot_ranges_each(word, add_node_slots, &node->slots))
            return false;
    }
    return true;
}

static bool read_node_id(char id[CLUSTER_ID_BYTES + 1], struct bytes word)
{
    (void)snprintf(id, CLUSTER_ID_BYTES + 1, "%.*s", (int)(word.len < 41 ? word.len : 40),
                   word.data);
    return word.len == CLUSTER_ID_BYTES;
}

static bool read_node(struct cluster_node *node, struct bytes line, const char *asked,
                      bool prefers_names)
{
    bool is_good = read_node_id(node->id, take_until(&line, ' '));
    struct bytes address = take_until(&line, ' ');
    struct bytes flags = take_until(&line, ' ');
    struct bytes master = take_until(&line, ' ');
    node->is_myself = has_flag(flags, "myself");
    node->is_master = has_flag(flags, "master");
    if (!node->is_master && !bytes_is(master, "-"))
        (void)read_node_id(node->master, master);
    for (unsigned i = 0; i < 4; i++)
        (void)take_until(&line, ' '); /* times, epoch, state of the link */
    if (!has_flag(flags, "noaddr") && !has_flag(flags, "handshake"))
        read_node_address(node, address, asked, prefers_names);
    return is_good && read_node_slots(node, line);
}

bool cluster_nodes_read(struct cluster_nodes *nodes, struct bytes text, const char *asked,
                        bool prefers_names)
{
    *nodes = (struct cluster_nodes){.count = 0};
    while (text.len > 0) {
        struct bytes line = take_until(&text, '\n');
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0)
            continue;
        if (nodes->count == CLUSTER_NODES_MAX)
            return false;
        nodes->all = realloc(nodes->all, (nodes->count + 1) * sizeof *nodes->all);
        CHECK(nodes->all);
        struct cluster_node *node = &nodes->all[nodes->count++];
        *node = (struct cluster_node){.is_master = false};
        if (!read_node(node, line, asked, prefers_names))
            return false;
    }
    return nodes->count > 0;
}

void cluster_nodes_free(struct cluster_nodes *nodes)
{
    free(nodes->all);
    nodes->all = NULL;
    nodes->count = 0;
}

const struct cluster_node *cluster_nodes_owner(const struct cluster_nodes *nodes,
                                               const struct cluster_slots *slots)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct cluster_node *node = &nodes->all[i];
        if (node->is_master && node->slots.count == slots->count &&
            memcmp(node->slots.words, slots->words, sizeof slots->words) == 0)
            return node;
    }
    return NULL;
}
