/*
 * option.h - one option of a configuration: its row of the .def file, and its value as text.
 *
 *   "upstream" "timeout" "5s"  ── option_set ──►  config->upstream_timeout_ms = 5000
 *                               ◄─ option_text ──
 *
 * The kind determines the C type of the member, the suffix of its name, and the texts that are accepted:
 *
 *   kind        member                    text
 *   INT         int field                 -12
 *   BYTES       uint64_t field_bytes      512mb 64kb 1gb 1tb 4096
 *   AUTO_BYTES  uint64_t field_bytes      as BYTES, or auto: BYTES_AUTO; with unit "%" also 25%: BYTES_PART(25)
 *   MS          uint64_t field_ms         500ms 5s 1m 2h 1d, or 0
 *   BOOL        bool field                yes no
 *   ENUM        int field                 one of the row's words; the value is the word's index
 *   OCTAL       uint32_t field            0700
 *   STRING      char *field               any text; never NULL
 *   ADDRESS     char *field               host:port [v6]:port unix:/path, or nothing
 *   ADDRESSES   char *field               several addresses separated by spaces
 *   SLOT_RULE   char *field               see shared/namespace.h
 *   HOURS       char *field               see shared/hours.h
 *   HOST        char *field               a host; %h stands for the machine's name, see shared/host_name.h
 *   ZONE        char *field               the name of a zone, or a variable that has it, see shared/zone.h
 *
 * min and max are the bounds of a number, written as in the file, or of the length of a text.
 */
#pragma once

#include "shared/bytes.h"

enum option_kind {
    OPTION_INT,
    OPTION_BYTES,
    OPTION_AUTO_BYTES,
    OPTION_MS,
    OPTION_BOOL,
    OPTION_ENUM,
    OPTION_OCTAL,
    OPTION_STRING,
    OPTION_ADDRESS,
    OPTION_ADDRESSES,
    OPTION_SLOT_RULE,
    OPTION_HOURS,
    OPTION_HOST,
    OPTION_ZONE,
};

/* Values of the kind AUTO_BYTES that are no sizes: `auto`, and a percentage. memory_plan.h makes sizes of them. */
#define BYTES_AUTO           UINT64_MAX
#define BYTES_PART(percent)  (UINT64_MAX - (percent))
#define BYTES_IS_PART(value) ((value) >= BYTES_PART(100) && (value) != BYTES_AUTO)
#define BYTES_PERCENT(value) (UINT64_MAX - (value))
enum { BYTES_PERCENT_MAX = 90 };

enum option_reload { OPTION_RELOAD, OPTION_RESTART };

struct option {
    enum option_kind kind;
    const char *key; /* "upstream-timeout": the name in CONFIG GET and SET, see ROW in config.c */
    const char *section; /* "upstream"; "namespace NAME" for a repeated section */
    const char *name;    /* inside its section */
    const char *initial; /* default, as text */
    const char *min;
    const char *max;
    const char *
        unit; /* ENUM: "word|word"; ADDRESS: "tcp": no unix:/path; other kinds: only for the documentation */
    enum option_reload reload;
    const char *sentence;
    size_t offset; /* of the member in the config struct */
};

enum { OPTION_TEXT_MAX = 32, OPTION_REASON_MAX = 320 };

/* Sets the uninitialised member to its default. An empty default that the row refuses means that the option must be
 * given (option_missing). */
void option_init(const struct option *option, void *owner);
bool option_missing(const struct option *option, const void *owner);
/* Sets the member in `owner`. False: unchanged, and reason[size] says what was expected. */
bool option_set(const struct option *option, void *owner, struct bytes text, char *reason,
                size_t size);
/* Parses a number of the kind with its unit, as in the file: 10mb. Numbers of the kind INT may be negative: *number is then the
 * bits of an int64_t. */
bool option_number(enum option_kind kind, struct bytes text, uint64_t *number);
/* The value as a text that option_set accepts. Borrowed from `buffer` or from `owner`. */
struct bytes option_text(const struct option *option, const void *owner,
                         char buffer[OPTION_TEXT_MAX]);
bool option_equal(const struct option *option, const void *a, const void *b);
/* True when the value names a file or a directory: such options change in the configuration file only, not by CONFIG
 * SET. */
bool option_is_path(const struct option *option);
/* Frees a text member. */
void option_clear(const struct option *option, void *owner);
/* Writes what option_set accepts, for messages and documentation: "a size from 1mb to 4gb, such as 64kb or 512mb". */
void option_expected(const struct option *option, char *text, size_t size);

/* "host:port", "[v6]:port" or "unix:/path"; port 0 is allowed (the kernel chooses). */
bool address_valid(struct bytes address);
/* Takes the next word (separated by spaces or tabs) off the front of *rest; false at the end. */
bool word_next(struct bytes *rest, struct bytes *word);
