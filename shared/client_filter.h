/*
 * client_filter.h - the filters of CLIENT LIST and CLIENT KILL: which connections they concern.
 *
 *   ADDR 1.2.3.4:5 NOT-USER joe ID 7 8 ──parse──► conditions ──client_filter_matches(facts of a client)──► yes or no
 *
 * A client matches when it meets all conditions; of several IDs it needs one. A filter is one block of memory, so that it can be
 * copied to other threads.
 */
#pragma once

#include "shared/bytes.h"
#include "shared/reply.h"

/* What a filter may ask of a client. Texts are borrowed; NULL is an empty text. */
struct client_facts {
    uint64_t id;
    uint64_t age_s;
    uint64_t idle_s;
    uint32_t db;
    bool is_subscriber;
    const char *addr;
    const char *laddr;
    const char *flags;
    const char *name;
    const char *lib_name;
    const char *lib_version;
    struct bytes user;
};

struct client_filter;

/* What the command allows. */
struct client_filter_rules {
    bool skips_me;   /* without SKIPME the client of the command does not match */
    bool may_repeat; /* the arguments of ID may be several; those of NOT-ID always may */
    uint32_t databases;
    /* does the user exist? NULL: USER takes any name */
    bool (*is_user)(const void *owner, struct bytes name);
    const void *owner;
};

/* Parses argv[from, argc). NULL: an error was replied. Free the filter with free(). */
struct client_filter *client_filter_parse(const struct bytes *argv, uint32_t argc, uint32_t from,
                                          const struct client_filter_rules *rules,
                                          struct reply *reply);
/* A filter that only asks for an address. */
struct client_filter *client_filter_of_addr(struct bytes addr);
size_t client_filter_size(const struct client_filter *filter);
/* Does the filter leave out the client of the command? */
bool client_filter_skips_me(const struct client_filter *filter);
bool client_filter_matches(const struct client_filter *filter, const struct client_facts *facts);
