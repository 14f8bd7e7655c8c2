#include "backend/live/live_fence.h"

#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIFT_MS = 10 * 1000 };

void client_may_wait(struct source_client *source, uint64_t wait_ms)
{
    source->client.goal.end = LIVE_POSITION;
    source->client.goal.until_ms = clock_mono_us() / 1000 + wait_ms;
}

void client_init(struct source_client *source, const struct live *live, const char *address,
                 const char *name)
{
    *source = (struct source_client){.rules = NULL};
    source->client.options = &source->client.target;
    source->client.target = *live->options;
    source->client.target.to = live->options->from;
    source->client.target.to.needs_no_select = true;
    source->client.target.lanes = 1;
    (void)snprintf(source->client.target.to.address, COPY_ADDRESS_MAX, "%s", address);
    (void)snprintf(source->name, sizeof source->name, "%s", name);
    live_link_init(&source->client, live->link.loop);
    client_may_wait(source, live->options->pause_ms);
}

void client_fini(struct source_client *source)
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

bool client_read_rules(struct source_client *source, struct spool *spool)
{
    if (!live_call(&source->client, (struct bytes[]){BYTES("ACL"), BYTES("LIST")}, 2))
        return false;
    char *kept = spool_rules(spool, source->name);
    char *now = lines_of_rules(source->client.link.reply);
    source->rules = merge_rules(now, kept ? kept : "");
    source->was_fenced = kept != NULL;
    free(now);
    free(kept);
    if (spool_keep_rules(spool, source->name, source->rules))
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

bool client_fence(struct source_client *source)
{
    return for_each_rule(source, fence_rule) && disconnect_clients(source);
}

static void say_lift(const struct source_client *source, struct live *live)
{
    char path[SPOOL_PATH_MAX];
    spool_rules_path(&live->spool, source->name, path);
    report_say(&live->report,
               "scree-copy: THE SOURCE%s%s STILL REFUSES WRITES, and cannot be reached; to lift "
               "this: redis-cli < %s",
               *source->name ? " " : "", source->name, path);
}

void client_lift_fence(struct source_client *source, struct live *live)
{
    client_may_wait(source, LIFT_MS);
    bool is_connected = source->client.link.lanes && !source->client.link.is_broken &&
                        !source->client.link.is_given_up;
    if ((!is_connected && !live_connect(&source->client)) || !for_each_rule(source, restore_rule)) {
        say_lift(source, live);
        return;
    }
    spool_drop_rules(&live->spool, source->name);
    report_say(&live->report, "scree-copy: the source%s%s takes writes again",
               *source->name ? " " : "", source->name);
}

void client_forget_rules(struct source_client *source, struct live *live)
{
    if (source->was_fenced)
        client_lift_fence(source, live);
    else if (source->rules)
        spool_drop_rules(&live->spool, source->name);
}

/* ---- replication ---- */

static bool read_replication(struct source_client *source, struct bytes *text)
{
    size_t at = 0;
    if (!live_call(&source->client, (struct bytes[]){BYTES("INFO"), BYTES("replication")}, 2))
        return false;
    *text = value_text(source->client.link.reply, &at);
    return true;
}

static bool says_slave(struct bytes text)
{
    static const char slave[] = "role:slave";
    return memmem(text.data, text.len, slave, strlen(slave)) != NULL;
}

bool client_is_master(struct source_client *source, bool *is_master)
{
    struct bytes text;
    if (!read_replication(source, &text))
        return false;
    *is_master = !says_slave(text);
    return true;
}

static bool client_says(struct source_client *source, const char *reason)
{
    (void)snprintf(source->client.link.error, sizeof source->client.link.error, "%s: %s",
                   source->client.target.to.address, reason);
    return false;
}

/* The value of a line of INFO, "name:value". False: there is none. */
static bool info_line_value(struct bytes text, const char *name, struct bytes *value)
{
    const char *found = memmem(text.data, text.len, name, strlen(name));
    const char *start = found ? found + strlen(name) : NULL;
    const char *end = start ? memchr(start, '\r', text.len - (size_t)(start - text.data)) : NULL;
    if (end)
        *value = (struct bytes){start, (size_t)(end - start)};
    return end != NULL;
}

bool client_point(struct source_client *source, struct source_point *point)
{
    struct bytes text;
    struct bytes id;
    struct bytes position;
    if (!read_replication(source, &text))
        return false;
    if (says_slave(text))
        return client_says(source, "it was the master, and is a replica now");
    if (!info_line_value(text, "master_replid:", &id) || id.len != REPLICATION_ID_BYTES ||
        !info_line_value(text, "master_repl_offset:", &position) ||
        !number_parse_uint64(position, &point->position))
        return client_says(source, "INFO replication has no master_replid or master_repl_offset");
    memcpy(point->id, id.data, id.len);
    point->id[id.len] = '\0';
    return true;
}
