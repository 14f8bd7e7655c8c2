/*
 * tdigest.c - t-digests, as in RedisBloom: TDIGEST.CREATE, TDIGEST.ADD, TDIGEST.QUANTILE and related commands.
 *
 *   metadata row: compression, counts, min, max, unmerged values      CF_DATA: one row of centroids (format/tdigest.h)
 *
 * An ADD writes the metadata row. When there are enough unmerged values, it merges them and writes the centroids too. Commands that
 * read merge in memory and write nothing. `size` counts the rows of centroids: 0 or 1.
 *
 * https://redis.io/docs/latest/commands/?group=tdigest
 */
#include "backend/format/tdigest.h"
#include "backend/commands/module_value.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/check.h"
#include "shared/command/arguments.h"
#include "shared/number.h"

#include <math.h>

#define TDIGEST_MODULE "TDIS-TYPE"
#define TDIGEST_MARK   "screeTD1"

static const struct bytes CENTROIDS_SUB = {"", 0};

enum {
    CENTROIDS_OF_WORK = 2, /* that a unit of work (call_goes_on) estimates or merges, about */
};

static void decode_digest(const struct entry *entry, struct tdigest *digest)
{
    CHECK(tdigest_decode(entry->meta.payload, digest)); /* decode_metadata checks it */
}

/* A command may pass over many centroids, or over the same ones many times: for each of its values or sources. False: it has exceeded a
 * limit, and the error was replied. */
static bool may_pass(struct call *call, const struct centroids *centroids)
{
    return call_goes_on(call, BUDGET_ROW + centroids->count / CENTROIDS_OF_WORK);
}

/* Opens the digest. False: it does not exist or is none, and an error was replied. */
static bool digest_open(struct call *call, struct bytes key, enum open_flag flags,
                        struct entry *entry, struct tdigest *digest)
{
    if (!keyspace_open_type(call, key, TYPE_TDIGEST, flags, entry))
        return false;
    if (!entry->exists) {
        call_error_text(call, "ERR T-Digest: key does not exist");
        return false;
    }
    decode_digest(entry, digest);
    return true;
}

/* Reads all values of the digest, as centroids in the arena. False: the call has failed. */
static bool digest_load(struct call *call, struct entry *entry, const struct tdigest *digest,
                        struct arena *arena, struct centroids *centroids)
{
    struct bytes row = {"", 0};
    int err = digest->merged ? sub_get(call, entry, CF_DATA, CENTROIDS_SUB, &row) : OK;
    if (is_read_failure(err))
        return false;
    if (!tdigest_centroids_ok(digest, row)) {
        call_error(call, ERR_STORE);
        return false;
    }
    tdigest_load(arena, digest, row, centroids);
    return true;
}

static void digest_save(struct call *call, struct entry *entry, const struct tdigest *digest)
{
    entry->meta.payload = tdigest_encode(call->arena, digest);
    entry_save(call, entry);
}

/* From now on the digest has these centroids and no unmerged values. To be followed by digest_save. */
static void digest_put(struct call *call, struct entry *entry, struct tdigest *digest,
                       const struct centroids *centroids)
{
    digest->unmerged = (struct bytes){"", 0};
    digest->merged = centroids->count;
    digest->weight = centroids->weight;
    entry->meta.size = centroids->count ? 1 : 0;
    if (centroids->count)
        sub_put(call, entry, CF_DATA, CENTROIDS_SUB,
                tdigest_centroids_encode(call->arena, centroids));
}

/* ---- TDIGEST.CREATE, TDIGEST.RESET ---- */

/* False: it is no compression, and an error was replied. */
static bool parse_compression(struct call *call, struct bytes text, uint32_t *compression)
{
    int64_t number;
    if (!number_parse_int64(text, &number))
        call_error_text(call, "ERR T-Digest: error parsing compression parameter");
    else if (number < 1)
        call_error_text(call, "ERR T-Digest: compression parameter needs to be a positive integer");
    else if (number > TDIGEST_COMPRESSION_MAX)
        call_error_text(call,
                        "ERR T-Digest: the compression is too large: it must be at most 10000");
    else
        *compression = (uint32_t)number;
    return !call->failed;
}

void cmd_tdigest_create(struct call *call)
{
    struct entry entry;
    struct tdigest digest = {.compression = TDIGEST_COMPRESSION};
    if (call->argc != 2 && call->argc != 4) {
        call_error_arity(call);
        return;
    }
    if (!keyspace_open_type(call, call->argv[1], TYPE_TDIGEST, OPEN_WRITE, &entry))
        return;
    if (entry.exists)
        call_error_text(call, "ERR T-Digest: key already exists");
    else if (call->argc == 4 && !bytes_is(call->argv[2], "compression"))
        call_error_text(call, "ERR T-Digest: wrong keyword");
    else if (call->argc == 4)
        (void)parse_compression(call, call->argv[3], &digest.compression);
    if (call->failed)
        return;
    entry_create(call, &entry, TYPE_TDIGEST);
    digest_save(call, &entry, &digest);
    notify(call, NOTIFY_MODULE, "tdigest.create", entry.key);
    reply_ok(&call->reply);
}

void cmd_tdigest_reset(struct call *call)
{
    struct entry entry;
    struct tdigest digest;
    if (!digest_open(call, call->argv[1], OPEN_WRITE, &entry, &digest))
        return;
    if (digest.merged)
        sub_delete(call, &entry, CF_DATA, CENTROIDS_SUB);
    entry.meta.size = 0;
    digest = (struct tdigest){.compression = digest.compression};
    digest_save(call, &entry, &digest);
    notify(call, NOTIFY_MODULE, "tdigest.reset", entry.key);
    reply_ok(&call->reply);
}

/* ---- TDIGEST.ADD ---- */

/* The numbers from argument 2 on, in the arena. NULL: one is wrong, and an error was replied. */
static double *parse_numbers(struct call *call, const char *error)
{
    double *numbers = arena_alloc(call->arena, (call->argc - 2) * sizeof *numbers);
    for (uint32_t i = 2; i < call->argc; i++)
        if (!number_parse_double(call->argv[i], &numbers[i - 2])) {
            call_error_text(call, error);
            return NULL;
        }
    return numbers;
}

static double *parse_values(struct call *call)
{
    double *values = parse_numbers(call, "ERR T-Digest: error parsing val parameter");
    for (uint32_t i = 0; values && i < call->argc - 2; i++) {
        if (!isfinite(values[i])) {
            call_error_text(call, "ERR T-Digest: val parameter needs to be a finite number");
            return NULL;
        }
        values[i] += 0.0; /* -0 becomes 0 */
    }
    return values;
}

void cmd_tdigest_add(struct call *call)
{
    struct entry entry;
    struct tdigest digest;
    struct centroids centroids;
    if (!digest_open(call, call->argv[1], OPEN_WRITE, &entry, &digest))
        return;
    const double *values = parse_values(call);
    if (!values)
        return;
    if (tdigest_count(&digest) > (uint64_t)INT64_MAX - (call->argc - 2)) {
        call_error_text(call, "ERR T-Digest: overflow detected");
        return;
    }
    tdigest_add(call->arena, &digest, values, call->argc - 2);
    if (tdigest_unmerged(&digest) >= tdigest_buffer(digest.compression)) {
        if (!digest_load(call, &entry, &digest, call->arena, &centroids))
            return;
        digest_put(call, &entry, &digest, &centroids);
        digest.merges++;
    }
    digest_save(call, &entry, &digest);
    notify(call, NOTIFY_MODULE, "tdigest.add", entry.key);
    reply_ok(&call->reply);
}

/* ---- TDIGEST.MERGE ---- */

struct source {
    struct entry entry;
    struct tdigest digest;
};

struct merge {
    struct source *sources;
    struct counted_keys keys; /* of the sources */
    uint32_t compression;     /* 0: none was given */
    bool overrides;
};

static bool merge_options_parse(struct call *call, struct merge *merge)
{
    for (uint32_t i = merge->keys.behind; i < call->argc && !call->failed; i++) {
        if (bytes_is(call->argv[i], "override"))
            merge->overrides = true;
        else if (!bytes_is(call->argv[i], "compression"))
            call_error_text(call, "ERR T-Digest: wrong keyword");
        else if (++i == call->argc)
            call_error_arity(call);
        else
            (void)parse_compression(call, call->argv[i], &merge->compression);
    }
    return !call->failed;
}

static bool merge_words_parse(struct call *call, struct merge *merge)
{
    switch (counted_keys_find(call->command, call->argv, call->argc, &merge->keys)) {
    case COUNTED_OK:
        return merge_options_parse(call, merge);
    case COUNTED_NO_NUMBER:
        call_error_text(call, "ERR T-Digest: error parsing numkeys");
        break;
    case COUNTED_TOO_SMALL:
        call_error_text(call, "ERR T-Digest: numkeys needs to be a positive integer");
        break;
    case COUNTED_TOO_LARGE:
        call_error_arity(call);
        break;
    }
    return false;
}

/* Opens the sources, and the destination, whose digest becomes the one that the others are merged into. */
static bool digests_open(struct call *call, struct merge *merge, struct source *to)
{
    uint32_t greatest = 0;
    if (!keyspace_open_type(call, call->argv[1], TYPE_TDIGEST, OPEN_WRITE, &to->entry))
        return false;
    merge->sources = arena_alloc(call->arena, merge->keys.count * sizeof *merge->sources);
    for (uint32_t i = 0; i < merge->keys.count; i++) {
        struct source *source = &merge->sources[i];
        if (!digest_open(call, call->argv[merge->keys.first + i], OPEN_READ, &source->entry,
                         &source->digest))
            return false;
        if (source->digest.compression > greatest)
            greatest = source->digest.compression;
    }
    to->digest = (struct tdigest){.compression = greatest};
    if (to->entry.exists && !merge->overrides)
        decode_digest(&to->entry, &to->digest);
    if (merge->compression)
        to->digest.compression = merge->compression;
    return true;
}

/* Merges all values of the source into the sum, whose room is for the most centroids of this compression. `scratch` is emptied. */
static bool merge_digest(struct call *call, struct source *source, uint32_t compression,
                         struct arena *scratch, struct centroids *sum)
{
    struct centroids values;
    struct centroids merged;
    if (tdigest_count(&source->digest) > (uint64_t)INT64_MAX - sum->weight) {
        call_error_text(call, "ERR T-Digest: overflow detected");
        return false;
    }
    if (!digest_load(call, &source->entry, &source->digest, scratch, &values) ||
        !may_pass(call, &values) || !may_pass(call, sum))
        return false;
    tdigest_merge(scratch, compression, sum, &values, &merged);
    if (merged.count)
        memcpy(sum->at, merged.at, merged.count * sizeof *merged.at);
    sum->count = merged.count;
    sum->weight = merged.weight;
    arena_reset(scratch);
    return true;
}

static bool merge_digests(struct call *call, struct merge *merge, struct source *to,
                          struct centroids *sum)
{
    struct arena scratch;
    uint32_t compression = to->digest.compression;
    *sum = (struct centroids){
        .at = arena_alloc(call->arena, tdigest_capacity(compression) * sizeof *sum->at)};
    arena_init(&scratch);
    bool good = merge_digest(call, to, compression, &scratch, sum);
    for (uint32_t i = 0; good && i < merge->keys.count; i++)
        good = merge_digest(call, &merge->sources[i], compression, &scratch, sum);
    arena_fini(&scratch);
    return good;
}

void cmd_tdigest_merge(struct call *call)
{
    struct merge merge = {0};
    struct source to;
    struct centroids sum;
    if (!merge_words_parse(call, &merge) || !digests_open(call, &merge, &to) ||
        !merge_digests(call, &merge, &to, &sum))
        return;
    if (!to.entry.exists || merge.overrides)
        entry_create(call, &to.entry, TYPE_TDIGEST);
    digest_put(call, &to.entry, &to.digest, &sum);
    to.digest.merges += merge.keys.count;
    to.digest.min = sum.count ? sum.at[0].mean : 0;
    to.digest.max = sum.count ? sum.at[sum.count - 1].mean : 0;
    digest_save(call, &to.entry, &to.digest);
    notify(call, NOTIFY_MODULE, "tdigest.merge", to.entry.key);
    reply_ok(&call->reply);
}

/* ---- TDIGEST.MIN, TDIGEST.MAX, TDIGEST.INFO ---- */

static void reply_extreme(struct call *call, bool is_max)
{
    struct entry entry;
    struct tdigest digest;
    if (!digest_open(call, call->argv[1], OPEN_READ, &entry, &digest))
        return;
    bool is_empty = tdigest_count(&digest) == 0;
    reply_double(&call->reply, is_empty ? NAN : is_max ? digest.max : digest.min);
}

void cmd_tdigest_min(struct call *call)
{
    reply_extreme(call, false);
}

void cmd_tdigest_max(struct call *call)
{
    reply_extreme(call, true);
}

static void reply_number(struct call *call, const char *name, uint64_t value)
{
    reply_status(&call->reply, name);
    reply_int(&call->reply, (int64_t)value);
}

void cmd_tdigest_info(struct call *call)
{
    struct entry entry;
    struct tdigest digest;
    if (!digest_open(call, call->argv[1], OPEN_READ, &entry, &digest))
        return;
    reply_map(&call->reply, 9);
    reply_number(call, "Compression", digest.compression);
    reply_number(call, "Capacity", tdigest_capacity(digest.compression));
    reply_number(call, "Merged nodes", digest.merged);
    reply_number(call, "Unmerged nodes", tdigest_unmerged(&digest));
    reply_number(call, "Merged weight", digest.weight);
    reply_number(call, "Unmerged weight", tdigest_unmerged(&digest));
    reply_number(call, "Observations", tdigest_count(&digest));
    reply_number(call, "Total compressions", digest.merges);
    reply_number(call, "Memory usage",
                 entry.meta.payload.len + (uint64_t)digest.merged * TDIGEST_CENTROID_BYTES);
}

/* ---- estimates ---- */

/* Opens the digest of argument 1, and reads its values. False: the call has failed. */
static bool read_centroids(struct call *call, struct centroids *centroids)
{
    struct entry entry;
    struct tdigest digest;
    return digest_open(call, call->argv[1], OPEN_READ, &entry, &digest) &&
           digest_load(call, &entry, &digest, call->arena, centroids);
}

void cmd_tdigest_quantile(struct call *call)
{
    struct centroids centroids;
    if (!read_centroids(call, &centroids))
        return;
    const double *quantiles = parse_numbers(call, "ERR T-Digest: error parsing quantile");
    for (uint32_t i = 0; quantiles && i < call->argc - 2; i++)
        if (!(quantiles[i] >= 0 && quantiles[i] <= 1)) {
            call_error_text(call, "ERR T-Digest: quantile should be in [0,1]");
            return;
        }
    if (!quantiles)
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 0; i < call->argc - 2 && may_pass(call, &centroids); i++)
        reply_double(&call->reply,
                     centroids.count
                         ? tdigest_value_at(&centroids, quantiles[i] * (double)centroids.weight)
                         : NAN);
}

void cmd_tdigest_cdf(struct call *call)
{
    struct centroids centroids;
    if (!read_centroids(call, &centroids))
        return;
    const double *values = parse_numbers(call, "ERR T-Digest: error parsing cdf");
    if (!values)
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 0; i < call->argc - 2 && may_pass(call, &centroids); i++)
        reply_double(&call->reply, centroids.count ? tdigest_below(&centroids, values[i]) /
                                                         (double)centroids.weight
                                                   : NAN);
}

/* The estimated rank of a value: half of the equal values are counted, and half a rank is rounded down; or up, if it is
 * counted from the greatest. */
static int64_t rank_of(const struct centroids *centroids, double value, bool is_reverse)
{
    int64_t count = (int64_t)centroids->weight;
    if (count == 0)
        return -2;
    if (value < centroids->at[0].mean)
        return is_reverse ? count : -1;
    if (value > centroids->at[centroids->count - 1].mean)
        return is_reverse ? -1 : count;
    double below = tdigest_below(centroids, value);
    double rank = is_reverse ? (double)count - floor(below + 0.5) : ceil(below - 0.5);
    return rank >= (double)count ? count : (int64_t)rank;
}

static void reply_ranks(struct call *call, bool is_reverse)
{
    struct centroids centroids;
    if (!read_centroids(call, &centroids))
        return;
    const double *values = parse_numbers(call, "ERR T-Digest: error parsing value");
    if (!values)
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 0; i < call->argc - 2 && may_pass(call, &centroids); i++)
        reply_int(&call->reply, rank_of(&centroids, values[i], is_reverse));
}

void cmd_tdigest_rank(struct call *call)
{
    reply_ranks(call, false);
}

void cmd_tdigest_revrank(struct call *call)
{
    reply_ranks(call, true);
}

static double value_with_rank(const struct centroids *centroids, uint64_t rank, bool is_reverse)
{
    if (centroids->count == 0)
        return NAN;
    if (rank >= centroids->weight)
        return is_reverse ? -INFINITY : INFINITY;
    return tdigest_value_at(centroids, (double)(is_reverse ? centroids->weight - 1 - rank : rank));
}

static void reply_by_rank(struct call *call, bool is_reverse)
{
    struct centroids centroids;
    int64_t rank;
    if (!read_centroids(call, &centroids))
        return;
    for (uint32_t i = 2; i < call->argc && !call->failed; i++) {
        if (!number_parse_int64(call->argv[i], &rank))
            call_error_text(call, "ERR T-Digest: error parsing rank");
        else if (rank < 0)
            call_error_text(call, "ERR T-Digest: rank needs to be non negative");
    }
    if (call->failed)
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc && may_pass(call, &centroids); i++) {
        CHECK(number_parse_int64(call->argv[i], &rank));
        reply_double(&call->reply, value_with_rank(&centroids, (uint64_t)rank, is_reverse));
    }
}

void cmd_tdigest_byrank(struct call *call)
{
    reply_by_rank(call, false);
}

void cmd_tdigest_byrevrank(struct call *call)
{
    reply_by_rank(call, true);
}

void cmd_tdigest_trimmed_mean(struct call *call)
{
    struct centroids centroids;
    double low;
    double high;
    if (!read_centroids(call, &centroids))
        return;
    if (!number_parse_double(call->argv[2], &low))
        call_error_text(call, "ERR T-Digest: error parsing low_cut_percentile");
    else if (!number_parse_double(call->argv[3], &high))
        call_error_text(call, "ERR T-Digest: error parsing high_cut_percentile");
    else if (low < 0 || low > 1 || high < 0 || high > 1)
        call_error_text(
            call, "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]");
    else if (low >= high)
        call_error_text(
            call, "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile");
    if (call->failed)
        return;
    double from = floor((double)centroids.weight * low);
    double to = ceil((double)centroids.weight * high);
    reply_double(&call->reply, from < to ? tdigest_mean(&centroids, from, to) : NAN);
}

/* ---- DUMP, RESTORE ---- */

static bool save_tdigest(struct call *call, struct entry *entry, struct rdb_writer *writer)
{
    return module_save(call, entry, writer, TDIGEST_MODULE, TDIGEST_MARK, BYTES(""));
}

/* module_row_fn */
static bool put_centroids(struct call *call, struct entry *entry, void *object, struct bytes row)
{
    const struct tdigest *digest = object;
    if (entry->meta.size || digest->merged == 0 || !tdigest_centroids_ok(digest, row))
        return false;
    entry->meta.size = 1;
    sub_put(call, entry, CF_DATA, CENTROIDS_SUB, row);
    return true;
}

static bool load_tdigest(struct call *call, struct entry *entry, struct rdb_reader *reader,
                         enum rdb_type form, uint64_t expire_ms)
{
    (void)form;
    (void)expire_ms;
    struct bytes head;
    struct tdigest digest;
    if (!module_read_head(reader, TDIGEST_MARK, &head) || !tdigest_decode(head, &digest))
        return false;
    entry_create(call, entry, TYPE_TDIGEST);
    entry->meta.payload = tdigest_encode(call->arena, &digest);
    return module_read_rows(call, entry, reader, put_centroids, &digest) &&
           entry->meta.size == (digest.merged ? 1 : 0);
}

const struct type_functions type_TDIGEST_functions = {
    .module = TDIGEST_MODULE,
    .save = save_tdigest,
    .load = load_tdigest,
    .encoding = encoding_raw,
};
