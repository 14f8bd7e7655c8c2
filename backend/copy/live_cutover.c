/*
 * live_cutover.c - ends a live copy: from one moment on the source takes no writes, and the target has all of them.
 *
 *   follow until nothing is missing ─► fence ─► INFO: master_repl_offset ─► follow up to there ─► the row is deleted ─► done
 *                                        │            (a write is before it, or was refused)          │
 *                                        └──────── anything fails, or takes too long: fence lifted ◄──┘
 *
 * The fence is at the source, so that also clients that are not listed anywhere get an error instead of a lost write: each user's rules end with
 * -@write, and all clients are disconnected. The rules before are kept, to lift it. It holds until the source is started again.
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

static bool fence_rule(struct source_client *source, struct bytes line)
{
    struct bytes words[] = {BYTES("ACL"), BYTES("SETUSER"), {NULL, 0}, BYTES("-@write")};
    (void)next_word_of_rule(&line);
    (void)next_word_of_rule(&line);
    words[2] = next_word_of_rule(&line);
    return live_call(&source->client, words, COUNT_OF(words));
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

/* ---- the fence ---- */

/* Reads the rules, or those that an interrupted cut-over has left in the spool, and keeps them there. */
static bool read_rules(struct source_client *source, struct spool *spool)
{
    if (!live_call(&source->client, (struct bytes[]){BYTES("ACL"), BYTES("LIST")}, 2))
        return false;
    source->rules = spool_rules(spool);
    if (source->rules)
        return true;
    source->rules = lines_of_rules(source->client.link.reply);
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

/* The position of the source now. */
static bool read_position(struct source_client *source, uint64_t *position)
{
    static const char name[] = "master_repl_offset:";
    size_t at = 0;
    if (!live_call(&source->client, (struct bytes[]){BYTES("INFO"), BYTES("replication")}, 2))
        return false;
    struct bytes text = value_text(source->client.link.reply, &at);
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
    return live->report.refused == 0 ||
           live_fail(live, EXIT_REFUSED, "commands were refused", "the source is not given up");
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

void live_cut_over(struct live *live)
{
    struct source_client source;
    client_init(&source, live);
    if (!live_connect(&source.client) || !read_rules(&source, &live->spool)) {
        (void)client_failed(live, &source);
    } else if (has_no_refusals(live)) {
        uint64_t start_ms = clock_mono_us() / 1000;
        client_may_wait(&source, live->options->pause_ms);
        if (finish_cut_over(live, &source))
            report_say(&live->report,
                       "scree-copy: the target has every write of the source, which refuses "
                       "writes since %" PRIu64 " ms; to lift this: redis-cli < %s",
                       clock_mono_us() / 1000 - start_ms, live->spool.rules);
        else
            lift_fence(live, &source);
    }
    client_fini(&source);
}
