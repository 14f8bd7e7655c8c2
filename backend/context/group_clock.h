/*
 * group_clock.h - the time by which a group of copies expires keys, so that it does not go back when another copy leads.
 *
 *   leader      time = clock_wall_us + shift ──each message──► follower    shift: by how much the leader's time is ahead of its own clock
 *                                                                 │
 *   the log     time of the newest record  ──┐                    ▼ is elected
 *   a voter     newest time that it has heard ┴─► at least  ─► leader    goes on at that time; then the shift shrinks by 1 % of the time passed
 *
 * A key that has expired is not deleted at once, so a client may have seen that it is gone, and no record says so. If the next leader's clock
 * were behind, the key would be there again. A follower therefore runs the time of its leader on, from each message of the leader, which is one
 * way late. It is not behind when it leads: the leader before has shown nothing later than 0.8 E after a message that most copies have
 * answered, and no other is elected within E after that. (If the rates of clocks differ by 20 %, it may be behind by what a message takes.) A
 * copy that was elected without having heard the leader before learns the time from those that vote for it.
 *
 * So of any two majorities one copy must know the time, and its process may have ended in between. A voter therefore keeps the time on its disk
 * (struct replica_time) before it answers the leader that it has heard it from, and a leader before its first record leaves; then only when
 * the time has moved against this machine's clocks. The next process goes on there: by the time passed, as far as both clocks agree on it.
 * A machine that was started again, or a disk in another machine, knows less: the time goes on where it was kept.
 *
 * A time that is more than GROUP_CLOCK_BELIEVED_US ahead is not believed when a copy begins to lead: a clock that was as wrong as that led
 * before. A leader whose clock is ahead of the group's time follows its clock at once, as a shard with one copy does.
 *
 * Any thread may read the shift. The replica's thread calls group_clock_hear, the partition's thread group_clock_lead and _tick, and both
 * group_clock_raise.
 */
#pragma once

#include "backend/format/replica_record.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GROUP_CLOCK_BELIEVED_US ((int64_t)60 * 1000000)

struct group_clock {
    _Atomic int64_t shift_us; /* of the group's time to clock_wall_us; at least 0 */
    atomic_bool is_known;     /* a leader was heard, or this copy has led */
    /* of the thread that hears: the leader's time less clock_boot_us, and when it was heard; 0: not yet */
    int64_t heard_us;
    uint64_t heard_at_us;
    uint64_t ticked_us; /* of the thread that serves; clock_boot_us */
};

/* The leader's time was `time_us` when it sent a message, which has just come. */
void group_clock_hear(struct group_clock *clock, uint64_t time_us);
/* The group's time was `time_us` before: goes on there if it is ahead. 0: not known. */
void group_clock_raise(struct group_clock *clock, uint64_t time_us);
/* This copy was elected: if no time is known, its own clock's time is the group's. */
void group_clock_elected(struct group_clock *clock);
/* At the start of a process: the time goes on from the one that the process before it has saved. */
void group_clock_go_on(struct group_clock *clock, const struct replica_time *kept);
/* True: the saved time *kept is out of date, and is set to the present one, which the caller saves. It is out of date if a process that started
 * now from *kept would be 10 ms behind the group, or 1 s ahead. */
bool group_clock_keep(const struct group_clock *clock, struct replica_time *kept);
/* This copy leads from now on. Returns by how much a time that is not believed was ahead, in µs; 0: none was. */
int64_t group_clock_lead(struct group_clock *clock);
/* While it leads, some times a second: the time approaches the own clock. */
void group_clock_tick(struct group_clock *clock);
/* The group's time now; 0: not known. */
uint64_t group_clock_us(const struct group_clock *clock);
