/*
 * geohash.c - interleaving, distances, and the cells that cover a shape.
 */
#include "backend/format/geohash.h"

#include <math.h>

static const double EARTH_RADIUS = 6372797.560856;
static const double MERCATOR_MAX = 20037726.37; /* half of the earth's circumference, in metres */

/* ---- bits ---- */

/* Moves bit i to bit 2i. */
static uint64_t spread(uint32_t number)
{
    uint64_t bits = number;
    bits = (bits | bits << 16) & UINT64_C(0x0000ffff0000ffff);
    bits = (bits | bits << 8) & UINT64_C(0x00ff00ff00ff00ff);
    bits = (bits | bits << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    bits = (bits | bits << 2) & UINT64_C(0x3333333333333333);
    return (bits | bits << 1) & UINT64_C(0x5555555555555555);
}

/* Moves bit 2i to bit i. */
static uint32_t gather(uint64_t bits)
{
    bits &= UINT64_C(0x5555555555555555);
    bits = (bits | bits >> 1) & UINT64_C(0x3333333333333333);
    bits = (bits | bits >> 2) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    bits = (bits | bits >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    bits = (bits | bits >> 8) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(bits | bits >> 16);
}

static uint64_t encode_point(struct geo_point point, double latitude_max, int steps)
{
    double scale = (double)(UINT64_C(1) << steps);
    double x = (point.longitude + GEO_LONGITUDE_MAX) / (2 * GEO_LONGITUDE_MAX);
    double y = (point.latitude + latitude_max) / (2 * latitude_max);
    return spread((uint32_t)(y * scale)) | spread((uint32_t)(x * scale)) << 1;
}

/* A cell on the globe. */
struct area {
    struct geo_point min, max;
};

static struct area area_of(uint64_t bits, int steps)
{
    double scale = (double)(UINT64_C(1) << steps);
    uint32_t x = gather(bits >> 1);
    uint32_t y = gather(bits);
    double width = 2 * GEO_LONGITUDE_MAX;
    double height = 2 * GEO_LATITUDE_MAX;
    return (struct area){
        .min = {-GEO_LONGITUDE_MAX + x / scale * width, -GEO_LATITUDE_MAX + y / scale * height},
        .max = {-GEO_LONGITUDE_MAX + ((double)x + 1) / scale * width,
                -GEO_LATITUDE_MAX + ((double)y + 1) / scale * height},
    };
}

uint64_t geohash_encode(struct geo_point point)
{
    return encode_point(point, GEO_LATITUDE_MAX, GEOHASH_STEPS);
}

static double within(double value, double max)
{
    return value > max ? max : value < -max ? -max : value;
}

struct geo_point geohash_decode(uint64_t bits)
{
    struct area area = area_of(bits, GEOHASH_STEPS);
    return (struct geo_point){
        within((area.min.longitude + area.max.longitude) / 2, GEO_LONGITUDE_MAX),
        within((area.min.latitude + area.max.latitude) / 2, GEO_LATITUDE_MAX),
    };
}

void geohash_text(uint64_t bits, char text[GEOHASH_TEXT])
{
    static const char LETTERS[] = "0123456789bcdefghjkmnpqrstuvwxyz";
    /* the text form covers latitudes up to 90 degrees, Redis' scores only up to 85 */
    uint64_t usual = encode_point(geohash_decode(bits), 90, GEOHASH_STEPS);
    for (int i = 0; i < GEOHASH_TEXT - 1; i++)
        text[i] = LETTERS[usual >> (52 - 5 * (i + 1)) & 31];
    text[GEOHASH_TEXT - 1] = LETTERS[0]; /* 2 of 52 bits are left; Redis always writes 0 */
}

/* ---- distances ---- */

static double radians(double degrees)
{
    return degrees * (M_PI / 180.0);
}

static double degrees(double radians)
{
    return radians / (M_PI / 180.0);
}

double geo_distance(struct geo_point a, struct geo_point b)
{
    double latitude_a = radians(a.latitude);
    double latitude_b = radians(b.latitude);
    double u = sin((latitude_b - latitude_a) / 2);
    double v = sin((radians(b.longitude) - radians(a.longitude)) / 2);
    return 2.0 * EARTH_RADIUS * asin(sqrt(u * u + cos(latitude_a) * cos(latitude_b) * v * v));
}

bool geo_contains(const struct geo_shape *shape, struct geo_point point, double *distance)
{
    struct geo_point center = shape->center;
    if (shape->is_box) {
        struct geo_point beside = {center.longitude, point.latitude};
        struct geo_point below = {point.longitude, center.latitude};
        if (geo_distance(point, beside) > shape->width * shape->unit / 2 ||
            geo_distance(point, below) > shape->height * shape->unit / 2)
            return false;
    }
    *distance = geo_distance(center, point);
    return shape->is_box || *distance <= shape->radius * shape->unit;
}

/* ---- covering ---- */

/* Precision at which nine cells cover the radius. */
static int steps_for(double metres, double latitude)
{
    int steps = 1;
    if (metres == 0)
        return GEOHASH_STEPS;
    for (; metres < MERCATOR_MAX; metres *= 2)
        steps++;
    steps -= 2;
    if (fabs(latitude) > 66) /* cells are narrow near the poles */
        steps -= fabs(latitude) > 80 ? 2 : 1;
    return steps < 1 ? 1 : steps > GEOHASH_STEPS ? GEOHASH_STEPS : steps;
}

/* The smallest area in degrees that contains the shape. */
static struct area bounds_of(const struct geo_shape *shape)
{
    double height = shape->unit * (shape->is_box ? shape->height / 2 : shape->radius);
    double width = shape->unit * (shape->is_box ? shape->width / 2 : shape->radius);
    double x = shape->center.longitude;
    double y = shape->center.latitude;
    double dy = degrees(height / EARTH_RADIUS);
    double dx = degrees(width / EARTH_RADIUS / cos(radians(y < 0 ? y - dy : y + dy)));
    return (struct area){{x - dx, y - dy}, {x + dx, y + dy}};
}

/* The cell `dx` columns and `dy` rows away; wraps around. */
static uint64_t cell_beside(uint64_t bits, int dx, int dy, int steps)
{
    uint32_t mask = (uint32_t)((UINT64_C(1) << steps) - 1);
    uint32_t x = gather(bits >> 1);
    uint32_t y = gather(bits);
    if (dx)
        x = (x + (uint32_t)dx) & mask;
    if (dy)
        y = (y + (uint32_t)dy) & mask;
    return spread(y) | spread(x) << 1;
}

/* Does one of the four neighbouring cells end inside the shape? */
static bool is_too_fine(const struct area *bounds, uint64_t bits, int steps)
{
    return area_of(cell_beside(bits, 0, 1, steps), steps).max.latitude < bounds->max.latitude ||
           area_of(cell_beside(bits, 0, -1, steps), steps).min.latitude > bounds->min.latitude ||
           area_of(cell_beside(bits, 1, 0, steps), steps).max.longitude < bounds->max.longitude ||
           area_of(cell_beside(bits, -1, 0, steps), steps).min.longitude > bounds->min.longitude;
}

uint32_t geo_cover(const struct geo_shape *shape, struct geo_cell cells[GEOHASH_CELLS])
{
    static const int8_t AROUND[GEOHASH_CELLS][2] = {{0, 0}, {0, 1},  {0, -1}, {1, 0},  {-1, 0},
                                                    {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};
    double x = shape->width / 2;
    double y = shape->height / 2;
    double radius = (shape->is_box ? sqrt(x * x + y * y) : shape->radius) * shape->unit;
    int steps = steps_for(radius, shape->center.latitude);
    uint64_t home = encode_point(shape->center, GEO_LATITUDE_MAX, steps);
    struct area bounds = bounds_of(shape);
    if (steps > 1 && is_too_fine(&bounds, home, steps)) {
        steps--;
        home = encode_point(shape->center, GEO_LATITUDE_MAX, steps);
    }
    struct area area = area_of(home, steps);
    uint32_t count = 0;
    int last = 0; /* index of the last cell added */
    uint64_t last_bits = 0;
    for (int i = 0; i < GEOHASH_CELLS; i++) {
        int dx = AROUND[i][0];
        int dy = AROUND[i][1];
        uint64_t bits = cell_beside(home, dx, dy, steps);
        if (steps >= 2 && ((dy < 0 && area.min.latitude < bounds.min.latitude) ||
                           (dy > 0 && area.max.latitude > bounds.max.latitude) ||
                           (dx < 0 && area.min.longitude < bounds.min.longitude) ||
                           (dx > 0 && area.max.longitude > bounds.max.longitude)))
            continue;
        if (last && bits == last_bits)
            continue; /* wrapped around to the same cell */
        int shift = 2 * (GEOHASH_STEPS - steps);
        cells[count++] = (struct geo_cell){bits << shift, (bits + 1) << shift};
        last = i;
        last_bits = bits;
    }
    return count;
}
