#include "backend/replica/replica_notes.h"

#include "backend/replica/replica_members.h"
#include "shared/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct note {
    struct replica_letter letter;
    struct replica_events events;
    void *owner;
    uint64_t number; /* an index or a term */
    union {
        struct replica_role role;
        struct replica_members members;
        struct {
            char dir[PATH_MAX];
            struct replica_record record;
        } install;
        char reason[256];
        void (*on_stopped)(void *owner);
    };
};

static struct note *arrived_note(struct replica_letter *letter)
{
    return container_of(letter, struct note, letter);
}

static void free_note(struct replica_letter *letter)
{
    free(arrived_note(letter));
}

static struct note *note_new(const struct replica_notes *notes,
                             void (*read)(struct replica_letter *letter))
{
    struct note *note = calloc(1, sizeof *note);
    CHECK(note);
    note->letter.read = read;
    note->letter.free = free_note;
    note->events = notes->events;
    note->owner = notes->owner;
    return note;
}

static void hear_role(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->events.on_role(note->owner, &note->role);
}

void replica_note_role(const struct replica_notes *notes, const struct replica_role *role)
{
    struct note *note = note_new(notes, hear_role);
    note->role = *role;
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_committed(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->events.on_committed(note->owner, note->number);
}

void replica_note_committed(const struct replica_notes *notes, uint64_t index)
{
    struct note *note = note_new(notes, hear_committed);
    note->number = index;
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_propose(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->events.on_propose(note->owner, note->number, &note->members.named);
}

void replica_note_propose(const struct replica_notes *notes, uint64_t term,
                          const struct members *members)
{
    struct note *note = note_new(notes, hear_propose);
    note->number = term;
    replica_members_set(&note->members, members);
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_install(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->events.on_install(note->owner, note->install.dir, &note->install.record);
}

void replica_note_install(const struct replica_notes *notes, const char *dir,
                          const struct replica_record *record)
{
    struct note *note = note_new(notes, hear_install);
    (void)snprintf(note->install.dir, sizeof note->install.dir, "%s", dir);
    note->install.record = *record;
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_failed(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->events.on_failed(note->owner, note->reason);
}

void replica_note_failed(const struct replica_notes *notes, const char *reason)
{
    struct note *note = note_new(notes, hear_failed);
    (void)snprintf(note->reason, sizeof note->reason, "%s", reason);
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_lost(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    if (note->events.on_lost)
        note->events.on_lost(note->owner);
}

void replica_note_lost(const struct replica_notes *notes)
{
    struct note *note = note_new(notes, hear_lost);
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_acknowledged(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    if (note->events.on_acknowledged)
        note->events.on_acknowledged(note->owner);
}

void replica_note_acknowledged(const struct replica_notes *notes)
{
    struct note *note = note_new(notes, hear_acknowledged);
    replica_mail_send(notes->mail, notes->home, &note->letter);
}

static void hear_stopped(struct replica_letter *letter)
{
    struct note *note = arrived_note(letter);
    note->on_stopped(note->owner);
}

void replica_note_stopped(const struct replica_notes *notes, void (*on_stopped)(void *owner),
                          void *owner)
{
    struct note *note = note_new(notes, hear_stopped);
    note->on_stopped = on_stopped;
    note->owner = owner;
    replica_mail_send(notes->mail, notes->home, &note->letter);
}
