/*
 * live_cutover.c - ends a live copy: from one moment on the source takes no writes, and the target has all of them.
 *
 *   follow until nothing is missing ─► fence ─► INFO: master_repl_offset ─► follow up to there ─► the row is deleted ─► done
 *                                        │            (a write is before it, or was refused)          │
 *                                        └──────── anything fails, or takes too long: fence lifted ◄──┘
 *
 * The fence is at the source, so that also clients that are not listed anywhere get an error instead of a lost write: each user's rules end with
 * -@write, those of each selector too, and all clients are disconnected. The rules before are kept, to lift it. It holds until the source is
 * started again. A source that is a replica cannot be fenced: its master would go on.
 */
#include "backend/copy/live.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIFT_MS = 10 * 1000 };

/* A connection to the source, as a client. */
struct source_client {
    struct live client; /* only its link is used */
    char *rules;        /* a line for each user: ACL SETUSER name reset …; owned */
};

static bool client_failed(struct live *live, const struct source_client *source)
{
    return live_fail(live, EXIT_SOURCE, source->client.link.error, "");
}

/* Replies of the source may take so long. */
static void client_may_wait(struct source_client *source, uint64_t wait_ms)
{
    source->client.goal.end = LIVE_POSITION;
    source->client.goal.until_ms = clock_mono_us() / 1000 + wait_ms;
}

static void client_init(struct source_client *source, const struct live *live)
{
    *source = (struct source_client){.rules = NULL};
    source->client.options = &source->client.target;
    source->client.target = *live->options;
    source->client.target.to = live->options->from;
    source->client.target.lanes = 1;
    live_link_init(&source->client, live->link.loop);
    client_may_wait(source, live->options->pause_ms);
}

static void client_fini(struct source_client *source)
{
    live_link_fini(&source->client);
    free(source->rules);
}

/* ---- rules ---- */

static struct bytes next_word_of_rule(struct bytes *rest)
{
    const char *space = rest->len ? memchr(rest->data, ' ', rest->len) : NULL;
    size_t len = space ? (size_t)(space - rest->data) : rest->len;
    struct bytes word = {rest->data, len};
    size_t used = space ? len + 1 : len;
    *rest = (struct bytes){rest->data + used, rest->len - used};
    return word;
}

/* Executes the line: the user has these rules again, and no others. */
static bool restore_rule(struct source_client *source, struct bytes line)
{
    struct bytes *words = malloc((line.len + 1) * sizeof *words);
    uint32_t count = 0;
    CHECK(words);
    while (line.len > 0)
        words[count++] = next_word_of_rule(&line);
    bool is_good = live_call(&source->client, words, count);
    free(words);
    return is_good;
}

/* Writes the words of the selectors, "(~a* +get +set)", each with -@write at its end. Returns their number. */
static uint32_t fence_selectors(struct bytes rules, struct bytes *words)
{
    uint32_t count = 0;
    bool is_in = false;
    while (rules.len > 0) {
        struct bytes word = next_word_of_rule(&rules);
        is_in |= word.len && *word.data == '(';
        if (!is_in)
            continue;
        bool is_last = word.len && word.data[word.len - 1] == ')';
        if (count == 0)
            words[count++] = BYTES("clearselectors");
        words[count++] = (struct bytes){word.data, word.len - is_last};
        if (is_last)
            words[count++] = BYTES("-@write)");
        is_in = !is_last;
    }
    return count;
}

static bool fence_rule(struct source_client *source, struct bytes line)
{
    struct bytes *words = malloc((4 + 2 * (line.len + 1)) * sizeof *words);
    CHECK(words);
    for (uint32_t i = 0; i < 3; i++)
        words[i] = next_word_of_rule(&line); /* ACL SETUSER name */
    words[3] = BYTES("-@write");
    bool is_good = live_call(&source->client, words, 4 + fence_selectors(line, words + 4));
    free(words);
    return is_good;
}

/* Calls it for each user's line. False: one has failed. */
static bool for_each_rule(struct source_client *source,
                          bool (*handle)(struct source_client *, struct bytes))
{
    bool is_good = true;
    for (const char *line = source->rules; *line; line += strcspn(line, "\n") + 1)
        is_good = handle(source, (struct bytes){line, strcspn(line, "\n")}) && is_good;
    return is_good;
}

/* Makes lines of the reply to ACL LIST, "user alice on #… ~* +@all". */
static char *lines_of_rules(struct bytes reply)
{
    size_t at = 0;
    uint64_t count = values_count(reply, &at);
    char *lines = malloc(reply.len + count * strlen("ACL SETUSER  reset \n") + 1);
    CHECK(lines);
    char *end = lines;
    for (; count > 0; count--) {
        struct bytes rule = value_text(reply, &at);
        (void)next_word_of_rule(&rule);
        struct bytes name = next_word_of_rule(&rule);
        end += sprintf(end, "ACL SETUSER %.*s reset %.*s\n", (int)name.len, name.data,
                       (int)rule.len, rule.data);
    }
    *end = '\0';
    return lines;
}

/* The line of the same user, with its end; an empty one: there is none. */
static struct bytes line_of_user(const char *lines, struct bytes line)
{
    const char *end = memmem(line.data, line.len, " reset ", strlen(" reset "));
    size_t head = (size_t)(end - line.data) + strlen(" reset ");
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        if (strncmp(lines, line.data, head) == 0)
            return (struct bytes){lines, strcspn(lines, "\n") + 1};
    return BYTES("");
}

/* The lines of the users that there are now, with the rules that an interrupted cut-over has kept, if it knew the user. */
static char *merge_rules(const char *now, const char *kept)
{
    char *lines = malloc(strlen(now) + strlen(kept) + 1);
    CHECK(lines);
    char *end = lines;
    for (const char *at = now; *at; at += strcspn(at, "\n") + 1) {
        struct bytes line = {at, strcspn(at, "\n") + 1};
        struct bytes before = line_of_user(kept, line);
        (void)bytes_copy_to(&end, before.len ? before : line);
    }
    *end = '\0';
    return lines;
}

/* ---- the fence ---- */

/* Reads the rules of all users, and keeps them in the spool. */
static bool read_rules(struct source_client *source, struct spool *spool)
{
    if (!live_call(&source->client, (struct bytes[]){BYTES("ACL"), BYTES("LIST")}, 2))
        return false;
    char *kept = spool_rules(spool);
    char *now = lines_of_rules(source->client.link.reply);
    source->rules = merge_rules(now, kept ? kept : "");
    free(now);
    free(kept);
    if (spool_keep_rules(spool, source->rules))
        return true;
    (void)snprintf(source->client.link.error, sizeof source->client.link.error, "%s", spool->error);
    return false;
}

static bool disconnect_clients(struct source_client *source)
{
    struct bytes words[] = {BYTES("CLIENT"), BYTES("KILL"),   BYTES("TYPE"),
                            BYTES("normal"), BYTES("SKIPME"), BYTES("yes")};
    return live_call(&source->client, words, COUNT_OF(words));
}

static bool read_replication(struct source_client *source, struct bytes *text)
{
    size_t at = 0;
    if (!live_call(&source->client, (struct bytes[]){BYTES("INFO"), BYTES("replication")}, 2))
        return false;
    *text = value_text(source->client.link.reply, &at);
    return true;
}

/* The position of the source now. */
static bool read_position(struct source_client *source, uint64_t *position)
{
    static const char name[] = "master_repl_offset:";
    struct bytes text;
    if (!read_replication(source, &text))
        return false;
    const char *found = memmem(text.data, text.len, name, strlen(name));
    const char *digits = found ? found + strlen(name) : NULL;
    const char *end = digits ? memchr(digits, '\r', text.len - (size_t)(digits - text.data)) : NULL;
    return end && number_parse_uint64((struct bytes){digits, (size_t)(end - digits)}, position);
}

static void lift_fence(struct live *live, struct source_client *source)
{
    client_may_wait(source, LIFT_MS);
    bool is_connected = !source->client.link.is_broken && !source->client.link.is_given_up;
    if ((is_connected || live_connect(&source->client)) && for_each_rule(source, restore_rule)) {
        spool_drop_rules(&live->spool);
        report_say(&live->report, "scree-copy: the source takes writes again");
        return;
    }
    report_say(&live->report,
               "scree-copy: THE SOURCE STILL REFUSES WRITES, and cannot be reached; to lift this: "
               "redis-cli < %s",
               live->spool.rules);
}

/* ---- the end ---- */

/* The transaction that is open deletes the row, unless another tool has changed it. */
static bool delete_live_row(struct live *live)
{
    struct bytes words[] = {BYTES("DEL"), bytes_of(live->row_name)};
    size_t at = 0;
    return live_call(live, words, 2) && live_call(live, (struct bytes[]){BYTES("EXEC")}, 1) &&
           values_count(live->link.reply, &at) > 0;
}

static bool has_no_refusals(struct live *live)
{
    char hint[LIVE_ERROR_MAX];
    (void)snprintf(hint, sizeof hint,
                   "the source is not given up. verify says what differs; HSET %s refused 0, sent "
                   "to the target, forgets them",
                   live->row_name);
    return live->row.refused == 0 ||
           live_fail(live, EXIT_REFUSED, "commands were refused since the copy began", hint);
}

/* Follows up to what the source had when it was fenced, and ends the copy. */
static bool finish_cut_over(struct live *live, struct source_client *source)
{
    if (!for_each_rule(source, fence_rule) || !disconnect_clients(source) ||
        !read_position(source, &live->goal.position))
        return client_failed(live, source);
    live->goal.end = LIVE_POSITION;
    live->goal.until_ms = source->client.goal.until_ms;
    live_apply(live);
    if (live->exit != EXIT_DONE || live->is_stopped || !has_no_refusals(live))
        return false;
    return delete_live_row(live) ||
           live_fail(live, EXIT_TARGET, "the row of the live copy could not be deleted",
                     live->link.error);
}

/* Can the source be fenced? */
static bool is_master(struct live *live, struct source_client *source)
{
    static const char slave[] = "role:slave";
    struct bytes text;
    if (!read_replication(source, &text))
        return client_failed(live, source);
    return !memmem(text.data, text.len, slave, strlen(slave)) ||
           live_fail(live, EXIT_SOURCE, live->options->from.address,
                     "it is a replica, whose master would go on to take writes: cut over at the "
                     "master");
}

static bool prepare_cut_over(struct live *live, struct source_client *source)
{
    if (!live_connect(&source->client))
        return client_failed(live, source);
    if (!has_no_refusals(live) || !is_master(live, source))
        return false;
    return read_rules(source, &live->spool) || client_failed(live, source);
}

void live_cut_over(struct live *live)
{
    struct source_client source;
    client_init(&source, live);
    if (prepare_cut_over(live, &source)) {
        uint64_t start_ms = clock_mono_us() / 1000;
        client_may_wait(&source, live->options->pause_ms);
        if (finish_cut_over(live, &source)) {
            spool_end_rules(&live->spool);
            report_say(&live->report,
                       "scree-copy: the target has every write of the source, which refuses "
                       "writes since %" PRIu64 " ms; to lift this: redis-cli < %s",
                       clock_mono_us() / 1000 - start_ms, live->spool.rules);
        } else {
            lift_fence(live, &source);
        }
    }
    client_fini(&source);
}
