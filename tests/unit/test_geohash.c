#include "backend/format/geohash.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(points_become_known_numbers)
{
    ck_assert_uint_eq(geohash_encode((struct geo_point){13.361389, 38.115556}), 3479099956230698);
    ck_assert_uint_eq(geohash_encode((struct geo_point){15.087269, 37.502669}), 3479447370796909);
    ck_assert_uint_eq(geohash_encode((struct geo_point){-180, -GEO_LATITUDE_MAX}), 0);
}
END_TEST

START_TEST(numbers_become_points_again)
{
    struct geo_point point = geohash_decode(3479099956230698);
    ck_assert(fabs(point.longitude - 13.36138933897018433) < 1e-15);
    ck_assert(fabs(point.latitude - 38.11555639549629859) < 1e-14);
}
END_TEST

START_TEST(geohashes_have_their_standard_texts)
{
    char text[GEOHASH_TEXT];
    geohash_text(3479099956230698, text);
    ck_assert_mem_eq(text, "sqc8b49rny0", GEOHASH_TEXT);
    geohash_text(3479447370796909, text);
    ck_assert_mem_eq(text, "sqdtr74hyu0", GEOHASH_TEXT);
}
END_TEST

START_TEST(distances_are_great_circles)
{
    double metres =
        geo_distance(geohash_decode(3479099956230698), geohash_decode(3479447370796909));
    ck_assert(fabs(metres - 166274.1516) < 1e-3);
}
END_TEST

START_TEST(points_inside_lie_in_a_cell)
{
    for (int i = 0; i < 2000; i++) {
        struct geo_shape shape = {
            .center = {i % 357 - 178.0, i % 161 - 80.0}, .radius = 1 << i % 20, .unit = 1};
        struct geo_cell cells[GEOHASH_CELLS];
        uint32_t count = geo_cover(&shape, cells);
        uint64_t bits = geohash_encode(shape.center);
        bool is_covered = false;
        ck_assert_uint_ge(count, 1);
        ck_assert_uint_le(count, GEOHASH_CELLS);
        for (uint32_t j = 0; j < count; j++)
            is_covered |= cells[j].from <= bits && bits < cells[j].to;
        ck_assert(is_covered);
    }
}
END_TEST

static double random_degrees(double max)
{
    return (rand() / (double)RAND_MAX * 2 - 1) * max;
}

/* Points of random polygons, small and as large as the globe, are in exactly one cell. */
START_TEST(points_in_a_polygon_lie_in_a_cell)
{
    enum { CORNERS = 7, POINTS = 50 };
    int inside = 0;
    srand(1);
    for (int i = 0; i < 2000; i++) {
        struct geo_point corners[CORNERS];
        struct geo_shape shape;
        struct geo_cell cells[GEOHASH_CELLS];
        struct geo_point around = {random_degrees(170), random_degrees(80)};
        double size = pow(10, rand() % 7 - 4) * 2;
        for (int j = 0; j < CORNERS; j++) {
            double x = around.longitude + random_degrees(size);
            double y = around.latitude + random_degrees(size);
            corners[j] = (struct geo_point){fmax(-180, fmin(180, x)), fmax(-85, fmin(85, y))};
        }
        geo_set_polygon(&shape, corners, CORNERS);
        uint32_t count = geo_cover(&shape, cells);
        for (int j = 0; j < POINTS; j++) {
            double distance = -1;
            int times = 0;
            uint64_t bits = geohash_encode(
                (struct geo_point){fmax(-180, fmin(179.9, around.longitude + random_degrees(size))),
                                   fmax(-85, fmin(85, around.latitude + random_degrees(size)))});
            if (!geo_contains(&shape, geohash_decode(bits), &distance))
                continue;
            for (uint32_t k = 0; k < count; k++)
                times += cells[k].from <= bits && bits < cells[k].to;
            ck_assert_int_eq(times, 1);
            ck_assert(distance >= 0);
            inside++;
        }
    }
    ck_assert_int_gt(inside, 10000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("geohash");
    TCase *tcase = tcase_create("geohash");
    tcase_add_test(tcase, points_become_known_numbers);
    tcase_add_test(tcase, numbers_become_points_again);
    tcase_add_test(tcase, geohashes_have_their_standard_texts);
    tcase_add_test(tcase, distances_are_great_circles);
    tcase_add_test(tcase, points_inside_lie_in_a_cell);
    tcase_add_test(tcase, points_in_a_polygon_lie_in_a_cell);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
