/*
 * replica_notes.h - the queue from a replica's thread to its home loop: events in the order in which they happened.
 *
 *   replica thread   role ─► committed 7 ─► committed 9 ─► proposal        one task each
 *   home loop                                   on_role, on_committed, …   never inside loop_poll, since tasks wait there
 *
 * A role must not overtake the commit index before it, nor a proposal the role it belongs to.
 */
#pragma once

#include "backend/replica/replica.h"
#include "backend/replica/replica_mail.h"

struct replica_notes {
    struct replica_mail *mail;
    struct loop *home;
    struct replica_events events;
    void *owner;
};

void replica_note_role(const struct replica_notes *notes, const struct replica_role *role);
void replica_note_committed(const struct replica_notes *notes, uint64_t index);
/* Copies the members. */
void replica_note_propose(const struct replica_notes *notes, uint64_t term,
                          const struct members *members);
void replica_note_install(const struct replica_notes *notes, const char *dir,
                          const struct replica_record *record);
void replica_note_failed(const struct replica_notes *notes, const char *reason);
void replica_note_lost(const struct replica_notes *notes);
void replica_note_acknowledged(const struct replica_notes *notes);
/* The last one. */
void replica_note_stopped(const struct replica_notes *notes, void (*on_stopped)(void *owner),
                          void *owner);
