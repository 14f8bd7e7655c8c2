/*
 * option.h - one option of a configuration: its row as data, and its value as text and back.
 *
 *   "upstream" "timeout" "5s"  ── option_set ──►  config->upstream_timeout_ms = 5000
 *                               ◄─ option_text ──
 *
 * The kind decides the member's C type, the suffix of its name and the texts it accepts:
 *
 *   kind        member                    text
 *   INT         int field                 -12
 *   BYTES       uint64_t field_bytes      512mb 64kb 1gb 1tb 4096
 *   MS          uint64_t field_ms         500ms 5s 1m 2h 1d, or 0
 *   BOOL        bool field                yes no
 *   ENUM        int field                 one of the row's words; the value is the word's index
 *   OCTAL       uint32_t field            0700
 *   STRING      char *field               any text; never NULL
 *   ADDRESS     char *field               host:port [v6]:port unix:/path, or nothing
 *   ADDRESSES   char *field               several addresses separated by spaces
 *   SLOT_RULE   char *field               see shared/namespace.h
 *   HOURS       char *field               see shared/hours.h
 *
 * min and max bound numbers in the row's own notation, and the length of texts.
 */
#pragma once

#include "shared/bytes.h"

enum option_kind {
    OPTION_INT,
    OPTION_BYTES,
    OPTION_MS,
    OPTION_BOOL,
    OPTION_ENUM,
    OPTION_OCTAL,
    OPTION_STRING,
    OPTION_ADDRESS,
    OPTION_ADDRESSES,
    OPTION_SLOT_RULE,
    OPTION_HOURS,
};

enum option_reload { OPTION_RELOAD, OPTION_RESTART };

struct option {
    enum option_kind kind;
    const char *key;     /* the field's name with '-': what CONFIG GET and SET call it */
    const char *section; /* "upstream"; "namespace NAME" for a section that repeats */
    const char *name;    /* inside its section */
    const char *initial; /* default, as text */
    const char *min;
    const char *max;
    const char *unit; /* ENUM: "word|word"; ADDRESS: "tcp" or anything; else for readers */
    enum option_reload reload;
    const char *sentence;
    size_t offset; /* of the member in its struct */
};

enum { OPTION_TEXT_MAX = 32, OPTION_REASON_MAX = 320 };

/* Gives the member of fresh memory its default. An empty text that the row does not accept means "must be
 * given" (option_missing). */
void option_init(const struct option *option, void *owner);
bool option_missing(const struct option *option, const void *owner);
/* Sets the member in `owner`. false: unchanged, and what was expected is in reason[size]. */
bool option_set(const struct option *option, void *owner, struct bytes text, char *reason,
                size_t size);
/* The value as option_set takes it. Borrowed: points into `buffer` or into `owner`'s member. */
struct bytes option_text(const struct option *option, const void *owner,
                         char buffer[OPTION_TEXT_MAX]);
bool option_equal(const struct option *option, const void *a, const void *b);
/* Names a file or a directory: only the configuration's file may change it, no client. */
bool option_is_path(const struct option *option);
/* Frees a text member. */
void option_clear(const struct option *option, void *owner);
/* What option_set accepts, for messages and documentation: "a size of 1mb to 4gb such as 512mb". */
void option_expected(const struct option *option, char *text, size_t size);

/* "host:port", "[v6]:port" or "unix:/path"; port 0 is allowed (the kernel chooses). */
bool address_valid(struct bytes address);
/* Takes the next word (separated by spaces or tabs) off the front of *rest; false at the end. */
bool word_next(struct bytes *rest, struct bytes *word);
