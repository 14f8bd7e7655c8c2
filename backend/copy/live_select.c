#include "backend/copy/live_select.h"

#include "backend/copy/cluster_nodes.h"
#include "backend/copy/selection.h"
#include "backend/copy/value_reader.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/digest.h"
#include "shared/number.h"

#include <stdio.h>
#include <stdlib.h>

static const char MIXED[] =
    "not all of its keys are copied, and those that are depend on the others";
static const char FLUSHES_OTHERS[] =
    "it would delete keys in the target that were not copied from this database";

struct choosing;

/* What a command needs that is not said by its keys. */
struct command_rule {
    const char *name;
    struct selected (*whole)(const struct choosing *choosing); /* decides alone */
    /* some of its keys are copied, and at least one of these is changed; is_copied is in the order of the keys */
    struct selected (*in_part)(const struct choosing *choosing, const bool *is_copied);
};

/* A command, and what is found out about it. */
struct choosing {
    struct selector *selector;
    const struct command *command;
    const struct command_rule *rule; /* NULL: none */
    struct bytes *words;             /* in the arena; keys get their names in the target */
    uint32_t count;
    uint64_t from; /* database at the source */
    int64_t db;    /* in the target; -1: this one is not copied */
};

/* ---- results ---- */

static struct selected nothing(void)
{
    return (struct selected){.as = SELECTED_NOTHING};
}

static struct selected refused(const char *why)
{
    return (struct selected){.as = SELECTED_REFUSED, .refusal = why};
}

static struct selected whole(const struct choosing *choosing)
{
    return (struct selected){.as = SELECTED_WHOLE, .db = (uint64_t)choosing->db};
}

static struct selected made_of(const struct choosing *choosing, const struct bytes *words,
                               uint32_t count)
{
    struct out out;
    out_init(&out);
    resp_write_words(&out, words, count);
    struct bytes frame = out_take(&out);
    struct bytes kept = arena_copy(&choosing->selector->arena, frame);
    free((char *)frame.data);
    return (struct selected){.as = SELECTED_MADE, .db = (uint64_t)choosing->db, .frame = kept};
}

/* ---- keys ---- */

static struct bytes *key_word(const struct choosing *choosing, uint32_t number)
{
    return &choosing->words[choosing->selector->keys.refs[number].index];
}

/* Is the key copied? Then the word becomes its name in the target. */
static bool choose_word(const struct choosing *choosing, struct bytes *word)
{
    return selection_key(choosing->selector->options, &choosing->selector->arena, *word, word);
}

/* DEL, UNLINK, MSET and MSETNX, without the keys that are not copied. The source executes MSETNX for all keys or none, and sends none. */
static struct selected without_others(const struct choosing *choosing, const bool *is_copied)
{
    const struct key_list *keys = &choosing->selector->keys;
    struct bytes *words = choosing->words;
    uint32_t words_of_key = keys->refs[1].index - keys->refs[0].index;
    uint32_t count = 1;
    if (keys->refs[keys->count - 1].index + words_of_key > choosing->count)
        return refused("its last key has no value");
    for (uint32_t i = 0; i < keys->count; i++) {
        if (!is_copied[i])
            continue;
        for (uint32_t j = 0; j < words_of_key; j++)
            words[count + j] = words[keys->refs[i].index + j];
        count += words_of_key;
    }
    return made_of(choosing, words, count);
}

/* `name` for the first key, if this is the one that is copied: the other would get what only the source has. */
static struct selected only_first(const struct choosing *choosing, const bool *is_copied,
                                  struct bytes name)
{
    return is_copied[0] ? made_of(choosing, (struct bytes[]){name, choosing->words[1]}, 2)
                        : refused(MIXED);
}

/* RENAME, RENAMENX */
static struct selected rename_in_part(const struct choosing *choosing, const bool *is_copied)
{
    return only_first(choosing, is_copied, BYTES("DEL"));
}

static struct selected rpoplpush_in_part(const struct choosing *choosing, const bool *is_copied)
{
    return only_first(choosing, is_copied, BYTES("RPOP"));
}

static struct selected lmove_in_part(const struct choosing *choosing, const bool *is_copied)
{
    bool is_left = bytes_is(choosing->words[3], "LEFT");
    return only_first(choosing, is_copied, is_left ? BYTES("LPOP") : BYTES("RPOP"));
}

static struct selected smove_in_part(const struct choosing *choosing, const bool *is_copied)
{
    const struct bytes *words = choosing->words;
    struct bytes name = is_copied[0] ? BYTES("SREM") : BYTES("SADD");
    return made_of(choosing, (struct bytes[]){name, words[is_copied[0] ? 1 : 2], words[3]}, 3);
}

/* Does SORT read keys that its words only describe? */
static bool reads_described_keys(const struct choosing *choosing)
{
    struct sort_arguments found;
    return choosing->command->key_rule == KEY_RULE_SORT &&
           sort_arguments_find(choosing->words, choosing->count, &found) && found.reads_others;
}

static struct selected select_by_keys(const struct choosing *choosing)
{
    struct key_list *keys = &choosing->selector->keys;
    uint32_t copied = 0;
    uint32_t changed = 0;
    if (keys_find(choosing->command, choosing->words, choosing->count, keys) < 0)
        return refused("its keys cannot be told");
    bool *is_copied = arena_alloc(&choosing->selector->arena, keys->count + 1);
    for (uint32_t i = 0; i < keys->count; i++) {
        is_copied[i] = choose_word(choosing, key_word(choosing, i));
        copied += is_copied[i];
        changed += is_copied[i] && key_is_written(&keys->refs[i]);
    }
    if (keys->count == 0)
        return whole(choosing);
    if (changed == 0)
        return nothing();
    if (reads_described_keys(choosing))
        return refused("BY and GET read keys that only a pattern names");
    if (copied == keys->count)
        return made_of(choosing, choosing->words, choosing->count);
    return choosing->rule && choosing->rule->in_part ? choosing->rule->in_part(choosing, is_copied)
                                                     : refused(MIXED);
}

/* ---- commands with a rule of their own ---- */

/* Are there, where this database is copied to, also other keys? */
static bool has_others(const struct choosing *choosing)
{
    const struct copy_options *options = choosing->selector->options;
    bool is_shared = options->to.db >= 0;
    for (unsigned i = 0; i < options->dbs.count; i++)
        is_shared |=
            options->dbs.from[i] != choosing->from && options->dbs.to[i] == (uint64_t)choosing->db;
    bool may_have_had = options->has_existing && options->existing == EXISTING_REPLACE;
    return is_shared || (choosing->selector->chooses_keys && may_have_had);
}

static struct selected select_flushdb(const struct choosing *choosing)
{
    if (choosing->db < 0)
        return nothing();
    return has_others(choosing) ? refused(FLUSHES_OTHERS) : whole(choosing);
}

static struct selected select_flushall(const struct choosing *choosing)
{
    const struct copy_options *options = choosing->selector->options;
    if (choosing->selector->chooses_keys && options->has_existing &&
        options->existing == EXISTING_REPLACE)
        return refused(FLUSHES_OTHERS);
    if (options->to.db < 0 && !options->dbs.count)
        return (struct selected){.as = SELECTED_WHOLE, .db = choosing->from};
    return (struct selected){.as = SELECTED_FLUSHES};
}

/* A key in another database: where it is copied to, or -1. `word` gets its name there. */
static int64_t place_in_db(const struct choosing *choosing, struct bytes *word, uint64_t db)
{
    int64_t to = selection_db(choosing->selector->options, db);
    return to >= 0 && choose_word(choosing, word) ? to : -1;
}

static struct bytes number_word(const struct choosing *choosing, int64_t number)
{
    char text[INT64_TEXT_MAX];
    size_t len = number_format_int64(text, number);
    return arena_copy(&choosing->selector->arena, (struct bytes){text, len});
}

/* MOVE key db. The source had no such key there. */
static struct selected select_move_command(const struct choosing *choosing)
{
    struct bytes *words = choosing->words;
    struct bytes name = words[1];
    uint64_t to_db;
    if (!number_parse_uint64(words[2], &to_db))
        return refused("its database is no number");
    int64_t from = place_in_db(choosing, &words[1], choosing->from);
    int64_t to = place_in_db(choosing, &name, to_db);
    if (from == to) /* neither is copied, or both are in one database */
        return nothing();
    if (from < 0)
        return refused(MIXED);
    if (to < 0)
        return made_of(choosing, (struct bytes[]){BYTES("DEL"), words[1]}, 2);
    words[2] = number_word(choosing, to);
    return made_of(choosing, words, choosing->count);
}

/* COPY source destination [DB db] [REPLACE] */
static struct selected select_copy(const struct choosing *choosing)
{
    struct bytes *words = choosing->words;
    uint64_t to_db = choosing->from;
    struct bytes *db_word = NULL;
    for (uint32_t i = 3; i + 1 < choosing->count; i++)
        if (bytes_is(words[i], "DB"))
            db_word = &words[i + 1];
    if (db_word && !number_parse_uint64(*db_word, &to_db))
        return refused("its database is no number");
    int64_t from = place_in_db(choosing, &words[1], choosing->from);
    int64_t to = place_in_db(choosing, &words[2], to_db);
    if (to < 0 || (from == to && bytes_equal(words[1], words[2])))
        return nothing();
    if (from < 0)
        return refused(MIXED);
    if (db_word)
        *db_word = number_word(choosing, to);
    return made_of(choosing, words, choosing->count);
}

/* Libraries belong to no database, and the target may have fewer than the source. */
static struct selected select_function(const struct choosing *choosing)
{
    struct selected anywhere = {.as = SELECTED_WHOLE};
    return choosing->selector->options->has_functions ? anywhere : nothing();
}

static struct selected select_script(const struct choosing *choosing)
{
    if (choosing->db < 0)
        return nothing();
    return choosing->selector->chooses_keys ? refused("which keys a script changes is not known")
                                            : whole(choosing);
}

static const struct command_rule rules[] = {
    {"copy", select_copy, NULL},
    {"del", NULL, without_others},
    {"eval", select_script, NULL},
    {"evalsha", select_script, NULL},
    {"fcall", select_script, NULL},
    {"flushall", select_flushall, NULL},
    {"flushdb", select_flushdb, NULL},
    {"function|delete", select_function, NULL},
    {"function|flush", select_function, NULL},
    {"function|load", select_function, NULL},
    {"function|restore", select_function, NULL},
    {"lmove", NULL, lmove_in_part},
    {"move", select_move_command, NULL},
    {"mset", NULL, without_others},
    {"msetnx", NULL, without_others},
    {"rename", NULL, rename_in_part},
    {"renamenx", NULL, rename_in_part},
    {"rpoplpush", NULL, rpoplpush_in_part},
    {"smove", NULL, smove_in_part},
    {"unlink", NULL, without_others},
};

/* NULL: it has no rule of its own. */
static const struct command_rule *rule_for(const struct command *command)
{
    for (unsigned i = 0; i < COUNT_OF(rules); i++)
        if (strcmp(rules[i].name, command->full_name) == 0)
            return &rules[i];
    return NULL;
}

static struct selected select_command(const struct choosing *choosing)
{
    if (choosing->rule && choosing->rule->whole)
        return choosing->rule->whole(choosing);
    if (choosing->db < 0)
        return nothing();
    return choosing->selector->chooses_keys ? select_by_keys(choosing) : whole(choosing);
}

/* ---- a frame ---- */

static bool read_command_words(struct choosing *choosing, struct bytes frame)
{
    size_t at = 0;
    uint64_t count = values_count(frame, &at);
    if (count == 0 || count > frame.len)
        return false;
    choosing->words = arena_alloc(&choosing->selector->arena, count * sizeof *choosing->words);
    choosing->count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++)
        choosing->words[i] = value_text(frame, &at);
    return true;
}

struct selected selector_take(struct selector *selector, struct bytes frame, uint64_t db)
{
    struct choosing choosing = {.selector = selector, .from = db};
    if (selector->has_all)
        return (struct selected){.as = SELECTED_WHOLE, .db = db};
    choosing.db = selection_db(selector->options, db);
    if (!read_command_words(&choosing, frame))
        return refused("it has no words");
    choosing.command = command_find_argv(choosing.words, choosing.count);
    if (!choosing.command || !command_arity_ok(choosing.command, choosing.count))
        return choosing.db < 0 ? nothing() : refused("it is unknown, so its keys are, too");
    choosing.rule = rule_for(choosing.command);
    return select_command(&choosing);
}

bool selector_has_own_slots(struct selector *selector, struct bytes frame)
{
    const struct cluster_slots *slots = selector->options->from.seeds.slots;
    struct choosing choosing = {.selector = selector};
    struct key_list *keys = &selector->keys;
    if (!read_command_words(&choosing, frame))
        return true;
    choosing.command = command_find_argv(choosing.words, choosing.count);
    if (!choosing.command || !command_arity_ok(choosing.command, choosing.count) ||
        keys_find(choosing.command, choosing.words, choosing.count, keys) < 0)
        return true; /* it will be refused, and named */
    for (uint32_t i = 0; i < keys->count; i++)
        if (!cluster_slots_have(slots, slot_of(*key_word(&choosing, i))))
            return false;
    return true;
}

bool selector_writes_db(const struct selector *selector, uint64_t db)
{
    const struct copy_options *options = selector->options;
    if (options->to.db >= 0)
        return (uint64_t)options->to.db == db;
    for (unsigned i = 0; i < options->dbs.count; i++)
        if (options->dbs.to[i] == db)
            return true;
    return options->dbs.count == 0;
}

/* ---- create and free ---- */

static void write_globs(struct out *out, char sign, const struct copy_globs *globs)
{
    for (unsigned i = 0; i < globs->count; i++) {
        out_printf(out, "%c%zu:", sign, globs->all[i].len);
        out_write(out, globs->all[i].data, globs->all[i].len);
    }
}

/* Two selections have one name if they select the same. */
static void name_selection(struct selector *selector)
{
    const struct copy_options *options = selector->options;
    char digest[SHA256_HEX_LEN];
    struct out out;
    out_init(&out);
    for (unsigned i = 0; i < options->dbs.count; i++)
        out_printf(&out, "%llu=%llu,", (unsigned long long)options->dbs.from[i],
                   (unsigned long long)options->dbs.to[i]);
    out_printf(&out, "/%lld %d", (long long)options->to.db, options->has_functions);
    write_globs(&out, '+', &options->match);
    write_globs(&out, '-', &options->skip);
    if (selector->chooses_keys && options->has_existing && options->existing == EXISTING_REPLACE)
        out_printf(&out, "!"); /* then a flush would delete keys that were not copied */
    out_printf(&out, "<%zu:%.*s>%.*s", options->strip.len, (int)options->strip.len,
               options->strip.data, (int)options->add.len, options->add.data);
    struct bytes text = out_take(&out);
    sha256_hex(text, digest);
    free((char *)text.data);
    (void)snprintf(selector->name, sizeof selector->name, "%.*s", SELECTION_NAME_LEN, digest);
}

void selector_init(struct selector *selector, const struct copy_options *options)
{
    *selector = (struct selector){.options = options};
    selector->chooses_keys =
        options->match.count || options->skip.count || options->strip.len || options->add.len;
    selector->has_all = !selector->chooses_keys && !options->dbs.count && options->to.db < 0 &&
                        options->has_functions;
    arena_init(&selector->arena);
    keys_list_init(&selector->keys);
    if (!selector->has_all)
        name_selection(selector);
}

void selector_fini(struct selector *selector)
{
    arena_fini(&selector->arena);
    keys_list_fini(&selector->keys);
}
