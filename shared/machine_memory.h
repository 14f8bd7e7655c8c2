/*
 * machine_memory.h - the memory that this process may use: the smallest of what the machine has and what cgroups allow.
 *
 *   /proc/meminfo      MemTotal                                        16 GB
 *   /proc/self/cgroup  0::/pods/a  ─► /sys/fs/cgroup/pods/a/memory.max   1 GB   cgroup v2, and memory.high
 *                                     /sys/fs/cgroup/pods/memory.max     4 GB   its parents
 *                      4:memory:/a ─► /sys/fs/cgroup/memory/a/memory.limit_in_bytes   cgroup v1
 *
 * In a container these paths are often those outside, where nothing of this name exists; then the root of
 * /sys/fs/cgroup, the container's own group, counts.
 */
#pragma once

#include <stdint.h>

/* Bytes; 0: unknown. `root` is put before these paths: "" for the machine, another directory for tests. */
uint64_t machine_memory(const char *root);
