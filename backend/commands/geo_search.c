/*
 * geo_search.c - finds places in a circle, a box or a polygon.
 *
 *   shape ─► cells that cover it (geohash.h) ─► iterate over the scores of each cell ─► places inside ─► sort, limit
 */
#include "backend/commands/geo.h"
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"
#include "shared/merge_sort.h"
#include "shared/number.h"

enum form { BY_POINT, BY_MEMBER, SEARCH };
enum order { UNSORTED, ASCENDING, DESCENDING };

struct search {
    enum form form;
    bool may_store;  /* GEORADIUS without _RO */
    uint32_t key_at; /* argument index of the searched key */
    struct entry entry;
    struct geo_shape shape;
    bool has_member, has_point, has_radius, has_box, has_polygon;
    bool with_distance, with_hash, with_point;
    bool any;
    bool store_distances;
    int64_t count; /* 0: unlimited */
    enum order order;
    const struct bytes *target; /* the key to store into; NULL: reply */
};

/* ---- arguments ---- */

static bool parse_length(struct call *call, uint32_t at, const char *error, double *length)
{
    if (number_parse_double(call->argv[at], length))
        return true;
    call_error_text(call, error);
    return false;
}

static bool parse_radius(struct call *call, uint32_t at, struct geo_shape *shape)
{
    if (!parse_length(call, at, "ERR need numeric radius", &shape->radius))
        return false;
    if (shape->radius < 0) {
        call_error_text(call, "ERR radius cannot be negative");
        return false;
    }
    shape->form = GEO_CIRCLE;
    return geo_parse_unit(call, at + 1, &shape->unit);
}

static bool parse_box(struct call *call, uint32_t at, struct geo_shape *shape)
{
    if (!parse_length(call, at, "ERR need numeric width", &shape->width) ||
        !parse_length(call, at + 1, "ERR need numeric height", &shape->height))
        return false;
    if (shape->width < 0 || shape->height < 0) {
        call_error_text(call, "ERR height or width cannot be negative");
        return false;
    }
    shape->form = GEO_BOX;
    return geo_parse_unit(call, at + 2, &shape->unit);
}

/* Parses the number of corners and their points. Returns the number of arguments used; 0: an error was replied. */
static uint32_t parse_polygon(struct call *call, uint32_t at, struct geo_shape *shape)
{
    enum { CORNERS_MIN = 3 };
    int64_t count;
    if (!number_parse_int64(call->argv[at], &count) || count < INT32_MIN || count > INT32_MAX) {
        call_error_text(call, "ERR invalid number of vertices");
        return 0;
    }
    if (count < CORNERS_MIN || count > (call->argc - at - 1) / 2) {
        call_error_text(call, "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
        return 0;
    }
    struct geo_point *corners = arena_alloc(call->arena, (size_t)count * sizeof *corners);
    for (uint32_t i = 0; i < count; i++)
        if (!geo_parse_point(call, at + 1 + 2 * i, &corners[i]))
            return 0;
    geo_set_polygon(shape, corners, (uint32_t)count);
    return 1 + 2 * (uint32_t)count;
}

/* Uses a member's point as the centre. A missing key is not an error here. */
static bool parse_member(struct call *call, uint32_t at, struct search *search)
{
    if (!search->entry.exists)
        return true;
    int err = geo_of_member(call, &search->entry, call->argv[at], &search->shape.center);
    if (err == ERR_NOT_FOUND)
        call_error_text(call, "ERR could not decode requested zset member");
    return err == OK;
}

static bool parse_result_count(struct call *call, uint32_t at, struct search *search)
{
    if (!call_int64(call, at, &search->count))
        return false;
    if (search->count <= 0)
        call_error_text(call, "ERR COUNT must be > 0");
    return !call->failed;
}

/* Parses an option that only GEOSEARCH has. Returns the number of arguments used; 0: not an option, or an error was
 * replied. */
static uint32_t search_option(struct call *call, uint32_t at, struct search *search)
{
    struct bytes word = call->argv[at];
    uint32_t left = call->argc - at - 1;
    if (search->form != SEARCH)
        return 0;
    if (bytes_is(word, "storedist") && search->target) {
        search->store_distances = true;
        return 1;
    }
    if (bytes_is(word, "bypolygon") && left >= 2 && !search->has_member && !search->has_point &&
        !search->has_radius && !search->has_box) {
        search->has_polygon = true;
        uint32_t taken = parse_polygon(call, at + 1, &search->shape);
        return taken ? 1 + taken : 0;
    }
    if (search->has_polygon)
        return 0; /* a polygon has a centre of its own */
    if (bytes_is(word, "frommember") && left >= 1 && !search->has_point) {
        search->has_member = true;
        return parse_member(call, at + 1, search) ? 2 : 0;
    }
    if (bytes_is(word, "fromlonlat") && left >= 2 && !search->has_member) {
        search->has_point = true;
        return geo_parse_point(call, at + 1, &search->shape.center) ? 3 : 0;
    }
    if (bytes_is(word, "byradius") && left >= 2 && !search->has_box) {
        search->has_radius = true;
        return parse_radius(call, at + 1, &search->shape) ? 3 : 0;
    }
    if (bytes_is(word, "bybox") && left >= 3 && !search->has_radius) {
        search->has_box = true;
        return parse_box(call, at + 1, &search->shape) ? 4 : 0;
    }
    return 0;
}

/* Parses an option that all forms have. Returns like search_option. */
static uint32_t option(struct call *call, uint32_t at, struct search *search)
{
    uint32_t next = at;
    int found = option_next(radius_options, call->argv, call->argc, &next);
    switch (found) {
    case RADIUS_WITHDIST:
        search->with_distance = true;
        return 1;
    case RADIUS_WITHHASH:
        search->with_hash = true;
        return 1;
    case RADIUS_WITHCOORD:
        search->with_point = true;
        return 1;
    case RADIUS_ANY:
        search->any = true;
        return 1;
    case RADIUS_ASC:
    case RADIUS_DESC:
        search->order = found == RADIUS_ASC ? ASCENDING : DESCENDING;
        return 1;
    case RADIUS_COUNT:
        return parse_result_count(call, at + 1, search) ? 2 : 0;
    case RADIUS_STORE:
    case RADIUS_STOREDIST:
        if (!search->may_store)
            break;
        search->target = &call->argv[at + 1];
        search->store_distances = found == RADIUS_STOREDIST;
        return 2;
    }
    return search_option(call, at, search);
}

/* Checks for conflicting and for missing options. */
static bool options_fit(struct call *call, const struct search *search)
{
    const char *missing = NULL;
    if (search->target && (search->with_distance || search->with_hash || search->with_point)) {
        call_errorf(call, "ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
                    search->form == SEARCH ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS");
        return false;
    }
    bool has_centre = search->has_member || search->has_point || search->has_polygon;
    bool has_shape = search->has_radius || search->has_box || search->has_polygon;
    if (search->form == SEARCH && !has_centre)
        missing = "FROMMEMBER or FROMLONLAT";
    else if (search->form == SEARCH && !has_shape)
        missing = "BYRADIUS and BYBOX";
    if (missing)
        call_errorf(call, "ERR exactly one of %s can be specified for %.*s", missing,
                    (int)strnlen(call->argv[0].data, call->argv[0].len), call->argv[0].data);
    else if (search->any && search->count == 0)
        call_error_text(call, "ERR the ANY argument requires COUNT argument");
    return !call->failed;
}

static bool search_parse(struct call *call, struct search *search)
{
    uint32_t at = search->key_at + 1;
    if (search->form == BY_POINT) {
        if (!geo_parse_point(call, 2, &search->shape.center) ||
            !parse_radius(call, 4, &search->shape))
            return false;
        at = 6;
    } else if (search->form == BY_MEMBER) {
        if (search->entry.exists &&
            (!parse_member(call, 2, search) || !parse_radius(call, 3, &search->shape)))
            return false;
        at = 5;
    }
    while (at < call->argc) {
        uint32_t taken = option(call, at, search);
        if (call->failed)
            return false;
        if (taken == 0) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        at += taken;
    }
    return options_fit(call, search);
}

/* ---- searching ---- */

struct place {
    struct zset_row row;
    struct geo_point point;
    double distance; /* metres */
    uint64_t number; /* order of discovery */
};

struct places {
    struct place *place;
    uint64_t count, cap;
};

static void places_add(struct call *call, struct places *places, struct place place)
{
    if (places->count == places->cap) {
        uint64_t cap = places->cap ? places->cap * 2 : 16;
        struct place *bigger = arena_alloc(call->arena, cap * sizeof *bigger);
        if (places->count)
            memcpy(bigger, places->place, places->count * sizeof *bigger);
        places->place = bigger;
        places->cap = cap;
    }
    place.row.member = arena_copy(call->arena, place.row.member);
    place.number = places->count;
    places->place[places->count++] = place;
}

/* Collects the places of a cell that are inside the shape, at most `max` in total. False: the store failed. */
static bool search_cell(struct call *call, struct search *search, struct geo_cell cell,
                        uint64_t max, struct places *places)
{
    struct zset_iter iter;
    struct bytes from = zset_bound(call, (double)cell.from, false);
    struct bytes to = zset_bound(call, (double)cell.to, false);
    zset_iter_init(call, &search->entry, from, to, false, &iter);
    while (places->count < max && zset_iter_next(&iter)) {
        call_count_work(call, search->shape.corners_count);
        struct place place = {.row = {iter.member, iter.score}, .point = geo_of_score(iter.score)};
        if (geo_contains(&search->shape, place.point, &place.distance))
            places_add(call, places, place);
    }
    return zset_iter_fini(&iter);
}

/* merge_compare_fn */
static int nearest_first(const void *a, const void *b, void *owner)
{
    const struct place *x = a;
    const struct place *y = b;
    (void)owner;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* merge_compare_fn */
static int farthest_first(const void *a, const void *b, void *owner)
{
    const struct place *x = a;
    const struct place *y = b;
    (void)owner;
    if (x->distance != y->distance)
        return x->distance > y->distance ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool search_run(struct call *call, struct search *search, struct places *places)
{
    struct geo_cell cells[GEOHASH_CELLS];
    uint64_t max = search->any ? (uint64_t)search->count : UINT64_MAX;
    uint32_t count = geo_cover(&search->shape, cells);
    bool is_good = true;
    for (uint32_t i = 0; i < count && places->count < max; i++)
        if (!search_cell(call, search, cells[i], max, places))
            return false;
    if (search->count && search->order == UNSORTED && !search->any)
        search->order = ASCENDING;
    if (places->count && search->order != UNSORTED)
        is_good = merge_sort(call->arena, places->place, places->count, sizeof *places->place,
                             search->order == ASCENDING ? nearest_first : farthest_first, NULL);
    if (search->count && places->count > (uint64_t)search->count)
        places->count = (uint64_t)search->count;
    return is_good;
}

static void reply_places(struct call *call, const struct search *search,
                         const struct places *places)
{
    int64_t details = search->with_distance + search->with_hash + search->with_point;
    reply_array(&call->reply, (int64_t)places->count);
    for (uint64_t i = 0; i < places->count && call_goes_on(call, BUDGET_ROW); i++) {
        const struct place *place = &places->place[i];
        if (details)
            reply_array(&call->reply, 1 + details);
        reply_bulk(&call->reply, place->row.member);
        if (search->with_distance)
            geo_reply_distance(call, place->distance / search->shape.unit);
        if (search->with_hash)
            reply_int(&call->reply, (int64_t)place->row.score);
        if (search->with_point)
            geo_reply_point(call, place->point);
    }
}

static void store_places(struct call *call, const struct search *search,
                         const struct places *places)
{
    struct zset_rows rows = {.count = places->count};
    rows.row = arena_alloc(call->arena, (places->count + 1) * sizeof *rows.row);
    for (uint64_t i = 0; i < places->count; i++) {
        rows.row[i] = places->place[i].row;
        if (search->store_distances)
            rows.row[i].score = places->place[i].distance / search->shape.unit;
    }
    zset_store(call, *search->target, &rows,
               search->form == SEARCH ? "geosearchstore" : "georadiusstore");
    if (rows.count)
        call_changes(call, (int64_t)rows.count - 1);
}

static void run_search(struct call *call, struct search search)
{
    struct places places = {0};
    if (!zset_open_read(call, call->argv[search.key_at], &search.entry) ||
        !search_parse(call, &search))
        return;
    if (search.entry.exists && !search_run(call, &search, &places))
        return;
    if (search.target)
        store_places(call, &search, &places);
    else
        reply_places(call, &search, &places);
}

void cmd_georadius(struct call *call)
{
    run_search(call, (struct search){.form = BY_POINT, .key_at = 1, .may_store = true});
}

void cmd_georadius_ro(struct call *call)
{
    run_search(call, (struct search){.form = BY_POINT, .key_at = 1});
}

void cmd_georadiusbymember(struct call *call)
{
    run_search(call, (struct search){.form = BY_MEMBER, .key_at = 1, .may_store = true});
}

void cmd_georadiusbymember_ro(struct call *call)
{
    run_search(call, (struct search){.form = BY_MEMBER, .key_at = 1});
}

void cmd_geosearch(struct call *call)
{
    run_search(call, (struct search){.form = SEARCH, .key_at = 1});
}

void cmd_geosearchstore(struct call *call)
{
    run_search(call, (struct search){.form = SEARCH, .key_at = 2, .target = &call->argv[1]});
}
