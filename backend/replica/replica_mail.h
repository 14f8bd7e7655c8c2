/*
 * replica_mail.h - letters between home and a replica's thread, read in the order in which they were sent.
 *
 *   home ── orders ──► the replica's loop      a letter is a task of the loop that reads it; the mail also has a list of the letters
 *   home ◄── notes ─── the replica's loop      on their way, so that those are freed which a loop did not read before its end
 */
#pragma once

#include "shared/list.h"
#include "shared/net/loop.h"

#include <pthread.h>

struct replica_mail {
    pthread_mutex_t lock;
    struct list letters; /* on their way */
};

/* The first member of an order or a note. */
struct replica_letter {
    struct task task;
    struct list link; /* in mail->letters */
    struct replica_mail *mail;
    void (*read)(struct replica_letter *letter); /* on the thread of the loop; `free` follows */
    void (*free)(struct replica_letter *letter);
};

void replica_mail_init(struct replica_mail *mail);
/* Frees the letters that were not read; the loops read no more. */
void replica_mail_fini(struct replica_mail *mail);
/* A letter that no loop reads, but which is on its way too: it is freed by replica_mail_fini, unless it was released before. Any thread. */
void replica_mail_hold(struct replica_mail *mail, struct replica_letter *letter);
void replica_mail_release(struct replica_letter *letter);
/* Any thread. */
void replica_mail_send(struct replica_mail *mail, struct loop *to, struct replica_letter *letter);
