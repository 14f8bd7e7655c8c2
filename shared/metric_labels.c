#include "shared/metric_labels.h"

#include "shared/check.h"
#include "shared/metric_text.h"
#include "shared/table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const struct bytes other = {"other", 5};

struct label_value {
    struct bytes text; /* stored after the struct */
    struct metric_cell *cells;
};

struct labels {
    pthread_mutex_t mutex; /* guards everything except the words of the cells */
    struct table *by_text;
    struct label_value **values; /* in order of creation */
    size_t count;
    size_t values_max;
    uint32_t words;
    /* the words of row "other" as last printed: they must not decrease when a value moves from "other" to its own row */
    uint64_t *floor;
};

/* One printed value. */
struct label_row {
    struct bytes text;
    uint64_t *sums;
};

struct labels *labels_new(uint32_t words, size_t values_max)
{
    struct labels *labels = calloc(1, sizeof *labels);
    CHECK(labels);
    CHECK(words <= LABEL_WORDS_MAX);
    CHECK(pthread_mutex_init(&labels->mutex, NULL) == 0);
    labels->by_text = table_new();
    labels->words = words;
    labels->values_max = values_max;
    labels->floor = calloc(words, sizeof *labels->floor);
    CHECK(labels->floor);
    return labels;
}

void labels_free(struct labels *labels)
{
    if (!labels)
        return;
    for (size_t i = 0; i < labels->count; i++) {
        for (struct metric_cell *cell = labels->values[i]->cells; cell;) {
            struct metric_cell *next = cell->next;
            free(cell);
            cell = next;
        }
        free(labels->values[i]);
    }
    free(labels->values);
    free(labels->floor);
    table_free(labels->by_text);
    (void)pthread_mutex_destroy(&labels->mutex);
    free(labels);
}

static struct label_value *value_get(struct labels *labels, struct bytes text)
{
    struct label_value *value = table_get(labels->by_text, text);
    if (!value && labels->count >= labels->values_max)
        value = table_get(labels->by_text, text = other);
    if (value)
        return value;
    value = calloc(1, sizeof *value + text.len + 1);
    CHECK(value);
    memcpy(value + 1, text.len ? text.data : "", text.len);
    value->text = (struct bytes){(char *)(value + 1), text.len};
    labels->values = realloc(labels->values, (labels->count + 1) * sizeof(struct label_value *));
    CHECK(labels->values);
    labels->values[labels->count++] = value;
    (void)table_put(labels->by_text, text, value);
    return value;
}

static struct metric_cell *cell_of(struct labels *labels, struct label_value *value,
                                   uint32_t thread)
{
    struct metric_cell *cell = value->cells;
    while (cell && cell->thread != thread)
        cell = cell->next;
    if (cell)
        return cell;
    cell = calloc(1, sizeof *cell + labels->words * sizeof cell->words[0]);
    CHECK(cell);
    cell->thread = thread;
    cell->next = value->cells;
    value->cells = cell;
    return cell;
}

struct metric_cell *labels_cell(struct labels *labels, struct bytes value, uint32_t thread)
{
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    struct metric_cell *cell = cell_of(labels, value_get(labels, value), thread);
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
    return cell;
}

/* ---- reading ---- */

static void value_sum(const struct labels *labels, const struct label_value *value, uint64_t *sums)
{
    memset(sums, 0, labels->words * sizeof *sums);
    for (const struct metric_cell *cell = value->cells; cell; cell = cell->next)
        for (uint32_t i = 0; i < labels->words; i++)
            sums[i] += atomic_load_explicit(&cell->words[i], memory_order_relaxed);
}

bool labels_read(struct labels *labels, size_t index, uint64_t sums[LABEL_WORDS_MAX])
{
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    bool found = index < labels->count;
    if (found)
        value_sum(labels, labels->values[index], sums);
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
    return found;
}

void labels_each(struct labels *labels, labels_fn *on_value, void *owner)
{
    uint64_t sums[LABEL_WORDS_MAX];
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    for (size_t i = 0; i < labels->count; i++) {
        value_sum(labels, labels->values[i], sums);
        on_value(owner, labels->values[i]->text, sums);
    }
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
}

void labels_set_rates(struct labels *labels, uint32_t thread, uint32_t counter, uint32_t seen,
                      uint32_t rate, uint64_t elapsed_ms)
{
    CHECK(elapsed_ms > 0);
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    for (size_t i = 0; i < labels->count; i++)
        for (struct metric_cell *cell = labels->values[i]->cells; cell; cell = cell->next) {
            if (cell->thread != thread)
                continue;
            uint64_t now = atomic_load_explicit(&cell->words[counter], memory_order_relaxed);
            uint64_t last = atomic_load_explicit(&cell->words[seen], memory_order_relaxed);
            cell_set(cell, rate, ((now - last) * 1000 + elapsed_ms / 2) / elapsed_ms);
            cell_set(cell, seen, now);
        }
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
}

bool labels_find(struct labels *labels, struct bytes text, uint64_t sums[LABEL_WORDS_MAX])
{
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    const struct label_value *value = table_get(labels->by_text, text);
    if (value)
        value_sum(labels, value, sums);
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
    return value != NULL;
}

static bool is_used(const uint64_t *sums, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        if (sums[i])
            return true;
    return false;
}

/* Collects the values that have counts. The caller frees rows and sums; the texts remain valid. */
static size_t collect_rows(struct labels *labels, struct label_row **rows, uint64_t **sums)
{
    size_t count = 0;
    CHECK(pthread_mutex_lock(&labels->mutex) == 0);
    *rows = calloc(labels->count + 1, sizeof **rows);
    *sums = calloc(labels->count + 1, labels->words * sizeof **sums);
    CHECK(*rows);
    CHECK(*sums);
    for (size_t i = 0; i < labels->count; i++) {
        uint64_t *own = *sums + count * labels->words;
        value_sum(labels, labels->values[i], own);
        if (is_used(own, labels->words))
            (*rows)[count++] = (struct label_row){labels->values[i]->text, own};
    }
    CHECK(pthread_mutex_unlock(&labels->mutex) == 0);
    return count;
}

static int by_word_0(const void *a, const void *b)
{
    const struct label_row *left = a;
    const struct label_row *right = b;
    return (left->sums[0] < right->sums[0]) - (left->sums[0] > right->sums[0]);
}

/* Merges the rows from `shown` on into one, which becomes the last. Returns the number of rows. */
static size_t fold(struct labels *labels, struct label_row *rows, size_t count, size_t shown)
{
    if (count <= shown)
        return count;
    qsort(rows, count, sizeof *rows, by_word_0);
    for (size_t i = shown + 1; i < count; i++)
        for (uint32_t word = 0; word < labels->words; word++)
            rows[shown].sums[word] += rows[i].sums[word];
    rows[shown].text = other;
    /* A shown row may be named "other" too, because labels beyond the maximum are counted there: merges the two. */
    for (size_t i = 0; i < shown; i++)
        if (bytes_equal(rows[i].text, other)) {
            for (uint32_t word = 0; word < labels->words; word++)
                rows[shown].sums[word] += rows[i].sums[word];
            rows[i] = rows[shown];
            shown--;
        }
    return shown + 1;
}

/* ---- printing ---- */

static double scaled(uint64_t value, double unit)
{
    return unit > 0 ? (double)value / unit : (double)value;
}

static uint64_t histogram_count(const uint64_t *words)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        count += words[i];
    return count;
}

static void print_histogram(struct out *out, const struct label_family *family, const char *labels,
                            const uint64_t *words)
{
    const char *name = family->name;
    const char *comma = *labels ? "," : "";
    uint64_t so_far = 0;
    for (uint32_t i = 0; i <= family->last; i++) {
        so_far += words[i];
        if (i >= family->first)
            out_printf(out, "%s_bucket{%s%sle=\"%.10g\"} %" PRIu64 "\n", name, labels, comma,
                       scaled(UINT64_C(1) << i, family->unit), so_far);
    }
    uint64_t count = histogram_count(words);
    out_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    out_printf(out, "%s_sum{%s} %.15g\n", name, labels,
               scaled(words[HISTOGRAM_BUCKETS], family->unit));
    out_printf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

static void print_one(struct out *out, const struct label_family *family, const char *labels,
                      const uint64_t *words)
{
    switch (family->kind) {
    case LABEL_COUNTER:
        metric_double(out, family->name, labels, scaled(*words, family->unit));
        break;
    case LABEL_GAUGE: /* may appear negative while one thread adds and another subtracts */
        metric_double(out, family->name, labels,
                      family->unit > 0 ? (double)(int64_t)*words / family->unit
                                       : (double)(int64_t)*words);
        break;
    case LABEL_HISTOGRAM:
        print_histogram(out, family, labels, words);
        break;
    case LABEL_COUNT:
        metric_number(out, family->name, labels, histogram_count(words));
        break;
    }
}

static const char *type_of(enum label_kind kind)
{
    return kind == LABEL_GAUGE ? "gauge" : kind == LABEL_HISTOGRAM ? "histogram" : "counter";
}

static void keep_floor(struct labels *labels, const struct label_family *family, uint64_t *sums)
{
    uint32_t words = family->kind == LABEL_GAUGE     ? 0
                     : family->kind == LABEL_COUNTER ? 1
                                                     : HISTOGRAM_WORDS;
    for (uint32_t i = family->word; i < family->word + words; i++) {
        if (sums[i] < labels->floor[i])
            sums[i] = labels->floor[i];
        labels->floor[i] = sums[i];
    }
}

void labels_print(struct labels *labels, struct out *out, const char *label,
                  const struct label_family *families, size_t count, size_t shown)
{
    struct label_row *rows;
    uint64_t *sums;
    size_t row_count = collect_rows(labels, &rows, &sums);
    row_count = fold(labels, rows, row_count, shown);
    for (size_t i = 0; i < count && row_count; i++) {
        metric_head(out, families[i].name, type_of(families[i].kind), families[i].help);
        for (size_t row = 0; row < row_count; row++) {
            char text[METRIC_LABELS_MAX] = "";
            if (bytes_equal(rows[row].text, other))
                keep_floor(labels, &families[i], rows[row].sums);
            metric_label(text, label, rows[row].text);
            print_one(out, &families[i], text, rows[row].sums + families[i].word);
        }
    }
    free(rows);
    free(sums);
}

double histogram_quantile(const uint64_t words[HISTOGRAM_BUCKETS], double part)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        count += words[i];
    double rank = part * (double)count;
    double below = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double first = i ? (double)(UINT64_C(1) << (i - 1)) : 0;
        double width = i == HISTOGRAM_BUCKETS - 1 ? 0 : (double)(UINT64_C(1) << i) - first;
        if (words[i] && below + (double)words[i] >= rank)
            return first + width * (rank - below) / (double)words[i];
        below += (double)words[i];
    }
    return 0;
}
