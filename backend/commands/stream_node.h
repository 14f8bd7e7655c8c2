/*
 * stream_node.h - boundaries of Redis' stream nodes, so that "~" removes the entries that Redis would remove.
 *
 *   entries   a b c d │ e f g │ h i …      an entry begins a node when the last node has stream-node-max-entries
 *   node      ────────┴───────┴────        entries, or its strings do not fit into stream-node-max-bytes
 *
 * Redis stores a stream in nodes, each a listpack, and with "~" removes whole nodes. Here entries are rows, and each
 * trim computes the nodes from the first entry on. When entries of the first node have been removed, the metadata row
 * has their number and size (struct stream_node). Entries deleted by XDEL inside a node are not counted, although
 * Redis counts them.
 */
#pragma once

#include "backend/commands/stream.h"

struct stream_node_limits {
    uint64_t entries; /* 0: unlimited */
    uint64_t bytes;
};

struct stream_node_limits stream_node_limits(const struct call *call);
/* Adds an entry to the node, or to a new node (returns true). The row must be that of an entry. */
bool stream_node_add(struct stream_node *node, const struct stream_node_limits *limits,
                     struct stream_id id, struct bytes row);
