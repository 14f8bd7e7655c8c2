#include "proxy/local/shards_config.h"

#include "config/config.h"
#include "config/schema.h"
#include "proxy/core/merge.h"
#include "shared/check.h"
#include "shared/resp.h"

#include <stdlib.h>

enum { VALUE_SHOWN_MAX = 128, NAMED_MAX = 8 /* shards in a list of values */ };

/* A shard's reply, and the pair that is read next. */
struct answer {
    const char *shard;
    struct bytes frame;
    size_t at;
    struct bytes value; /* of the pair that was read last */
    bool is_read;       /* its pairs are those of the first answer */
};

struct answers {
    struct answer *items;
    uint32_t count;
};

static bool next_pair(struct answer *answer, struct bytes *name)
{
    struct resp_value key;
    struct resp_value value;
    if (!resp_value_next(answer->frame, &answer->at, &key) ||
        !resp_value_next(answer->frame, &answer->at, &value))
        return false;
    *name = key.text;
    answer->value = value.text;
    return true;
}

/* Begins to read the replies of all shards that have answered; returns the number of pairs of the first. */
static int64_t open_answers(const struct request *request, struct answers *answers)
{
    uint32_t count = request_reply_count(request);
    int64_t pairs = 0;
    answers->items = calloc(count + 1, sizeof *answers->items);
    CHECK(answers->items);
    for (uint32_t i = 0; i < count; i++) {
        const struct shard_reply *reply = request_reply(request, i);
        struct answer *answer = &answers->items[answers->count];
        struct resp_value head;
        *answer = (struct answer){.shard = reply->shard, .frame = reply->frame, .is_read = true};
        if (reply->is_failure || !resp_value_next(answer->frame, &answer->at, &head) ||
            (head.type != '*' && head.type != '%'))
            continue;
        if (answers->count++ == 0)
            pairs = head.type == '%' ? head.count : head.count / 2;
    }
    return pairs;
}

/* Reads the next pair of all answers. A shard with another version of the program may have other options: from the first
 * difference on, it is not compared. */
static bool next_option(struct answers *answers, struct bytes *name)
{
    struct bytes other;
    if (!next_pair(&answers->items[0], name))
        return false;
    for (uint32_t i = 1; i < answers->count; i++) {
        struct answer *answer = &answers->items[i];
        answer->is_read = answer->is_read && next_pair(answer, &other) && bytes_equal(*name, other);
    }
    return true;
}

/* Should the option have one value at all shards, so that different values are an error? */
static bool is_common(struct bytes name)
{
    for (size_t i = 0; i < backend_schema.option_count; i++) {
        const struct option *option = &backend_schema.options[i];
        if (bytes_is(name, option->key))
            return option->reload != OPTION_RESTART && !option_is_path(option);
    }
    return !bytes_is(name, "dir");
}

static bool has_one_value(const struct answers *answers)
{
    for (uint32_t i = 1; i < answers->count; i++)
        if (answers->items[i].is_read &&
            !bytes_equal(answers->items[i].value, answers->items[0].value))
            return false;
    return true;
}

/* "1" at a, "2" at b and 3 more */
static void list_values(const struct answers *answers, struct out *out)
{
    for (uint32_t i = 0; i < answers->count && i < NAMED_MAX; i++) {
        const struct answer *answer = &answers->items[i];
        size_t len = answer->value.len < VALUE_SHOWN_MAX ? answer->value.len : VALUE_SHOWN_MAX;
        out_printf(out, "%s\"%.*s\" at %s", i ? ", " : "", (int)len, answer->value.data,
                   answer->shard);
    }
    if (answers->count > NAMED_MAX)
        out_printf(out, " and %u more", answers->count - NAMED_MAX);
}

static bool is_named(const struct request *request, struct bytes name)
{
    const struct bytes *argv = request_argv(request);
    for (uint32_t i = 2; i < request_argc(request); i++)
        if (argv[i].len == name.len && strncasecmp(argv[i].data, name.data, name.len) == 0)
            return true;
    return false;
}

static void reply_differ(const struct answers *answers, struct bytes name, struct reply *reply)
{
    struct out text;
    out_init(&text);
    out_printf(&text, "ERR the shards have different values of '%.*s': ", (int)name.len, name.data);
    list_values(answers, &text);
    out_printf(&text, ". CONFIG SET gives all of them one value");
    struct bytes error = out_take(&text);
    reply_error(reply, error.data);
    free((char *)error.data);
}

static void write_pair(const struct answers *answers, struct bytes name, bool is_one,
                       struct reply *pairs)
{
    struct out text;
    reply_bulk(pairs, name);
    if (is_one) {
        reply_bulk(pairs, answers->items[0].value);
        return;
    }
    out_init(&text);
    list_values(answers, &text);
    reply_bulk_begin(pairs, (int64_t)text.bytes);
    out_move(pairs->out, &text);
    reply_bulk_end(pairs);
}

int64_t shards_config_write(struct client *client, struct request *request, own_option_fn *is_own,
                            struct reply *reply, struct reply *pairs)
{
    struct answers answers = {0};
    struct bytes name;
    int64_t found = 0;
    for (int64_t left = open_answers(request, &answers); left > 0 && found >= 0; left--) {
        if (!next_option(&answers, &name))
            break;
        if (is_own && is_own(client, name))
            continue;
        bool is_one = !is_common(name) || has_one_value(&answers);
        if (!is_one && is_named(request, name)) {
            reply_differ(&answers, name, reply);
            found = -1;
            break;
        }
        write_pair(&answers, name, is_one, pairs);
        found++;
    }
    free(answers.items);
    return found;
}
