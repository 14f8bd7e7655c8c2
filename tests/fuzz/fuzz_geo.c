/*
 * fuzz_geo.c - shapes of GEOSEARCH: each point that lies in a circle, a box or a polygon is in exactly one of the cells that
 * cover the shape.
 *
 * Input: a byte for the form, two doubles each for the point and the centre, two for the size, then the corners.
 */
#include "backend/format/geohash.h"
#include "shared/check.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CORNERS_MAX = 64, HEAD_BYTES = 49 };

/* The number, if it is between -max and max, else some number that is. */
static double number_at(const uint8_t *data, double max)
{
    double number;
    memcpy(&number, data, sizeof number);
    if (!isfinite(number))
        return 0;
    return fabs(number) <= max ? number : fmod(number, max);
}

static struct geo_point point_at(const uint8_t *data)
{
    return (struct geo_point){number_at(data, GEO_LONGITUDE_MAX),
                              number_at(data + 8, GEO_LATITUDE_MAX)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct geo_point corners[CORNERS_MAX];
    struct geo_cell cells[GEOHASH_CELLS];
    uint32_t count = 0;
    double distance;
    if (size < HEAD_BYTES + 16)
        return 0;
    struct geo_shape shape = {
        .form = data[0] % 3 == 0 ? GEO_CIRCLE : GEO_BOX,
        .center = point_at(data + 17),
        .radius = fabs(number_at(data + 33, 1000)),
        .width = fabs(number_at(data + 33, 1000)),
        .height = fabs(number_at(data + 41, 1000)),
        .unit = 1,
    };
    for (size_t at = HEAD_BYTES; at + 16 <= size && count < CORNERS_MAX; at += 16)
        corners[count++] = point_at(data + at);
    if (data[0] % 3 == 2)
        geo_set_polygon(&shape, corners, count);
    uint64_t bits = geohash_encode(point_at(data + 1));
    uint32_t covered = geo_cover(&shape, cells);
    CHECK(covered >= 1 && covered <= GEOHASH_CELLS);
    if (bits >> 52 || !geo_contains(&shape, geohash_decode(bits), &distance))
        return 0;
    uint32_t times = 0;
    for (uint32_t i = 0; i < covered; i++)
        times += cells[i].from <= bits && bits < cells[i].to;
    if (shape.form == GEO_POLYGON)
        CHECK(times == 1);
    CHECK(times <= 1);
    return 0;
}
