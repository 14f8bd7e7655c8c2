#include "proxy/tool/map_tool.h"

#include "config/option.h"
#include "config/shards_file.h"
#include "proxy/tool/map_plan.h"
#include "proxy/tool/rebalance.h"
#include "shared/check.h"
#include "shared/log.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CHECK_MAX_MS = 3000, ERROR_MAX = 1024 };

const struct program_tool map_tool_arguments[MAP_TOOL_COUNT] = {
    [MAP_TOOL_STATUS] = {"--map-status", NULL, "print what SCREE MAP STATUS replies, and exit",
                         false},
    [MAP_TOOL_PLAN] = {"--plan", "MAP",
                       "print what a reload of this shard map would move, and exit", false},
    [MAP_TOOL_REBALANCE] = {"--rebalance", "MEASURE",
                            "print a shard map that evens the shards by slots (default), keys, "
                            "bytes or load, and exit",
                            .is_optional = true},
    [MAP_TOOL_SHARDS] = {"--shards", "SHARD,...",
                         "rebalance: NAME=HOST:PORT adds a shard, NAME fills one without slots, "
                         "-NAME empties one",
                         false},
    [MAP_TOOL_JSON] = {"--json", NULL, "plan: print JSON", false},
};

static void print_out(struct out *out, FILE *to)
{
    struct bytes text = out_take(out);
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] != '\r') /* of the protocol */
            (void)fputc(text.data[i], to);
    free((char *)text.data);
}

/* ---- --map-status ---- */

static int map_status(struct proxy_snapshot *snapshot)
{
    char reason[MAP_REASON_MAX];
    struct out out;
    struct map_figures *figures = map_measure(snapshot, false, 0);
    int code = map_truth_silent(figures->truth)            ? MAP_TOOL_SILENT
               : map_truth_settled(figures->truth, reason) ? MAP_TOOL_GOOD
                                                           : MAP_TOOL_UNSETTLED;
    out_init(&out);
    map_truth_print(figures->truth, figures->map, &out);
    print_out(&out, stdout);
    map_figures_free(figures);
    return code;
}

/* ---- --plan ---- */

static int plan(struct proxy_snapshot *snapshot, const char *path, bool is_json)
{
    char error[ERROR_MAX];
    struct out out;
    struct shard_map *next = shards_load(path, snapshot->map, error, sizeof error);
    if (!next) {
        (void)fprintf(stderr, "%s\n", error);
        return MAP_TOOL_FAILED;
    }
    struct map_figures *figures = map_measure(snapshot, true, 0);
    struct map_plan made = map_plan_make(figures, next);
    out_init(&out);
    if (is_json)
        map_plan_print_json(&made, &out);
    else
        map_plan_print(&made, &out);
    print_out(&out, stdout);
    int code = map_figures_missing(figures) ? MAP_TOOL_SILENT : MAP_TOOL_GOOD;
    map_plan_free(&made);
    map_figures_free(figures);
    shard_map_unref(next);
    return code;
}

void map_tool_check(struct proxy_snapshot *snapshot)
{
    char moves[RELOAD_MOVES_MAX];
    log_set_level(LOG_ERROR);
    struct map_figures *figures = map_measure(snapshot, false, CHECK_MAX_MS);
    const struct map_truth *truth = figures->truth;
    unsigned silent = map_truth_silent(truth);
    struct map_change change = map_change_find(truth->owners, truth->wish);
    map_change_print(&change, moves, sizeof moves);
    if (change.unknown < SLOT_COUNT)
        (void)printf("this map moves %s\n", moves);
    if (change.unknown < SLOT_COUNT && silent)
        (void)printf("%u of %zu shards have not replied\n", silent, truth->wish->shard_count);
    map_change_free(&change);
    map_figures_free(figures);
}

/* ---- --rebalance ---- */

/* The new map, and which of its shards may own slots. */
struct drafting {
    struct shard_map *next;
    bool *may_own;
};

/* The shards of the present map; those without slots stay so, because they may be draining. */
static struct drafting draft_begin(const struct shard_map *before)
{
    struct drafting draft = {.next = shard_map_new(before->epoch + 1)};
    draft.may_own = calloc(SHARD_COUNT_MAX, sizeof *draft.may_own);
    CHECK(draft.may_own);
    for (size_t i = 0; i < before->shard_count; i++) {
        const struct shard *shard = &before->shards[i];
        CHECK(shard_map_add(draft.next, bytes_of(shard->name)) == (int)i);
        for (size_t a = 0; a < shard->address_count; a++)
            shard_map_add_address(draft.next, (int)i, bytes_of(shard->addresses[a]));
        draft.may_own[i] = shard->slot_count > 0;
    }
    return draft;
}

static bool has_address(const struct shard_map *map, struct bytes address)
{
    for (size_t i = 0; i < map->shard_count; i++)
        for (size_t a = 0; a < map->shards[i].address_count; a++)
            if (bytes_equal(bytes_of(map->shards[i].addresses[a]), address))
                return true;
    return false;
}

/* Adds the new shard of NAME=ADDRESS to the map. Returns NULL, or why it is refused. */
static const char *draft_add(struct drafting *draft, struct bytes name, struct bytes address)
{
    if (!address_valid(address))
        return "expected an address such as host:port after the name";
    if (has_address(draft->next, address))
        return "expected an address that no shard has";
    int shard = shard_map_add(draft->next, name);
    if (shard < 0)
        return "expected a new name of letters, digits, '.', '_' and '-'";
    shard_map_add_address(draft->next, shard, address);
    draft->may_own[shard] = true;
    return NULL;
}

/* Applies one word of --shards: NAME=ADDRESS, NAME or -NAME. Returns NULL, or why it is refused. */
static const char *draft_change(struct drafting *draft, struct bytes word)
{
    const char *equals = memchr(word.data, '=', word.len);
    bool is_removed = word.data[0] == '-';
    struct bytes name = {word.data + is_removed, word.len - is_removed};
    if (equals)
        return draft_add(draft, (struct bytes){word.data, (size_t)(equals - word.data)},
                         (struct bytes){equals + 1, (size_t)(word.data + word.len - equals - 1)});
    int shard = shard_map_named(draft->next, name);
    if (shard < 0)
        return "expected a shard of the map; NAME=HOST:PORT adds one";
    draft->may_own[shard] = !is_removed;
    return NULL;
}

static bool draft_change_all(struct drafting *draft, const char *list)
{
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ", ");
        const char *reason = len ? draft_change(draft, (struct bytes){at, len}) : NULL;
        if (reason) {
            (void)fprintf(stderr, "--shards %.*s: %s\n", (int)len, at, reason);
            return false;
        }
        at += len + (at[len] != 0);
    }
    for (size_t i = 0; i < draft->next->shard_count; i++)
        if (draft->may_own[i])
            return true;
    (void)fprintf(stderr, "--shards %s: expected that at least one shard keeps slots\n", list);
    return false;
}

/* Sets the weights of the slots. False: they are not known, and the reason was printed. */
static bool weigh_slots(struct proxy_snapshot *snapshot, const char *measure,
                        uint64_t weight[SLOT_COUNT], int *code)
{
    static uint64_t nothing[SLOT_COUNT];
    bool is_bytes = strcmp(measure, "bytes") == 0;
    bool is_load = strcmp(measure, "load") == 0;
    *code = MAP_TOOL_USAGE;
    if (!*measure || strcmp(measure, "slots") == 0) {
        rebalance_weights(nothing, weight);
        return true;
    }
    if (!is_bytes && !is_load && strcmp(measure, "keys") != 0)
        (void)fprintf(stderr, "--rebalance %s: expected slots, keys, bytes or load\n", measure);
    else
        *code = MAP_TOOL_GOOD;
    if (*code != MAP_TOOL_GOOD)
        return false;
    struct map_figures *figures = map_measure(snapshot, true, 0);
    const struct map_truth *truth = figures->truth;
    for (size_t i = 0; i < truth->wish->shard_count; i++)
        if (!figures->has_weights[i]) {
            (void)fprintf(stderr, "shard %s has not said its %s: %s\n", truth->wish->shards[i].name,
                          measure, truth->shards[i].reason);
            *code = MAP_TOOL_SILENT;
        }
    rebalance_weights(is_load ? figures->load : is_bytes ? figures->bytes : figures->keys, weight);
    map_figures_free(figures);
    return *code == MAP_TOOL_GOOD;
}

/* Prints comments at the top of the map: operators read a map before they use it. */
static void print_heading(const struct shard_map *before, const struct drafting *draft,
                          const char *measure)
{
    char moves[RELOAD_MOVES_MAX];
    struct map_change change = map_change_find(before, draft->next);
    map_change_print(&change, moves, sizeof moves);
    (void)printf("; scree-proxy --rebalance %s: replaces epoch %" PRIu64 ", moves %s\n",
                 *measure ? measure : "slots", before->epoch, moves);
    for (size_t i = 0; i < draft->next->shard_count; i++)
        if (!draft->may_own[i])
            (void)printf("; %s has no slots: remove its section when SCREE MAP STATUS names it as "
                         "drained\n",
                         draft->next->shards[i].name);
    map_change_free(&change);
}

static int rebalance_map(struct proxy_snapshot *snapshot, const char *measure, const char *shards)
{
    uint64_t weight[SLOT_COUNT];
    int code = MAP_TOOL_USAGE;
    struct drafting draft = draft_begin(snapshot->map);
    if (draft_change_all(&draft, shards ? shards : "") &&
        weigh_slots(snapshot, measure, weight, &code)) {
        rebalance(snapshot->map, draft.next, draft.may_own, weight);
        print_heading(snapshot->map, &draft, measure);
        shard_map_print(draft.next, stdout);
        code = MAP_TOOL_GOOD;
    }
    shard_map_unref(draft.next);
    free(draft.may_own);
    return code;
}

/* ---- arguments ---- */

bool map_tool_run(struct proxy_snapshot *snapshot, const char *const given[MAP_TOOL_COUNT],
                  int *exit_code)
{
    *exit_code = MAP_TOOL_USAGE;
    log_set_level(LOG_ERROR);
    if (given[MAP_TOOL_SHARDS] && !given[MAP_TOOL_REBALANCE])
        (void)fprintf(stderr, "--shards: only together with --rebalance\n");
    else if (given[MAP_TOOL_JSON] && !given[MAP_TOOL_PLAN])
        (void)fprintf(stderr, "--json: only together with --plan\n");
    else if (given[MAP_TOOL_PLAN] && given[MAP_TOOL_REBALANCE])
        (void)fprintf(stderr, "--plan: not together with --rebalance\n");
    else if (given[MAP_TOOL_STATUS])
        *exit_code = map_status(snapshot);
    else if (given[MAP_TOOL_PLAN])
        *exit_code = plan(snapshot, given[MAP_TOOL_PLAN], given[MAP_TOOL_JSON] != NULL);
    else if (given[MAP_TOOL_REBALANCE])
        *exit_code = rebalance_map(snapshot, given[MAP_TOOL_REBALANCE], given[MAP_TOOL_SHARDS]);
    else
        return false;
    return true;
}
