#include "guard.h"
#include "shared/resp.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <stdlib.h>

static const struct resp_limits limits = {
    .bulk_bytes_max = 512u << 20, .args_max = INT32_MAX, .inline_bytes_max = 64 * 1024};
static const struct resp_limits before_auth = {.bulk_bytes_max = 512u << 20,
                                               .args_max = INT32_MAX,
                                               .inline_bytes_max = 64 * 1024,
                                               .unauthenticated = true};

/* The result of a scan as text: "more", "bad <error>" or "<size> [arg][arg]". */
static const char *describe(const struct resp_scan *scan, enum resp_result result, const char *data)
{
    static char text[1000];
    if (result == RESP_MORE)
        return "more";
    if (result == RESP_BAD) {
        (void)snprintf(text, sizeof(text), "bad %s", scan->error);
        return text;
    }
    size_t len = (size_t)snprintf(text, sizeof(text), "%zu ", scan->size);
    const char *base = resp_scan_base(scan, data);
    for (uint32_t i = 0; i < scan->argc; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "[%.*s]", (int)scan->args[i].len,
                                base + scan->args[i].at);
    return text;
}

/* Scans data[0..len), which ends at the end of readable memory. */
static enum resp_result scan_guarded(struct resp_scan *scan, const struct resp_limits *use,
                                     struct bytes data, const char **text)
{
    struct guard guard;
    guard_init(&guard, data.data, data.len);
    enum resp_result result = resp_scan(scan, use, guard.data, guard.len);
    *text = describe(scan, result, guard.data);
    guard_fini(&guard);
    return result;
}

/* Expects this result when the data is scanned whole, in two parts at every cut, and byte by byte. */
static void expect_with(const struct resp_limits *use, struct bytes data, const char *wanted)
{
    const char *text;
    for (size_t cut = 0; cut <= data.len; cut++) {
        struct resp_scan scan;
        resp_scan_init(&scan);
        struct bytes part = {data.data, cut};
        if (scan_guarded(&scan, use, part, &text) == RESP_MORE)
            (void)scan_guarded(&scan, use, data, &text);
        ck_assert_str_eq(text, wanted);
        resp_scan_fini(&scan);
    }
    struct resp_scan scan;
    resp_scan_init(&scan);
    enum resp_result result = RESP_MORE;
    for (size_t len = 0; len <= data.len && result == RESP_MORE; len++)
        result = scan_guarded(&scan, use, (struct bytes){data.data, len}, &text);
    ck_assert_str_eq(text, wanted);
    resp_scan_fini(&scan);
}

static void expect(const char *data, const char *wanted)
{
    expect_with(&limits, bytes_of(data), wanted);
}

START_TEST(requests_are_cut_into_their_arguments)
{
    expect("*1\r\n$4\r\nPING\r\n", "14 [PING]");
    expect("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n", "26 [SET][k][]");
    expect("*2\r\n$3\r\nGET\r\n$12\r\n012345678901\r\n", "32 [GET][012345678901]");
    expect("*12\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n"
           "$1\r\nh\r\n$1\r\ni\r\n$1\r\nj\r\n$1\r\nk\r\n$1\r\nl\r\n",
           "89 [a][b][c][d][e][f][g][h][i][j][k][l]");
    expect("*1\r\n$4\r\nPI\r\n\r\n", "14 [PI\r\n]");
}
END_TEST

START_TEST(incomplete_requests_want_more)
{
    expect("", "more");
    expect("*", "more");
    expect("*2\r\n$4\r\nLLEN\r\n$6\r\nmylis", "more");
    expect("*2\r\n$4\r\nLLEN\r\n", "more");
    expect("*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r", "more");
}
END_TEST

START_TEST(frames_without_arguments_are_frames)
{
    expect("*0\r\n", "4 ");
    expect("*-1\r\n", "5 ");
    expect("*-5\r\nPING\r\n", "5 ");
    expect("\r\n", "2 ");
    expect("\n", "1 ");
    expect("   \r\n", "5 ");
}
END_TEST

START_TEST(a_kept_frame_is_found_once_more)
{
    static const char text[] = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
    struct resp_scan scan;
    resp_scan_init(&scan);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(resp_scan(&scan, &limits, text, strlen(text)), RESP_FRAME);
        ck_assert_uint_eq(scan.size, 20);
        ck_assert_uint_eq(scan.argc, 2);
        if (i < 2)
            resp_scan_keep(&scan);
    }
    ck_assert_int_eq(resp_scan(&scan, &limits, text + 20, strlen(text) - 20), RESP_FRAME);
    ck_assert_uint_eq(scan.argc, 1);
    resp_scan_fini(&scan);
}
END_TEST

START_TEST(line_ends_after_a_bulk_are_ignored_as_in_redis)
{
    expect("*1\rX$4\rXPINGab", "14 [PING]");
    expect("*1\r\n$004\rXPINGab", "bad ERR Protocol error: invalid bulk length");
}
END_TEST

START_TEST(errors_have_the_texts_of_redis)
{
    expect("*abc\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect("*\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect("*01\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect("*+1\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect("*2147483648\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect("*2147483647\r\n", "more");
    expect("*1\r\n:4\r\n", "bad ERR Protocol error: expected '$', got ':'");
    expect("*1\r\n\r\n\r\n", "bad ERR Protocol error: expected '$', got ' '");
    expect("*1\r\n\xff\r\n", "bad ERR Protocol error: expected '$', got '\xff'");
    expect("*2\r\n$1\r\na\r\n3\r\n", "bad ERR Protocol error: expected '$', got '3'");
    expect("*1\r\n$-1\r\n", "bad ERR Protocol error: invalid bulk length");
    expect("*1\r\n$\r\n", "bad ERR Protocol error: invalid bulk length");
    expect("*1\r\n$4x\r\n", "bad ERR Protocol error: invalid bulk length");
    expect("*1\r\n$+4\r\n", "bad ERR Protocol error: invalid bulk length");
    expect("*1\r\n$536870913\r\n", "bad ERR Protocol error: invalid bulk length");
    expect("*1\r\n$536870912\r\n", "more");
    expect_with(&limits, BYTES("*1\r\n\0\r\n"), "bad ERR Protocol error: expected '$', got ' '");
}
END_TEST

START_TEST(before_authentication_sizes_are_limited)
{
    expect_with(&before_auth, BYTES("*11\r\n"),
                "bad ERR Protocol error: unauthenticated multibulk length");
    expect_with(&before_auth, BYTES("*10\r\n"), "more");
    expect_with(&before_auth, BYTES("*1\r\n$16385\r\n"),
                "bad ERR Protocol error: unauthenticated bulk length");
    expect_with(&before_auth, BYTES("*1\r\n$16384\r\n"), "more");
    expect_with(&before_auth, BYTES("*2147483648\r\n"),
                "bad ERR Protocol error: invalid multibulk length");
    expect_with(&before_auth, BYTES("PING 1 2 3 4 5 6 7 8 9 10 11\n"),
                "29 [PING][1][2][3][4][5][6][7][8][9][10][11]");
}
END_TEST

START_TEST(own_limits_hold_for_the_short_forms_too)
{
    struct resp_limits small = limits;
    small.bulk_bytes_max = 3;
    small.args_max = 2;
    expect_with(&small, BYTES("*2\r\n$3\r\nabc\r\n$4\r\nabcd\r\n"),
                "bad ERR Protocol error: invalid bulk length");
    expect_with(&small, BYTES("*3\r\n$1\r\na\r\n"),
                "bad ERR Protocol error: invalid multibulk length");
    expect_with(&small, BYTES("*2\r\n$3\r\nabc\r\n$2\r\nab\r\n"), "21 [abc][ab]");
}
END_TEST

START_TEST(inline_words_are_split_as_redis_does)
{
    expect("PING\r\n", "6 [PING]");
    expect("PING\n", "5 [PING]");
    expect("  SET  k\tv \r\n", "13 [SET][k][v]");
    expect("ECHO \"a b\"\r\n", "12 [ECHO][a b]");
    expect("ECHO \"\"\r\n", "9 [ECHO][]");
    expect("ECHO 'a\\'b' \"\\x41\\n\\t\\q\\\"\\xzz\"\r\n", "32 [ECHO][a'b][A\n\tq\"xzz]");
    expect("ECHO 'a\\nb'\n", "12 [ECHO][a\\nb]");
    expect("ECHO a\"b c\"\r\n", "13 [ECHO][ab c]");
    expect("\vECHO a\vb\r\n", "11 [ECHO][a\vb]");
    expect("PING a\rb\r\n", "10 [PING][a][b]");
    expect("ECHO \"a\"\v\r\n", "11 [ECHO][a]");
    expect("ECHO \"\\x4\"\r\n", "12 [ECHO][x4]");
    expect("GET k", "more");
    expect("$3\r\n", "4 [$3]");
}
END_TEST

START_TEST(inline_quotes_must_be_balanced)
{
    static const char *const lines[] = {"PING \"abc\r\n", "PING \"abc\"d\r\n", "PING 'abc'd\r\n",
                                        "PING '\n",       "PING \"\\\n",       "PING 'a\\'\n"};
    for (size_t i = 0; i < 6; i++)
        expect(lines[i], "bad ERR Protocol error: unbalanced quotes in request");
}
END_TEST

START_TEST(an_inline_request_is_also_given_as_a_multibulk_frame)
{
    struct resp_scan scan;
    resp_scan_init(&scan);
    ck_assert_int_eq(resp_scan(&scan, &limits, "SET k 'a b'\r\nrest", 17), RESP_FRAME);
    ck_assert(scan.is_inline);
    ck_assert_uint_eq(scan.size, 13);
    static const char wanted[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na b\r\n";
    ck_assert_uint_eq(scan.inline_len, sizeof(wanted) - 1);
    ck_assert_mem_eq(scan.inline_text, wanted, scan.inline_len);
    ck_assert_int_eq(resp_scan(&scan, &limits, "*1\r\n$1\r\na\r\n", 11), RESP_FRAME);
    ck_assert(!scan.is_inline);
    resp_scan_fini(&scan);
}
END_TEST

/* `head`, then 'filler' up to `len` bytes, then `tail`; scanned as a whole and in steps of 1000. */
static void expect_long(const char *head, size_t len, char filler, const char *tail,
                        const char *wanted)
{
    size_t total = len + strlen(tail);
    char *data = malloc(total);
    memset(data, filler, len);
    memcpy(data, head, strlen(head));
    memcpy(data + len, tail, strlen(tail));
    for (size_t step = 1000; step <= total; step += total - 1000) {
        const char *text;
        struct resp_scan scan;
        resp_scan_init(&scan);
        enum resp_result result = RESP_MORE;
        for (size_t at = step; result == RESP_MORE; at += step) {
            struct bytes part = {data, at < total ? at : total};
            result = scan_guarded(&scan, &limits, part, &text);
            if (at >= total)
                break;
        }
        ck_assert_str_eq(text, wanted);
        resp_scan_fini(&scan);
    }
    free(data);
}

START_TEST(endless_lines_are_refused_at_64_kib)
{
    expect_long("", 65536, 'A', "", "more");
    expect_long("", 65537, 'A', "", "bad ERR Protocol error: too big inline request");
    expect_long("", 100000, 'A', "\r\n", "bad ERR Protocol error: too big inline request");
    expect_long("*", 65536, '1', "", "more");
    expect_long("*", 65537, '1', "", "bad ERR Protocol error: too big mbulk count string");
    expect_long("*", 65536, '1', "\r\n", "bad ERR Protocol error: invalid multibulk length");
    expect_long("*1\r\n$", 65540, '1', "", "more");
    expect_long("*1\r\n$", 65541, '1', "", "bad ERR Protocol error: too big bulk count string");
    expect_long("*1\r\n$", 65540, '1', "\r\n", "bad ERR Protocol error: invalid bulk length");
}
END_TEST

START_TEST(need_tells_the_size_of_a_big_argument)
{
    struct resp_scan scan;
    resp_scan_init(&scan);
    static const char head[] = "*2\r\n$3\r\nGET\r\n$1000000\r\nx";
    ck_assert_int_eq(resp_scan(&scan, &limits, head, 14), RESP_MORE);
    ck_assert_uint_eq(scan.need, 0);
    ck_assert_int_eq(resp_scan(&scan, &limits, head, sizeof(head) - 1), RESP_MORE);
    ck_assert_uint_eq(scan.need, 23 + 1000000 + 2);
    resp_scan_fini(&scan);
}
END_TEST

START_TEST(an_announced_count_alone_takes_no_memory)
{
    struct resp_scan scan;
    resp_scan_init(&scan);
    static const char head[] = "*2147483647\r\n$1\r\na\r\n";
    ck_assert_int_eq(resp_scan(&scan, &limits, head, sizeof(head) - 1), RESP_MORE);
    ck_assert_uint_eq(scan.argc, 1);
    ck_assert_uint_le(scan.args_cap, 8);
    resp_scan_fini(&scan);
}
END_TEST

START_TEST(a_million_arguments_fit_and_reset_gives_the_table_back)
{
    enum { COUNT = 1200000 };
    char *data = malloc(20 + (size_t)COUNT * 6);
    size_t len = (size_t)sprintf(data, "*%d\r\n", COUNT);
    for (int i = 0; i < COUNT; i++, len += 6)
        memcpy(data + len, "$0\r\n\r\n", 6);
    struct resp_scan scan;
    resp_scan_init(&scan);
    ck_assert_int_eq(resp_scan(&scan, &limits, data, len / 2), RESP_MORE);
    ck_assert_int_eq(resp_scan(&scan, &limits, data, len), RESP_FRAME);
    ck_assert_uint_eq(scan.argc, COUNT);
    ck_assert_uint_eq(scan.args[COUNT - 1].at, len - 2);
    resp_scan_reset(&scan);
    ck_assert_ptr_null(scan.args);
    ck_assert_uint_eq(scan.args_cap, 0);
    resp_scan_fini(&scan);
    free(data);
}
END_TEST

START_TEST(a_frame_beyond_4_gib_is_refused)
{
    struct resp_limits huge = limits;
    huge.bulk_bytes_max = UINT32_MAX;
    expect_with(&huge, BYTES("*1\r\n$4294967295\r\n"), "bad ERR Protocol error: too big request");
    expect_with(&huge, BYTES("*1\r\n$4294967276\r\n"), "more");
}
END_TEST

START_TEST(a_pipeline_is_scanned_frame_by_frame)
{
    static const char data[] = "*1\r\n$1\r\na\r\nPING\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n";
    const char *wanted[] = {"11 [a]", "6 [PING]", "18 [b][c]"};
    struct resp_scan scan;
    resp_scan_init(&scan);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        enum resp_result result = resp_scan(&scan, &limits, data + at, sizeof(data) - 1 - at);
        ck_assert_str_eq(describe(&scan, result, data + at), wanted[i]);
        at += scan.size;
    }
    ck_assert_uint_eq(at, sizeof(data) - 1);
    resp_scan_fini(&scan);
}
END_TEST

START_TEST(after_an_error_the_scanner_stays_bad_until_reset)
{
    struct resp_scan scan;
    resp_scan_init(&scan);
    ck_assert_int_eq(resp_scan(&scan, &limits, "*x\r\n", 4), RESP_BAD);
    ck_assert_int_eq(resp_scan(&scan, &limits, "*x\r\nPING\r\n", 10), RESP_BAD);
    resp_scan_reset(&scan);
    ck_assert_int_eq(resp_scan(&scan, &limits, "PING\r\n", 6), RESP_FRAME);
    resp_scan_fini(&scan);
}
END_TEST

/* ---- replies ---------------------------------------------------------------------------- */

static enum resp_result skip_guarded(struct resp_skip *skip, const char *data, size_t len)
{
    struct guard guard;
    guard_init(&guard, data, len);
    enum resp_result result = resp_skip(skip, guard.data, guard.len);
    guard_fini(&guard);
    return result;
}

/* Expects this result at every cut; the frame ends `rest` bytes before the end of the data. */
static void expect_skip(struct bytes data, enum resp_result wanted, size_t rest)
{
    for (size_t cut = 0; cut <= data.len; cut++) {
        struct resp_skip skip = {0};
        enum resp_result result = skip_guarded(&skip, data.data, cut);
        if (result == RESP_MORE) {
            ck_assert(skip.need == 0 || skip.need > cut);
            result = skip_guarded(&skip, data.data, data.len);
        }
        ck_assert_msg(result == wanted, "%s", data.data);
        if (result == RESP_FRAME) {
            ck_assert_uint_eq(skip.size, data.len - rest);
            ck_assert_int_eq(skip.first, data.data[0]);
            ck_assert_int_eq(skip.pending, 0);
        }
    }
}

START_TEST(replies_of_every_type_are_skipped)
{
    static const char *const replies[] = {"+OK\r\n",
                                          "-ERR x\r\n",
                                          ":1\r\n",
                                          ":-1\r\n",
                                          "$3\r\nabc\r\n",
                                          "$0\r\n\r\n",
                                          "$-1\r\n",
                                          "*-1\r\n",
                                          "*0\r\n",
                                          "*2\r\n$1\r\na\r\n:1\r\n",
                                          "_\r\n",
                                          "#t\r\n",
                                          ",3.14\r\n",
                                          ",inf\r\n",
                                          "(1234567890123456789012\r\n",
                                          "!5\r\nERR x\r\n",
                                          "=7\r\ntxt:abc\r\n",
                                          "~2\r\n+a\r\n+b\r\n",
                                          "%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n",
                                          "%0\r\n",
                                          ">3\r\n+message\r\n+c\r\n$1\r\nx\r\n",
                                          "|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n",
                                          "|0\r\n*1\r\n|1\r\n+a\r\n*0\r\n%1\r\n+k\r\n~1\r\n_\r\n",
                                          "*3\r\n*2\r\n*1\r\n:1\r\n*0\r\n*-1\r\n$-1\r\n",
                                          "+\r\n",
                                          "$12\r\n012345678901\r\n",
                                          "$0000\r\n\r\n"};
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
        expect_skip(bytes_of(replies[i]), RESP_FRAME, 0);
        char more[200];
        int len = snprintf(more, sizeof(more), "%s%s", replies[i], "$1\r\n");
        expect_skip((struct bytes){more, (size_t)len}, RESP_FRAME, 4);
        struct bytes cut = {replies[i], strlen(replies[i]) - 1};
        expect_skip(cut, RESP_MORE, 0);
    }
}
END_TEST

START_TEST(invalid_replies_are_bad)
{
    static const char *const replies[] = {"PING\r\n",
                                          "\r\n",
                                          "$\r\n",
                                          "$a\r\n",
                                          "$-2\r\n",
                                          "*-2\r\n",
                                          "$3\r\nabcd\r\n",
                                          "$3\r\nabc\rx",
                                          "$1x\r\n",
                                          "*1\rx",
                                          "+a\rb\r\n",
                                          "%-1\r\n",
                                          "=-1\r\n",
                                          "*1\r\nx\r\n",
                                          "$?\r\n",
                                          "*?\r\n",
                                          "$99999999999\r\n",
                                          "*4294967296\r\n",
                                          "$1\n\na\r\n",
                                          ";0\r\n",
                                          ".\r\n",
                                          "$-11\r\n",
                                          "$00000000000000000000000000000001\r\na\r\n"};
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++)
        expect_skip(bytes_of(replies[i]), RESP_BAD, 0);
}
END_TEST

START_TEST(after_a_bad_reply_the_skipper_stays_bad)
{
    struct resp_skip skip = {0};
    ck_assert_int_eq(resp_skip(&skip, "x", 1), RESP_BAD);
    ck_assert_int_eq(resp_skip(&skip, "+OK\r\n", 5), RESP_BAD);
}
END_TEST

/* Passes the frame in pieces of `piece` bytes, and drops the bytes that are no longer needed after each. Returns the
 * bytes that were taken. */
static size_t drop_in_pieces(const char *frame, size_t len, size_t piece)
{
    struct resp_skip skip = {0};
    size_t from = 0;
    for (size_t to = piece < len ? piece : len;; to = to + piece < len ? to + piece : len) {
        enum resp_result result = resp_skip(&skip, frame + from, to - from);
        ck_assert_int_ne(result, RESP_BAD);
        if (result == RESP_FRAME)
            return from + skip.size;
        ck_assert_uint_lt(to, len);
        from += resp_skip_drop(&skip, to - from);
    }
}

START_TEST(a_reply_that_is_dropped_ends_where_it_would)
{
    static const char *const frames[] = {
        "$12\r\n$5\r\nab\r\ncdef\r\n",
        "+some text\r\n",
        "*3\r\n:1\r\n$3\r\na\r\n\r\n_\r\n",
        "%1\r\n+k\r\n*2\r\n$0\r\n\r\n$-1\r\n",
        "*2\r\n*1\r\n$20\r\n12345678901234567890\r\n-ERR x\r\n",
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        size_t len = strlen(frames[i]);
        for (size_t piece = 1; piece <= len; piece++)
            ck_assert_uint_eq(drop_in_pieces(frames[i], len, piece), len);
    }
}
END_TEST

START_TEST(need_tells_the_size_of_a_big_reply)
{
    struct resp_skip skip = {0};
    ck_assert_int_eq(resp_skip(&skip, "*2\r\n$1000\r\nab", 13), RESP_MORE);
    ck_assert_uint_eq(skip.need, 11 + 1000 + 2);
}
END_TEST

START_TEST(deep_nesting_and_overflowing_counts_are_survived)
{
    enum { DEPTH = 200000 };
    char *data = malloc((size_t)DEPTH * 4 + 4);
    for (int i = 0; i < DEPTH; i++)
        memcpy(data + (size_t)i * 4, "*1\r\n", 4);
    memcpy(data + (size_t)DEPTH * 4, ":1\r\n", 4);
    struct resp_skip skip = {0};
    ck_assert_int_eq(resp_skip(&skip, data, (size_t)DEPTH * 4 + 4), RESP_FRAME);
    free(data);
    expect_skip(BYTES("*4294967295\r\n%4294967295\r\n+a\r\n"), RESP_MORE, 0);
}
END_TEST

START_TEST(a_reply_can_be_read_element_by_element)
{
    struct bytes frame = BYTES("%2\r\n+k\r\n:-12\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n#t\r\n");
    static const struct {
        char type;
        bool is_null;
        int64_t count;
        const char *text;
    } rows[] = {{'%', false, 2, ""},      {'+', false, 0, "k"}, {':', false, -12, "-12"},
                {'$', false, 3, "a\r\n"}, {'*', false, 2, ""},  {'$', true, -1, ""},
                {'#', false, 1, "t"}};
    size_t pos = 0;
    struct resp_value value;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ck_assert(resp_value_next(frame, &pos, &value));
        ck_assert_int_eq(value.type, rows[i].type);
        ck_assert_int_eq(value.is_null, rows[i].is_null);
        ck_assert_int_eq(value.count, rows[i].count);
        ck_assert(bytes_equal(value.text, bytes_of(rows[i].text)));
    }
    ck_assert_uint_eq(pos, frame.len);
    ck_assert(!resp_value_next(frame, &pos, &value));
}
END_TEST

START_TEST(the_text_of_a_verbatim_string_is_without_its_format)
{
    static const struct {
        const char *frame;
        const char *text;
    } rows[] = {{"=7\r\ntxt:abc\r\n", "abc"},
                {"=4\r\ntxt:\r\n", ""},
                {"=2\r\nab\r\n", "ab"},
                {"$7\r\ntxt:abc\r\n", "txt:abc"},
                {"+abc\r\n", "abc"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct resp_value value;
        size_t pos = 0;
        ck_assert(resp_value_next(bytes_of(rows[i].frame), &pos, &value));
        ck_assert(bytes_equal(resp_value_text(&value), bytes_of(rows[i].text)));
    }
}
END_TEST

START_TEST(a_whole_value_can_be_jumped_over)
{
    struct bytes frame = BYTES("*3\r\n%1\r\n+a\r\n*1\r\n:1\r\n|1\r\n+t\r\n:1\r\n$1\r\nb\r\n_\r\n");
    struct resp_value value;
    size_t pos = 0;
    ck_assert(resp_value_next(frame, &pos, &value));
    ck_assert(resp_value_skip(frame, &pos));
    ck_assert_uint_eq(pos, 20);
    ck_assert(resp_value_skip(frame, &pos));
    ck_assert(resp_value_next(frame, &pos, &value));
    ck_assert(value.is_null);
    ck_assert_uint_eq(pos, frame.len);
    ck_assert(!resp_value_skip(frame, &pos));
}
END_TEST

START_TEST(malformed_values_are_refused_at_the_end_of_memory)
{
    static const char *const rows[] = {"$5\r\nabc\r\n", "$3\r\nabcde", ":x\r\n", "#y\r\n",
                                       "_x\r\n",        "$",           "x",      "+a\r",
                                       "$3\r\nabc",     "%-1\r\n",     "(",      "$1"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct guard guard;
        guard_init(&guard, rows[i], strlen(rows[i]));
        size_t pos = 0;
        struct resp_value value;
        ck_assert_msg(!resp_value_next((struct bytes){guard.data, guard.len}, &pos, &value), "%s",
                      rows[i]);
        ck_assert_uint_eq(pos, 0);
        guard_fini(&guard);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resp");
    TCase *tests = tcase_create("resp");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, requests_are_cut_into_their_arguments);
    tcase_add_test(tests, incomplete_requests_want_more);
    tcase_add_test(tests, frames_without_arguments_are_frames);
    tcase_add_test(tests, a_kept_frame_is_found_once_more);
    tcase_add_test(tests, line_ends_after_a_bulk_are_ignored_as_in_redis);
    tcase_add_test(tests, errors_have_the_texts_of_redis);
    tcase_add_test(tests, before_authentication_sizes_are_limited);
    tcase_add_test(tests, own_limits_hold_for_the_short_forms_too);
    tcase_add_test(tests, inline_words_are_split_as_redis_does);
    tcase_add_test(tests, inline_quotes_must_be_balanced);
    tcase_add_test(tests, an_inline_request_is_also_given_as_a_multibulk_frame);
    tcase_add_test(tests, endless_lines_are_refused_at_64_kib);
    tcase_add_test(tests, need_tells_the_size_of_a_big_argument);
    tcase_add_test(tests, an_announced_count_alone_takes_no_memory);
    tcase_add_test(tests, a_million_arguments_fit_and_reset_gives_the_table_back);
    tcase_add_test(tests, a_frame_beyond_4_gib_is_refused);
    tcase_add_test(tests, a_pipeline_is_scanned_frame_by_frame);
    tcase_add_test(tests, after_an_error_the_scanner_stays_bad_until_reset);
    tcase_add_test(tests, a_reply_that_is_dropped_ends_where_it_would);
    tcase_add_test(tests, replies_of_every_type_are_skipped);
    tcase_add_test(tests, invalid_replies_are_bad);
    tcase_add_test(tests, after_a_bad_reply_the_skipper_stays_bad);
    tcase_add_test(tests, need_tells_the_size_of_a_big_reply);
    tcase_add_test(tests, deep_nesting_and_overflowing_counts_are_survived);
    tcase_add_test(tests, a_reply_can_be_read_element_by_element);
    tcase_add_test(tests, the_text_of_a_verbatim_string_is_without_its_format);
    tcase_add_test(tests, a_whole_value_can_be_jumped_over);
    tcase_add_test(tests, malformed_values_are_refused_at_the_end_of_memory);
    return suite_run(suite);
}
