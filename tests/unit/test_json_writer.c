/*
 * test_json_writer.c - the JSON writer: structure, numbers, and arbitrary bytes in strings.
 */
#include "shared/json_writer.h"

#include "shared/check.h"

#include <math.h>

static char written[4096];

/* The text written so far; empties `out`. */
static const char *text_of(struct out *out)
{
    CHECK(out->bytes < sizeof written);
    out_copy(out, written);
    written[out->bytes] = '\0';
    out_clear(out);
    return written;
}

/* The JSON text of json_put_shown(). */
static const char *shown(struct bytes bytes, size_t max)
{
    struct json_writer writer;
    struct out out;
    out_init(&out);
    json_writer_init(&writer, &out);
    json_put_shown(&writer, NULL, bytes, max);
    json_writer_fini(&writer);
    return text_of(&out);
}

static void test_commas_stand_between_items_only(void)
{
    struct json_writer writer;
    struct out out;
    out_init(&out);
    json_writer_init(&writer, &out);
    json_put_object(&writer, NULL);
    json_put_list(&writer, "empty");
    json_put_end(&writer);
    json_put_list(&writer, "list");
    json_put_uint(&writer, NULL, 1);
    json_put_object(&writer, NULL);
    json_put_end(&writer);
    json_put_null(&writer, NULL);
    json_put_end(&writer);
    json_put_bool(&writer, "yes", true);
    json_put_text(&writer, "text", "t");
    json_put_end(&writer);
    json_writer_fini(&writer);
    CHECK(strcmp(text_of(&out),
                 "{\"empty\":[],\"list\":[1,{},null],\"yes\":true,\"text\":\"t\"}") == 0);
}

static void test_numbers_are_whole_or_null(void)
{
    struct json_writer writer;
    struct out out;
    out_init(&out);
    json_writer_init(&writer, &out);
    json_put_list(&writer, NULL);
    json_put_uint(&writer, NULL, UINT64_MAX);
    json_put_double(&writer, NULL, 0.25);
    json_put_double(&writer, NULL, 1e300);
    json_put_double(&writer, NULL, NAN);
    json_put_double(&writer, NULL, -INFINITY);
    json_put_end(&writer);
    CHECK(strcmp(text_of(&out), "[18446744073709551615,0.25,1e+300,null,null]") == 0);
}

static void test_nothing_ends_the_string_or_means_something_to_html(void)
{
    CHECK(strcmp(shown(BYTES("<img src=x onerror=\"a('&')\">"), 100),
                 "\"\\u003cimg src=x onerror=\\u0022a(\\u0027\\u0026\\u0027)\\u0022\\u003e\"") ==
          0);
    CHECK(strcmp(shown(BYTES("a\\b"), 100), "\"a\\\\\\\\b\"") == 0);
}

static void test_bytes_that_are_no_text_become_hex(void)
{
    CHECK(strcmp(shown(BYTES("\0\n\x1f\x7f\xff"), 100),
                 "\"\\\\x00\\\\x0a\\\\x1f\\\\x7f\\\\xff\"") == 0);
    CHECK(strcmp(shown(BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\x8e"), 100),
                 "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8d\x8e\"") == 0);
    /* Invalid UTF-8: a cut sequence, an overlong form, a surrogate, a code point beyond U+10FFFF. */
    CHECK(strcmp(shown(BYTES("\xe2\x82"), 100), "\"\\\\xe2\\\\x82\"") == 0);
    CHECK(strcmp(shown(BYTES("\xc0\xaf"), 100), "\"\\\\xc0\\\\xaf\"") == 0);
    CHECK(strcmp(shown(BYTES("\xed\xa0\x80"), 100), "\"\\\\xed\\\\xa0\\\\x80\"") == 0);
    CHECK(strcmp(shown(BYTES("\xf4\x90\x80\x80"), 100), "\"\\\\xf4\\\\x90\\\\x80\\\\x80\"") == 0);
    /* A right-to-left override reverses the text after it in a terminal, so it is escaped. */
    CHECK(strcmp(shown(BYTES("a\xe2\x80\xae"), 100), "\"a\\\\xe2\\\\x80\\\\xae\"") == 0);
    CHECK(strcmp(shown(BYTES("\xe2\x80\x8b"), 100), "\"\\\\xe2\\\\x80\\\\x8b\"") == 0);
}

static void test_long_texts_are_cut_with_a_mark(void)
{
    CHECK(strcmp(shown(BYTES("abcdef"), 6), "\"abcdef\"") == 0);
    CHECK(strcmp(shown(BYTES("abcdefg"), 6), "\"abcdef\u2026 (7 bytes)\"") == 0);
    CHECK(strcmp(shown(BYTES("\xc3\xa9"), 1), "\"\\\\xc3\u2026 (2 bytes)\"") == 0);
}

/* Every pair of bytes results only in printable ASCII, valid UTF-8 and escapes. */
static void test_any_two_bytes_are_valid_json(void)
{
    for (int pair = 0; pair < 0x10000; pair++) {
        char bytes[2] = {(char)(pair >> 8), (char)pair};
        const char *text = shown((struct bytes){bytes, 2}, 100);
        size_t len = strlen(text);
        CHECK(len >= 4 && text[0] == '"' && text[len - 1] == '"');
        for (size_t i = 1; i < len - 1; i++) {
            unsigned char c = (unsigned char)text[i];
            CHECK(c >= 0x20 && c != '"' && c != '<' && c != '>' && c != '&');
            CHECK(c < 0x80 || (unsigned char)bytes[0] >= 0xc2);
            if (c == '\\')
                i += text[i + 1] == 'u' ? 5 : 1;
        }
    }
}

int main(void)
{
    test_commas_stand_between_items_only();
    test_numbers_are_whole_or_null();
    test_nothing_ends_the_string_or_means_something_to_html();
    test_bytes_that_are_no_text_become_hex();
    test_long_texts_are_cut_with_a_mark();
    test_any_two_bytes_are_valid_json();
    return 0;
}
