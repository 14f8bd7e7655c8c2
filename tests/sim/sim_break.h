/*
 * sim_break.h - interfaces that lie on purpose, to prove that the checks would notice.
 *
 * Each control breaks one promise an interface makes; a simulation that still passes does not test anything.
 */
#pragma once

#include <stdbool.h>

enum sim_break {
    BREAK_NONE,
    BREAK_LOST_SYNC,     /* store: a synced write is lost in a crash */
    BREAK_TORN_BATCH,    /* store: a batch on its way is half there after a crash */
    BREAK_EARLY_ACK,     /* worker: done() runs before work() */
    BREAK_LOST_DONE,     /* worker: a job's done() never comes */
    BREAK_SWAPPED_REPLY, /* network: two replies change places */
    BREAK_LOST_REPLY,    /* network: a reply is lost, the connection lives */
    BREAK_DOUBLE_SEND,   /* network: a request arrives twice, its second reply is swallowed */
    BREAK_WRONG_BACKEND, /* network: a connection ends at another listener */
    BREAK_COUNT,
};

extern enum sim_break sim_broken;

/* The name of the command line; NULL at the end. */
const char *sim_break_name(enum sim_break broken);
/* False: there is no control of this name. */
bool sim_break_find(const char *name, enum sim_break *broken);
