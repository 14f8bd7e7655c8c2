#include "backend/copy/survey.h"

#include "backend/copy/cluster_nodes.h"
#include "backend/copy/kvrocks.h"
#include "backend/copy/selection.h"
#include "shared/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool survey_knows_module(const char *name)
{
    return strcmp(name, type_rows[TYPE_JSON].name) == 0 ||
           strcmp(name, type_rows[TYPE_SORTEDINT].name) == 0;
}

static void count_type(struct survey *survey, const char *name)
{
    struct survey_count *row = survey->types;
    struct survey_count *last = row + SURVEY_NAMES_MAX - 1;
    while (row < last && *row->name && strcmp(row->name, name) != 0)
        row++;
    (void)snprintf(row->name, sizeof row->name, "%s", row == last ? "others" : name);
    row->count++;
}

/* A value of a module: "ReJSON-RL", or why it is refused. */
static void count_module(struct survey *survey, const char *module)
{
    char name[SURVEY_TEXT_MAX];
    const char *reason = kvrocks_refusal(module);
    bool is_known = survey_knows_module(module);
    (void)snprintf(name, sizeof name, "%s%s", reason ? reason : module,
                   is_known ? ""
                   : reason ? ": refused"
                            : " (of a module whose values Scree cannot read: refused)");
    count_type(survey, name);
    survey->unknown_modules += !is_known;
}

static void count_db(struct survey *survey, uint64_t db)
{
    for (unsigned i = survey->db_count; i > 0; i--)
        if (survey->dbs[i - 1] == db)
            return;
    if (survey->db_count < COPY_DBS_MAX)
        survey->dbs[survey->db_count++] = db;
}

static void keep_first(struct survey *survey, struct bytes name)
{
    if (survey->first_key.data)
        return;
    char *copy = malloc(name.len + 1);
    CHECK(copy);
    char *end = copy;
    survey->first_key = bytes_copy_to(&end, name);
}

static void count_file_key(struct survey *survey, const struct copy_options *options,
                           struct rdb_input *input, const struct rdb_item *item)
{
    const struct cluster_slots *slots = options->from.seeds.slots;
    struct bytes name;
    int64_t db = selection_db(options, input->file.db);
    survey->strays += slots && !cluster_slots_have(slots, slot_of(item->key));
    if (db < 0 || !selection_key(options, &input->arena, item->key, &name))
        return;
    survey->keys++;
    survey->in_parts += item->kind == RDB_KEY_BEGIN;
    if (item->value.len > survey->longest)
        survey->longest = item->value.len;
    if (*item->module)
        count_module(survey, item->module);
    else
        count_type(survey, rdb_item_type(&input->file, item));
    count_db(survey, (uint64_t)db);
    keep_first(survey, name);
}

/* redis-ver, valkey-ver: 7.0.15; kvrocks: cluster mode */
static void note_writer(struct survey *survey, const struct rdb_item *item)
{
    survey->is_kvrocks |= bytes_is(item->key, "kvrocks");
    const char *program = bytes_is(item->key, "redis-ver")    ? "redis"
                          : bytes_is(item->key, "valkey-ver") ? "valkey"
                          : survey->is_kvrocks                ? "Kvrocks,"
                                                              : NULL;
    if (program)
        (void)snprintf(survey->writer, sizeof survey->writer, "%s %.*s", program,
                       (int)(item->value.len < 32 ? item->value.len : 32), item->value.data);
}

static void count_module_data(struct survey *survey, const struct rdb_item *item)
{
    char name[SURVEY_TEXT_MAX];
    (void)snprintf(name, sizeof name, "data of module %s that belong to no key: left out",
                   item->module);
    count_type(survey, name);
    survey->module_data++;
}

static void count_item(struct survey *survey, const struct copy_options *options,
                       struct rdb_input *input, const struct rdb_item *item)
{
    if (item->kind == RDB_KEY || item->kind == RDB_KEY_BEGIN)
        count_file_key(survey, options, input, item);
    else if (item->kind == RDB_AUX)
        note_writer(survey, item);
    else if (item->kind == RDB_MODULE)
        count_module_data(survey, item);
    else if (item->kind == RDB_FUNCTION)
        count_type(survey, "libraries of functions");
}

enum copy_exit survey_read(struct survey *survey, const struct copy_options *options,
                           struct copy_report *report, size_t part_max)
{
    struct rdb_input input;
    struct rdb_item item;
    enum input_result found = INPUT_BAD;
    *survey = (struct survey){.version = 0};
    if (rdb_input_open_source(&input, options, part_max)) {
        report->size = input.size;
        while ((found = rdb_input_next(&input, &item)) == INPUT_ITEM) {
            count_item(survey, options, &input, &item);
            report->offset = input.offset;
            report_progress(report, "read");
        }
    }
    survey->version = input.file.version;
    report->offset = input.offset;
    if (found == INPUT_BAD)
        report_say(report, "scree-copy: %s", input.error);
    if (survey->strays)
        report_say(
            report,
            "scree-copy: %s has keys of slots of other masters: begin when no slots are moved",
            options->from.address);
    rdb_input_close(&input);
    return found == INPUT_BAD || survey->strays ? EXIT_SOURCE : EXIT_DONE;
}

void survey_fini(struct survey *survey)
{
    free((char *)survey->first_key.data);
}

void survey_print(const struct survey *survey)
{
    if (survey->is_kvrocks)
        (void)printf("directory of %s: %" PRIu64 " keys\n", survey->writer, survey->keys);
    else
        (void)printf("RDB version %" PRIu64 "%s%s: %" PRIu64 " keys in %u databases\n",
                     survey->version, *survey->writer ? ", written by " : "", survey->writer,
                     survey->keys, survey->db_count);
    const struct survey_count *end = survey->types + SURVEY_NAMES_MAX;
    for (const struct survey_count *row = survey->types; row < end && row->count; row++)
        (void)printf("  %12" PRIu64 " %s\n", row->count, row->name);
    (void)printf("  longest value %" PRIu64 " bytes; %" PRIu64 " longer collections go in parts\n",
                 survey->longest, survey->in_parts);
}
