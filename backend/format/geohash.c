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

/* The point on the surface in the direction of the sum of the vectors from the centre of the globe to the points. */
static struct geo_point mean_of(const struct geo_point *points, uint32_t count)
{
    double x = 0;
    double y = 0;
    double z = 0;
    for (uint32_t i = 0; i < count; i++) {
        double longitude = radians(points[i].longitude);
        double latitude = radians(points[i].latitude);
        x += cos(latitude) * cos(longitude);
        y += cos(latitude) * sin(longitude);
        z += sin(latitude);
    }
    return (struct geo_point){degrees(atan2(y, x)), degrees(atan2(z, sqrt(x * x + y * y)))};
}

void geo_set_polygon(struct geo_shape *shape, const struct geo_point *corners, uint32_t count)
{
    *shape = (struct geo_shape){
        .form = GEO_POLYGON,
        .center = mean_of(corners, count),
        .unit = 1,
        .corners = corners,
        .corners_count = count,
        .min = corners[0],
        .max = corners[0],
    };
    for (uint32_t i = 1; i < count; i++) {
        shape->min.longitude = fmin(shape->min.longitude, corners[i].longitude);
        shape->min.latitude = fmin(shape->min.latitude, corners[i].latitude);
        shape->max.longitude = fmax(shape->max.longitude, corners[i].longitude);
        shape->max.latitude = fmax(shape->max.latitude, corners[i].latitude);
    }
}

/* Even-odd rule: a line from the point eastwards crosses the border an odd number of times. */
static bool polygon_contains(const struct geo_shape *shape, struct geo_point point)
{
    bool is_inside = false;
    if (point.longitude < shape->min.longitude || point.longitude > shape->max.longitude ||
        point.latitude < shape->min.latitude || point.latitude > shape->max.latitude)
        return false;
    struct geo_point a = shape->corners[shape->corners_count - 1];
    for (uint32_t i = 0; i < shape->corners_count; i++) {
        struct geo_point b = shape->corners[i];
        if ((a.latitude > point.latitude) != (b.latitude > point.latitude) &&
            point.longitude < (b.longitude - a.longitude) * (point.latitude - a.latitude) /
                                      (b.latitude - a.latitude) +
                                  a.longitude)
            is_inside = !is_inside;
        a = b;
    }
    return is_inside;
}

static bool box_contains(const struct geo_shape *shape, struct geo_point point)
{
    struct geo_point beside = {shape->center.longitude, point.latitude};
    struct geo_point below = {point.longitude, shape->center.latitude};
    return geo_distance(point, beside) <= shape->width * shape->unit / 2 &&
           geo_distance(point, below) <= shape->height * shape->unit / 2;
}

bool geo_contains(const struct geo_shape *shape, struct geo_point point, double *distance)
{
    if ((shape->form == GEO_BOX && !box_contains(shape, point)) ||
        (shape->form == GEO_POLYGON && !polygon_contains(shape, point)))
        return false;
    *distance = geo_distance(shape->center, point);
    return shape->form != GEO_CIRCLE || *distance <= shape->radius * shape->unit;
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
    if (shape->form == GEO_POLYGON)
        return (struct area){shape->min, shape->max};
    bool is_box = shape->form == GEO_BOX;
    double height = shape->unit * (is_box ? shape->height / 2 : shape->radius);
    double width = shape->unit * (is_box ? shape->width / 2 : shape->radius);
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

/* The precision of the cells around the centre of a circle or a box, and the cell with the centre. */
static int round_steps(const struct geo_shape *shape, const struct area *bounds, uint64_t *home)
{
    double x = shape->width / 2;
    double y = shape->height / 2;
    double radius = (shape->form == GEO_BOX ? sqrt(x * x + y * y) : shape->radius) * shape->unit;
    int steps = steps_for(radius, shape->center.latitude);
    *home = encode_point(shape->center, GEO_LATITUDE_MAX, steps);
    if (steps > 1 && is_too_fine(bounds, *home, steps)) {
        steps--;
        *home = encode_point(shape->center, GEO_LATITUDE_MAX, steps);
    }
    return steps;
}

/* … of a polygon: cells as coarse as for a circle with its farthest corner, so that members without an order come in Valkey's
 * order, and no side of a cell shorter than the way from the centre to an end of the polygon. */
static int polygon_steps(const struct geo_shape *shape, uint64_t *home)
{
    static const double LITTLE =
        1e-9; /* a centre at the edge of the map belongs to the last cell */
    struct geo_point center = {
        within(shape->center.longitude, GEO_LONGITUDE_MAX - LITTLE),
        within(shape->center.latitude, GEO_LATITUDE_MAX - LITTLE),
    };
    double width =
        fmax(shape->max.longitude - center.longitude, center.longitude - shape->min.longitude);
    double height =
        fmax(shape->max.latitude - center.latitude, center.latitude - shape->min.latitude);
    double radius = 0;
    for (uint32_t i = 0; i < shape->corners_count; i++)
        radius = fmax(radius, geo_distance(shape->center, shape->corners[i]));
    int steps = steps_for(radius, center.latitude);
    while (steps > 1 && (ldexp(2 * GEO_LONGITUDE_MAX, -steps) < width ||
                         ldexp(2 * GEO_LATITUDE_MAX, -steps) < height))
        steps--;
    *home = encode_point(center, GEO_LATITUDE_MAX, steps);
    return steps;
}

uint32_t geo_cover(const struct geo_shape *shape, struct geo_cell cells[GEOHASH_CELLS])
{
    static const int8_t AROUND[GEOHASH_CELLS][2] = {{0, 0}, {0, 1},  {0, -1}, {1, 0},  {-1, 0},
                                                    {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};
    uint64_t home;
    struct area bounds = bounds_of(shape);
    int steps = shape->form == GEO_POLYGON ? polygon_steps(shape, &home)
                                           : round_steps(shape, &bounds, &home);
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
