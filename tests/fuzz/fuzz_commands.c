/*
 * fuzz_commands.c - requests with any arguments to a partition in memory: each gets one whole reply, and afterwards the
 * rows agree with each other (sim_audit.h).
 *
 * Input: text; a line is a request, and spaces separate its words. %XX in a word is a byte. Lines with other commands than
 * those that Redis 7.0 does not have, and those that such commands need (HELPERS), are skipped. A line "." lets some
 * time pass.
 */
#include "backend/context/partition.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "shared/net/stream.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_audit.h"
#include "tests/sim/sim_partition.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    REQUESTS_MAX = 40,
    WORDS_MAX = 40,
    WORD_BYTES_MAX = 512,
    STEPS_MAX = 2000000,
    STRING_BYTES_MAX = 1 << 20,
    PAUSE_US = 3000 * 1000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static struct sim_partition world;
static struct sim_connection client;
static unsigned replies_left;

/* ---- which requests are sent ---- */

/* Commands that Redis 7.0 has, or with new options, for which the keys of the new ones exist. */
static const char *const HELPERS[] = {
    "set",      "get",        "del",     "expire",    "persist",        "type",     "exists",
    "hset",     "hscan",      "hgetall", "hdel",      "sadd",           "zadd",     "zrank",
    "zrevrank", "zscan",      "geoadd",  "geosearch", "geosearchstore", "bitop",    "setbit",
    "xadd",     "xtrim",      "xgroup",  "xread",     "xreadgroup",     "xpending", "xclaim",
    "xack",     "xautoclaim", "xdel",    "xinfo",     "xsetid",         "json.set", "object",
    "copy",     "rename",     "dump",    "restore",   "client|list",    "xrange",
};

static bool is_helper(const struct command *command)
{
    for (size_t i = 0; i < sizeof HELPERS / sizeof *HELPERS; i++) {
        size_t len = strlen(HELPERS[i]);
        if (strncmp(command->full_name, HELPERS[i], len) == 0 &&
            (command->full_name[len] == 0 || command->full_name[len] == '|'))
            return true;
    }
    return false;
}

static bool is_new(const struct command *command)
{
    return strtod(command->since, NULL) > 7.05 ||
           (command->traits & (TRAIT_VALKEY | TRAIT_KVROCKS)) ||
           (command->group >= GROUP_BLOOM && command->group <= GROUP_TOPK);
}

/* Without commands that end or occupy the connection, and without waiting. */
static bool may_send(const struct bytes *argv, uint32_t argc)
{
    const struct command *command = command_find_argv(argv, argc);
    for (uint32_t i = 0; i < argc; i++)
        if (bytes_is(argv[i], "block"))
            return false;
    if (!command || (command->flags & CMD_INTERNAL) || command->group == GROUP_SCREE ||
        command->id == COMMAND_waitaof)
        return false;
    return is_helper(command) || is_new(command);
}

/* ---- requests ---- */

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Copies the word to `to`, with its %XX as bytes. */
static struct bytes unescape(struct bytes word, char *to)
{
    size_t len = 0;
    for (size_t i = 0; i < word.len && len < WORD_BYTES_MAX; i++) {
        bool has_digits = word.data[i] == '%' && i + 2 < word.len &&
                          hex_digit(word.data[i + 1]) >= 0 && hex_digit(word.data[i + 2]) >= 0;
        if (has_digits) {
            to[len++] = (char)(hex_digit(word.data[i + 1]) << 4 | hex_digit(word.data[i + 2]));
            i += 2;
        } else {
            to[len++] = word.data[i];
        }
    }
    return (struct bytes){to, len};
}

/* Cuts off the text before the first `separator`. */
static struct bytes cut(struct bytes *text, char separator)
{
    const char *end = text->len ? memchr(text->data, separator, text->len) : NULL;
    size_t len = end ? (size_t)(end - text->data) : text->len;
    struct bytes part = {text->data, len};
    size_t used = len + (end != NULL);
    *text = (struct bytes){text->data + used, text->len - used};
    return part;
}

static void send_line(struct bytes line)
{
    static char words[WORDS_MAX][WORD_BYTES_MAX];
    struct bytes argv[WORDS_MAX];
    uint32_t argc = 0;
    while (line.len && argc < WORDS_MAX) {
        struct bytes word = cut(&line, ' ');
        if (word.len) {
            argv[argc] = unescape(word, words[argc]);
            argc++;
        }
    }
    if (argc == 0 || !may_send(argv, argc))
        return;
    struct out *out = stream_out(client.stream);
    out_printf(out, "*%u\r\n", argc);
    for (uint32_t i = 0; i < argc; i++) {
        out_printf(out, "$%zu\r\n", argv[i].len);
        out_write(out, argv[i].data, argv[i].len);
        out_write(out, "\r\n", 2);
    }
    stream_send(client.stream);
    replies_left++;
}

/* ---- the world ---- */

static void on_reply_frame(void *owner, struct bytes frame)
{
    (void)owner;
    (void)frame;
    CHECK(replies_left > 0);
    replies_left--;
}

static void on_client_turn(void *owner)
{
    (void)owner;
}

static void on_client_lost(void *owner)
{
    (void)owner;
    CHECK(replies_left == 0); /* the partition closes the connection when it stops */
}

static bool has_all_replies(void *owner)
{
    (void)owner;
    return replies_left == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sim_connection_events events = {
        .on_frame = on_reply_frame, .on_turn = on_client_turn, .on_lost = on_client_lost};
    struct bytes text = {(const char *)data, size};
    char why[512];
    command_init();
    log_set_level(LOG_ERROR + 1);
    replies_left = 0;
    sim_partition_init(&world, 1);
    world.config.proto_max_bulk_len_bytes = STRING_BYTES_MAX;
    sim_partition_start(&world, true);
    sim_connection_begin(&client, &world, &events, NULL);
    for (unsigned i = 0; i < REQUESTS_MAX && text.len; i++) {
        struct bytes line = cut(&text, '\n');
        if (bytes_equal(line, BYTES(".")))
            sim_run_for(PAUSE_US);
        else
            send_line(line);
        CHECK(sim_run_until(has_all_replies, NULL, STEPS_MAX));
    }
    if (!sim_audit_rows(world.partition->overlay, why, sizeof why)) {
        (void)fprintf(stderr, "%s\n", why);
        CHECK(!"rows do not agree");
    }
    sim_partition_stop(&world);
    sim_partition_fini(&world);
    return 0;
}

/* ---- mutations ---- */

/* Words that may be anywhere in a request: options, and values that are at a limit or wrong. */
static const char *const WORDS[] = {
    "a",
    "b",
    "c",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "100",
    "100000",
    "100001",
    "65536",
    "16777216",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "0.5",
    "1e-9",
    "1e308",
    "inf",
    "-inf",
    "nan",
    "0x1",
    "1-0",
    "2-0",
    "0-0",
    "18446744073709551615-1",
    "*",
    "$",
    ">",
    "+",
    "-",
    "=",
    "~",
    "(",
    "[a",
    "%00",
    "%FF%FE",
    "FIELDS",
    "FVS",
    "NX",
    "XX",
    "GT",
    "LT",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "FNX",
    "FXX",
    "GET",
    "IFEQ",
    "IFNE",
    "IFDEQ",
    "IFDNE",
    "IDS",
    "KEEPREF",
    "DELREF",
    "ACKED",
    "CLAIM",
    "MAXLEN",
    "MINID",
    "LIMIT",
    "NOMKSTREAM",
    "GROUP",
    "COUNT",
    "NOACK",
    "STREAMS",
    "WITHSCORE",
    "NOVALUES",
    "NOSCORES",
    "WITHCOUNT",
    "BYPOLYGON",
    "BYRADIUS",
    "BYBOX",
    "FROMLONLAT",
    "FROMMEMBER",
    "ANY",
    "ASC",
    "DESC",
    "STOREDIST",
    "WITHCOORD",
    "WITHDIST",
    "km",
    "m",
    "BYINT",
    "BYFLOAT",
    "LBOUND",
    "UBOUND",
    "OVERFLOW",
    "SAT",
    "FAIL",
    "ENX",
    "ERROR",
    "CAPACITY",
    "EXPANSION",
    "NONSCALING",
    "NOCREATE",
    "ITEMS",
    "WEIGHTS",
    "COMPRESSION",
    "OVERRIDE",
    "DIFF",
    "DIFF1",
    "ANDOR",
    "ONE",
    "AND",
    "slow",
    "large-request",
    "large-reply",
    "SLOTSRANGE",
    "ORDERBY",
    "key-count",
    "MAXAGE",
    "NOT-DB",
    "NAME",
    "IP",
    "\n",
    "\n.\n",
    "\nXADD",
    "\nHSET",
};

/* Puts bytes into text in the place of `len` bytes at `at`. Returns the new size. */
static size_t replace(uint8_t *data, size_t size, size_t max_size, size_t at, size_t len,
                      struct bytes word)
{
    if (size - len + word.len > max_size)
        return size;
    memmove(data + at + word.len, data + at + len, size - at - len);
    memcpy(data + at, word.data, word.len);
    return size - len + word.len;
}

/* The word or line that contains the byte at `at`: up to the separators around it. */
static struct bytes around(const uint8_t *data, size_t size, size_t at, const char *separators)
{
    size_t begin = at;
    size_t end = at;
    while (begin > 0 && !strchr(separators, data[begin - 1]))
        begin--;
    while (end < size && data[end] && !strchr(separators, data[end]))
        end++;
    return (struct bytes){(const char *)data + begin, end - begin};
}

/* Replaces, inserts, deletes or repeats a word or a line, or lets libFuzzer change bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    char copy[WORD_BYTES_MAX];
    size_t at = size ? (seed >> 8) % size : 0;
    struct bytes word = around(data, size, at, seed & 1 ? " \n" : "\n");
    size_t begin = size ? (size_t)((const uint8_t *)word.data - data) : 0;
    struct bytes fresh = bytes_of(WORDS[(seed >> 16) % (sizeof WORDS / sizeof *WORDS)]);
    switch (seed >> 1 & 7) {
    case 0:
        return LLVMFuzzerMutate(data, size, max_size);
    case 1:
        return replace(data, size, max_size, begin, word.len, BYTES(""));
    case 2:
    case 3: /* repeats a word or a line */
        word.len = word.len < sizeof copy - 1 ? word.len : sizeof copy - 1;
        copy[0] = seed & 1 ? ' ' : '\n';
        memcpy(copy + 1, word.data, word.len);
        return replace(data, size, max_size, begin + word.len, 0,
                       (struct bytes){copy, word.len + 1});
    case 4:
    case 5: /* inserts a word behind this one */
        memcpy(copy + 1, fresh.data, fresh.len);
        copy[0] = ' ';
        return replace(data, size, max_size, begin + word.len, 0,
                       (struct bytes){copy, fresh.len + 1});
    default:
        word = around(data, size, at, " \n");
        begin = size ? (size_t)((const uint8_t *)word.data - data) : 0;
        return replace(data, size, max_size, begin, word.len, fresh);
    }
}
