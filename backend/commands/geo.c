/*
 * geo.c - GEOADD, GEODIST, GEOPOS, GEOHASH: sorted sets whose scores are points (geohash.h).
 */
#include "backend/commands/geo.h"

#include "backend/dispatch/handlers.h"
#include "shared/number.h"

#include <stdio.h>
#include <string.h>

/* Converts a score to bits; gives the same result on every machine, also for scores that are not valid points. */
static uint64_t point_bits(double score)
{
    static const double HALF = 9223372036854775808.0; /* 2^63 */
    if (score >= HALF)
        return score < 2 * HALF ? (uint64_t)score : 0;
    return score >= -HALF ? (uint64_t)(int64_t)score : UINT64_C(1) << 63;
}

struct geo_point geo_of_score(double score)
{
    return geohash_decode(point_bits(score));
}

int geo_of_member(struct call *call, struct entry *entry, struct bytes member,
                  struct geo_point *point)
{
    double score;
    int err = zset_score(call, entry, member, &score);
    if (err == OK)
        *point = geo_of_score(score);
    return err;
}

bool geo_parse_point(struct call *call, uint32_t at, struct geo_point *point)
{
    if (!number_parse_double(call->argv[at], &point->longitude) ||
        !number_parse_double(call->argv[at + 1], &point->latitude)) {
        call_error(call, ERR_NOT_FLOAT);
        return false;
    }
    if (point->longitude >= -GEO_LONGITUDE_MAX && point->longitude <= GEO_LONGITUDE_MAX &&
        point->latitude >= -GEO_LATITUDE_MAX && point->latitude <= GEO_LATITUDE_MAX)
        return true;
    char text[1024]; /* %f writes up to 317 characters */
    (void)snprintf(text, sizeof text, "ERR invalid longitude,latitude pair %f,%f", point->longitude,
                   point->latitude);
    call_error_text(call, text);
    return false;
}

bool geo_parse_unit(struct call *call, uint32_t at, double *unit)
{
    if (bytes_is(call->argv[at], "m"))
        *unit = 1;
    else if (bytes_is(call->argv[at], "km"))
        *unit = 1000;
    else if (bytes_is(call->argv[at], "ft"))
        *unit = 0.3048;
    else if (bytes_is(call->argv[at], "mi"))
        *unit = 1609.34;
    else
        call_error_text(call, "ERR unsupported unit provided. please use M, KM, FT, MI");
    return !call->failed;
}

void geo_reply_distance(struct call *call, double distance)
{
    char text[DOUBLE_TEXT_MAX];
    int len = snprintf(text, sizeof text, "%.4f", distance);
    reply_bulk(&call->reply, (struct bytes){text, (size_t)len});
}

static void reply_degrees(struct call *call, double degrees)
{
    char text[DOUBLE_TEXT_MAX] = ",";
    size_t len = number_format_long_double(text + 1, degrees); /* at most 22 characters */
    if (call->reply.resp < 3) {
        reply_bulk(&call->reply, (struct bytes){text + 1, len});
        return;
    }
    text[1 + len] = '\r';
    text[2 + len] = '\n';
    out_write(call->reply.out, text, 3 + len);
}

void geo_reply_point(struct call *call, struct geo_point point)
{
    reply_array(&call->reply, 2);
    reply_degrees(call, point.longitude);
    reply_degrees(call, point.latitude);
}

/* ---- commands ---- */

/* GEOADD is ZADD with scores computed from points. */
void cmd_geoadd(struct call *call)
{
    const struct bytes *argv = call->argv;
    uint32_t argc = call->argc;
    bool is_nx = false;
    bool is_xx = false;
    uint32_t at = 2;
    for (; at < argc; at++) {
        if (bytes_is(argv[at], "nx"))
            is_nx = true;
        else if (bytes_is(argv[at], "xx"))
            is_xx = true;
        else if (!bytes_is(argv[at], "ch"))
            break;
    }
    if ((argc - at) % 3 || (is_nx && is_xx)) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    struct bytes *words = arena_alloc(call->arena, argc * sizeof *words);
    uint32_t count = at;
    memcpy(words, argv, at * sizeof *words);
    for (; at < argc; at += 3) {
        struct geo_point point;
        char *text = arena_alloc(call->arena, INT64_TEXT_MAX);
        if (!geo_parse_point(call, at, &point))
            return;
        words[count++] =
            (struct bytes){text, number_format_int64(text, (int64_t)geohash_encode(point))};
        words[count++] = argv[at + 2];
    }
    call->argv = words;
    call->argc = count;
    cmd_zadd(call);
    call->argv = argv;
    call->argc = argc;
}

void cmd_geodist(struct call *call)
{
    struct entry entry;
    struct geo_point a;
    struct geo_point b;
    double unit = 1;
    if (call->argc > 5) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    if ((call->argc == 5 && !geo_parse_unit(call, 4, &unit)) ||
        !zset_open_read(call, call->argv[1], &entry))
        return;
    int err = geo_of_member(call, &entry, call->argv[2], &a);
    if (err == OK)
        err = geo_of_member(call, &entry, call->argv[3], &b);
    if (err == ERR_NOT_FOUND)
        reply_null(&call->reply);
    else if (err == OK)
        geo_reply_distance(call, geo_distance(a, b) / unit);
}

void cmd_geohash(struct call *call)
{
    struct entry entry;
    if (!zset_open_read(call, call->argv[1], &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc; i++) {
        char text[GEOHASH_TEXT];
        double score;
        int err = zset_score(call, &entry, call->argv[i], &score);
        if (is_read_failure(err))
            return;
        if (err == ERR_NOT_FOUND) {
            reply_null(&call->reply);
            continue;
        }
        geohash_text(point_bits(score), text);
        reply_bulk(&call->reply, (struct bytes){text, sizeof text});
    }
}

void cmd_geopos(struct call *call)
{
    struct entry entry;
    if (!zset_open_read(call, call->argv[1], &entry))
        return;
    reply_array(&call->reply, call->argc - 2);
    for (uint32_t i = 2; i < call->argc; i++) {
        struct geo_point point;
        int err = geo_of_member(call, &entry, call->argv[i], &point);
        if (is_read_failure(err))
            return;
        if (err == OK)
            geo_reply_point(call, point);
        else
            reply_null_array(&call->reply);
    }
}
