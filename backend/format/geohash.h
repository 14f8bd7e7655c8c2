/*
 * geohash.h - points on the globe as numbers: points near each other have close numbers.
 *
 *   longitude  ─► 26 bits ─┐  bit by bit in turn, longitude first
 *   latitude   ─► 26 bits ─┴─► 52 bits: a score that a double holds exactly
 *
 * The first 2n bits name one of 4^n cells; all points of a cell are a contiguous range of scores. Method:
 * https://en.wikipedia.org/wiki/Geohash. Floating-point operations are in Redis' order, so that results are equal to the
 * last digit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GEOHASH_STEPS = 26, GEOHASH_TEXT = 11, GEOHASH_CELLS = 9 };

#define GEO_LONGITUDE_MAX 180.0
#define GEO_LATITUDE_MAX  85.05112878

struct geo_point {
    double longitude, latitude;
};

enum geo_form { GEO_CIRCLE, GEO_BOX, GEO_POLYGON };

/* A circle or a box around a point, or a polygon. */
struct geo_shape {
    enum geo_form form;
    struct geo_point center;
    double radius, width, height; /* of a circle or a box, multiples of `unit` */
    double unit;                  /* metres per unit */
    /* Of a polygon: its corners, in order; lines between them are straight in degrees and do not cross the antimeridian. */
    const struct geo_point *corners;
    uint32_t corners_count;
    struct geo_point min, max;
};

/* Scores of one cell: [from, to). */
struct geo_cell {
    uint64_t from, to;
};

uint64_t geohash_encode(struct geo_point point);
struct geo_point geohash_decode(uint64_t bits);
/* The standard text form with 11 characters. */
void geohash_text(uint64_t bits, char text[GEOHASH_TEXT]);
/* Metres along a great circle. */
double geo_distance(struct geo_point a, struct geo_point b);
/* Makes the shape a polygon with these corners, at least one, which are borrowed. Its centre is the mean of the corners on the
 * sphere. */
void geo_set_polygon(struct geo_shape *shape, const struct geo_point *corners, uint32_t count);
/* Is the point inside? *distance: from the centre, in metres. */
bool geo_contains(const struct geo_shape *shape, struct geo_point point, double *distance);
/* The cells that cover the shape, in search order; returns their number. */
uint32_t geo_cover(const struct geo_shape *shape, struct geo_cell cells[GEOHASH_CELLS]);
