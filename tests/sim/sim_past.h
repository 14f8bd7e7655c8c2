/*
 * sim_past.h - the disks of a group's copies, as a random past has left them: terms, votes, logs, members, snapshots.
 *
 *     found ─► stand · append · replicate · commit · change members · trim · install · crash · …, in any order ─► disks
 *
 * Every state is one that copies can reach, because each step of the past is one that the rules allow (backend/consensus/rules.h), and
 * any order of steps is possible: between two of them as much time may pass as promises and leases last, with only those links up and
 * only those processes alive that the next step needs. A step changes what it changes in the program, also on the disks:
 *
 *   stand       a voter by its own record, when most voters would grant a pre-vote; some hear the vote, and save term and vote. With most
 *               votes it leads, and appends its PROBE. Or it only learns a higher term, by a refusal.
 *   append      a leader whose PROBE is committed appends a batch, or members that differ by one from those before, which are committed
 *   replicate   a follower gets the leader's log up to some record, instead of what differs. A record of the members does not leave
 *               before it is durable. What is not synced is not acknowledged.
 *   commit      what most voters of the newest members have acknowledged, of the leader's own term
 *   install     a follower gets the leader's state as of a committed record
 *   crash       … with power, or without: then what was not synced is lost, and a cut that was not synced is undone
 *
 * sim_truth.h looks at the disks again when they are started. What faults make of a running group is looked at by test_consensus.c; here
 * copies are further apart, as after weeks in which each of them was mostly alone.
 */
#pragma once

#include "tests/sim/sim_copy.h"

enum { PAST_COPIES = 6 };

/* A random number below `below`. */
typedef uint64_t sim_chance_fn(uint64_t below);

/* Makes the copies with the ids 1 …; none of them runs. Some may have an empty disk. */
void sim_past_make(struct sim_copy copies[PAST_COPIES], unsigned steps, sim_chance_fn *chance);
