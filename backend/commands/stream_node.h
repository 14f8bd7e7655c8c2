/*
 * stream_node.h - where one of Redis' nodes ends and the next begins, so that "~" trims what Redis would.
 *
 *   entries   a b c d │ e f g │ h i …      an entry begins a node when the one before has stream-node-max-entries
 *   node      ────────┴───────┴────        entries, or no room for its strings in stream-node-max-bytes
 *
 * Redis keeps a stream in nodes, each a listpack, and with "~" removes whole ones. Here entries are rows, and nodes are
 * counted from the first entry on at each trim. For a first node whose front is gone the metadata row keeps what
 * that front had (struct stream_node). Entries that XDEL took out of the middle are not counted, as Redis would.
 */
#pragma once

#include "backend/commands/stream.h"

struct stream_node_limits {
    uint64_t entries; /* 0: no limit */
    uint64_t bytes;
};

struct stream_node_limits stream_node_limits(const struct call *call);
/* Puts an entry into the node, or into a new one; true: into a new one. The row must be an entry's. */
bool stream_node_add(struct stream_node *node, const struct stream_node_limits *limits,
                     struct stream_id id, struct bytes row);
