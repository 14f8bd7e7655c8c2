#include "backend/format/xxh3.h"
#include "tests/unit/suite.h"

/* Results of the reference implementation, version 0.8.1, for the first `len` bytes of byte i = i * 7 + i / 256. */
static const struct {
    size_t len;
    uint64_t hash;
} KNOWN[] = {
    {0, 0x2d06800538d394c2U},     {1, 0xc44bdff4074eecdbU},     {2, 0x9093381c8763d62eU},
    {3, 0xc3489259e968ad9eU},     {4, 0xd3d60c1519014e89U},     {5, 0x559935c0f3f7327fU},
    {8, 0xb88dee77f6bf6980U},     {9, 0x03688dcad730d826U},     {16, 0x9da23836adf2be1eU},
    {17, 0xf34c3c9cf5a112d1U},    {32, 0x99cb9ad0f1a11fbeU},    {33, 0xc077b45492d29cdeU},
    {128, 0x65f3c2c00fa93185U},   {129, 0x28065c6ec25f5b25U},   {160, 0xcc592da68fea2254U},
    {239, 0x6ce0b13191e635eaU},   {240, 0x4917a75c0ef8eed7U},   {241, 0x541b19226f0052e8U},
    {256, 0xff5a1cefade75bb9U},   {500, 0x07ba3894901451a8U},   {512, 0xe0410eb388a9c9faU},
    {1023, 0x3d31fcc1037648a4U},  {1024, 0x71bee625238addb4U},  {1025, 0xd9b414f4e1bbf7adU},
    {1087, 0x447e484994151cb5U},  {1088, 0xb74e423e955e509dU},  {1089, 0x6acaa6909cdbe786U},
    {2048, 0x3293e8238bd8f743U},  {2049, 0x922549b11c04c2ebU},  {5000, 0xed0146266d138bd8U},
    {65536, 0x9ae973f97c1f3ebaU}, {99999, 0x2cba7fbc2ddd0b0aU},
};

enum { INPUT = 100000 };

static char *input_new(void)
{
    char *input = malloc(INPUT);
    ck_assert_ptr_nonnull(input);
    for (size_t i = 0; i < INPUT; i++)
        input[i] = (char)(i * 7 + i / 256);
    return input;
}

START_TEST(inputs_of_every_kind_of_length_have_the_reference_hash)
{
    char *input = input_new();
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        struct xxh3 hash;
        xxh3_init(&hash);
        xxh3_add(&hash, (struct bytes){input, KNOWN[i].len});
        ck_assert_uint_eq(xxh3_result(&hash), KNOWN[i].hash);
        ck_assert_uint_eq(xxh3_result(&hash), KNOWN[i].hash);
    }
    free(input);
}
END_TEST

START_TEST(an_input_in_pieces_has_the_same_hash)
{
    char *input = input_new();
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
            struct xxh3 hash;
            xxh3_init(&hash);
            for (size_t at = 0; at < KNOWN[i].len; at += piece) {
                size_t left = KNOWN[i].len - at;
                xxh3_add(&hash, (struct bytes){input + at, left < piece ? left : piece});
            }
            ck_assert_uint_eq(xxh3_result(&hash), KNOWN[i].hash);
        }
    free(input);
}
END_TEST

START_TEST(zeros_count_as_bytes)
{
    char zeros[3000] = {0};
    for (size_t len = 0; len <= sizeof zeros; len += 97) {
        struct xxh3 a;
        struct xxh3 b;
        xxh3_init(&a);
        xxh3_init(&b);
        xxh3_add(&a, BYTES("x"));
        xxh3_add(&b, BYTES("x"));
        xxh3_add(&a, (struct bytes){zeros, len});
        xxh3_add_zeros(&b, len);
        ck_assert_uint_eq(xxh3_result(&a), xxh3_result(&b));
    }
}
END_TEST

START_TEST(hashes_are_sixteen_digits)
{
    char text[XXH3_HEX_DIGITS];
    uint64_t value;
    struct xxh3 hash;
    xxh3_init(&hash);
    xxh3_add(&hash, BYTES("Hello world"));
    xxh3_format(xxh3_result(&hash), text);
    ck_assert(bytes_equal((struct bytes){text, sizeof text}, BYTES("b6acb9d84a38ff74")));
    xxh3_format(0x12ab, text);
    ck_assert(bytes_equal((struct bytes){text, sizeof text}, BYTES("00000000000012ab")));
    ck_assert(xxh3_parse((struct bytes){text, sizeof text}, &value));
    ck_assert_uint_eq(value, 0x12ab);
    ck_assert(xxh3_parse(BYTES("FFFFFFFFffffffff"), &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(!xxh3_parse(BYTES(""), &value));
    ck_assert(!xxh3_parse(BYTES("12ab"), &value));
    ck_assert(!xxh3_parse(BYTES("000000000000012ab"), &value));
    ck_assert(!xxh3_parse(BYTES("00000000000012ag"), &value));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xxh3");
    TCase *tcase = tcase_create("xxh3");
    tcase_add_test(tcase, inputs_of_every_kind_of_length_have_the_reference_hash);
    tcase_add_test(tcase, an_input_in_pieces_has_the_same_hash);
    tcase_add_test(tcase, zeros_count_as_bytes);
    tcase_add_test(tcase, hashes_are_sixteen_digits);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
