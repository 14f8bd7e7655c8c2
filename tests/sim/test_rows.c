/*
 * test_rows.c - the rows of every type, as they are on disk: a change of the rows requires a change of rows.txt and of
 * the format's version.
 *
 *   test_rows             plays SCRIPT to a partition, and compares all rows with tests/sim/rows.txt
 *   test_rows --print     prints them
 *
 * A row is `column-family: key = value`; bytes that are no text are written as \xNN. Values that differ between runs
 * have names: {version} of a collection, {now} in milliseconds. Long runs of zeros are {counted}.
 */
#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/command/command.h"
#include "shared/log.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_partition.h"
#include "tests/sim/store_mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_MAX = 20000000, VERSIONS_MAX = 64, ZEROS_MIN = 32 };

static const char *const SCRIPT[] = {
    "SET string:short v",
    "SET string:until v PXAT 4102444800000",
    "SETBIT string:bits 20000 1",
    "HSET hash f v g w",
    "PEXPIREAT hash 4102444800000",
    "HSET fields a v b w c x",
    "HPEXPIREAT fields 4102444800000 FIELDS 2 a c",
    "HPEXPIREAT fields 4102444800001 FIELDS 1 c",
    "RPUSH list a b",
    "LPUSH list z",
    "SADD set m n",
    "ZADD zset 1 one -1.5 minus inf most",
    "GEOADD geo 13.361389 38.115556 Palermo",
    "SIADD ints 1 500",
    "BF.RESERVE bloom 0.5 10",
    "BF.ADD bloom a",
    "CMS.INITBYDIM sketch 5 2",
    "CMS.INCRBY sketch a 258",
    "TDIGEST.CREATE digest COMPRESSION 1",
    "TDIGEST.ADD digest 1.5 2.5 2.5 2.5",
    "TDIGEST.ADD digest -3",
    "TOPK.RESERVE top 2 3 2 0.9",
    "TOPK.INCRBY top a 258 b 1 b 2",
    "PFADD hll a",
    "JSON.SET json $ '{\"a\":[1,2.5],\"b\":null}'",
    "XADD stream 1-1 f v g w",
    "XADD stream 1-2 f x",
    "XGROUP CREATE stream group 0",
    "XGROUP CREATECONSUMER stream group reader",
    "XREADGROUP GROUP group reader COUNT 1 STREAMS stream >",
    "XDEL stream 1-2",
    "SELECT 2",
    "SET other-database v",
    "SELECT 0",
};

static struct sim_partition world;
static size_t replies;

/* ---- the partition and its one client ---- */

static void on_reply(void *owner, struct bytes frame)
{
    (void)owner;
    CHECK(frame.data[0] != '-');
    replies++;
}

static void on_connect(void *owner)
{
    struct sim_connection *client = owner;
    for (size_t i = 0; i < sizeof SCRIPT / sizeof SCRIPT[0]; i++)
        out_printf(stream_out(client->stream), "%s\r\n", SCRIPT[i]);
}

static void on_turn(void *owner)
{
    (void)owner;
}

static bool is_played(void *owner)
{
    (void)owner;
    return replies == sizeof SCRIPT / sizeof SCRIPT[0];
}

static void play(struct sim_connection *client)
{
    static const struct sim_connection_events events = {
        .on_connect = on_connect, .on_frame = on_reply, .on_turn = on_turn};
    sim_connection_begin(client, &world, &events, client);
    CHECK(sim_run_until(is_played, NULL, STEPS_MAX));
}

/* ---- rows as text ---- */

static char versions[VERSIONS_MAX][8];
static uint32_t version_count;

static void note_versions(void)
{
    struct overlay_iter *iter =
        overlay_iter_new(world.partition->overlay, CF_METADATA, BYTES(""), BYTES(""));
    for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter)) {
        struct metadata metadata;
        CHECK(decode_metadata(overlay_iter_value(iter), &metadata));
        if (type_is_inline(metadata.type))
            continue;
        CHECK(version_count < VERSIONS_MAX);
        put_be64(versions[version_count++], metadata.version);
    }
    overlay_iter_free(iter);
}

/* The name for these 8 bytes; NULL: they have none. */
static const char *name_of(const char *bytes)
{
    const uint64_t begin_ms = 1767225600000; /* start of a simulation's clock */
    for (uint32_t i = 0; i < version_count; i++)
        if (memcmp(bytes, versions[i], 8) == 0)
            return "{version}";
    uint64_t number = get_be64(bytes);
    return number >= begin_ms && number < begin_ms + 1000 * 1000 ? "{now}" : NULL;
}

static size_t zeros_at(struct bytes bytes, size_t at)
{
    size_t end = at;
    while (end < bytes.len && bytes.data[end] == 0)
        end++;
    return end - at;
}

static void print_bytes(FILE *file, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        size_t zeros = zeros_at(bytes, i);
        if (zeros >= ZEROS_MIN) {
            (void)fprintf(file, "{%zu zeros}", zeros);
            i += zeros - 1;
            continue;
        }
        const char *name = bytes.len - i >= 8 ? name_of(bytes.data + i) : NULL;
        unsigned char byte = (unsigned char)bytes.data[i];
        if (name) {
            (void)fputs(name, file);
            i += 7;
        } else if (isgraph(byte) && byte != '\\' && byte != '{') {
            (void)fputc(byte, file);
        } else {
            (void)fprintf(file, "\\x%02x", byte);
        }
    }
}

static void print_rows(FILE *file)
{
    static const char *const names[CF_COUNT] = {"system", "metadata", "data",  "zset-score",
                                                "stream", "rank",     "expire"};
    note_versions();
    for (unsigned cf = CF_METADATA; cf < CF_COUNT;
         cf++) { /* counters and batch numbers change with time */
        struct overlay_iter *iter =
            overlay_iter_new(world.partition->overlay, cf, BYTES(""), BYTES(""));
        for (overlay_iter_seek_first(iter); overlay_iter_valid(iter); overlay_iter_next(iter)) {
            (void)fprintf(file, "%s: ", names[cf]);
            print_bytes(file, overlay_iter_key(iter));
            (void)fputs(" = ", file);
            print_bytes(file, overlay_iter_value(iter));
            (void)fputc('\n', file);
        }
        overlay_iter_free(iter);
    }
}

static void compare(const char *rows, size_t len)
{
    char path[4096];
    const char *root =
        /* set by tests/run; without it, the program must run in the project's folder */
        getenv("SCREE_ROOT");
    (void)snprintf(path, sizeof path, "%s/tests/sim/rows.txt", root ? root : ".");
    FILE *file = fopen(path, "r");
    CHECK(file);
    char *wanted = malloc(len + 2);
    CHECK(wanted);
    size_t have = fread(wanted, 1, len + 1, file);
    CHECK(fclose(file) == 0);
    if (have != len || memcmp(wanted, rows, len) != 0) {
        (void)fprintf(stderr,
                      "the rows are not those of %s; if that is meant: test_rows --print\n%s", path,
                      rows);
        exit(1);
    }
    free(wanted);
}

int main(int argc, char **argv)
{
    struct sim_connection client;
    char *rows = NULL;
    size_t len = 0;
    command_init();
    log_set_level(LOG_ERROR + 1);
    sim_partition_init(&world, 1);
    sim_partition_start(&world, true);
    play(&client);
    FILE *file = open_memstream(&rows, &len);
    CHECK(file);
    print_rows(file);
    CHECK(fclose(file) == 0);
    if (argc > 1 && strcmp(argv[1], "--print") == 0)
        (void)fwrite(rows, 1, len, stdout);
    else
        compare(rows, len);
    free(rows);
    sim_partition_stop(&world);
    sim_partition_fini(&world);
    return 0;
}
