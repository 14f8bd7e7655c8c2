/*
 * notify_class.h - the classes of keyspace notifications, as `notify-keyspace-events` names them.
 *
 * Redis documents the letters: https://redis.io/docs/latest/develop/use/keyspace-notifications/
 */
#pragma once

#include "shared/bytes.h"

/* The classes of `notify-keyspace-events`, by their letters. */
enum notify_class {
    NOTIFY_KEYSPACE = 1 << 0, /* K: publish to __keyspace@<db>__:<key> */
    NOTIFY_KEYEVENT = 1 << 1, /* E: publish to __keyevent@<db>__:<event> */
    NOTIFY_GENERIC = 1 << 2,  /* g */
    NOTIFY_STRING = 1 << 3,   /* $ */
    NOTIFY_LIST = 1 << 4,     /* l */
    NOTIFY_SET = 1 << 5,      /* s */
    NOTIFY_HASH = 1 << 6,     /* h */
    NOTIFY_ZSET = 1 << 7,     /* z */
    NOTIFY_EXPIRED = 1 << 8,  /* x */
    NOTIFY_EVICTED = 1 << 9,  /* e */
    NOTIFY_STREAM = 1 << 10,  /* t */
    NOTIFY_MISS = 1 << 11,    /* m; not part of A */
    NOTIFY_MODULE = 1 << 12,  /* d: JSON, sorted ints */
    NOTIFY_NEW = 1 << 13,     /* n; not part of A */
};

enum { NOTIFY_TEXT_MAX = 16 };

/* Parses the letters of classes. False: a letter is unknown. */
bool notify_parse(struct bytes text, unsigned *classes);
/* Writes the classes as Redis shows them, with a zero byte; returns the length. */
size_t notify_format(unsigned classes, char text[NOTIFY_TEXT_MAX]);
