/*
 * fuzz_config.c - any bytes as a proxy.ini, a backend.ini and a shards.ini.
 *
 * An accepted file must print as a file that is accepted with the same meaning; the error for a refused file must name
 * the place.
 */
#include "config/reload.h"
#include "config/shards_file.h"
#include "shared/check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char error[1024];

struct printed {
    char *text;
    size_t len;
};

static void check_config(const struct config_schema *schema, struct bytes text)
{
    union {
        struct proxy_config proxy;
        struct backend_config backend;
    } first, second;
    struct printed printed = {0};
    size_t cursor = 0;
    config_init_defaults(&first.proxy.head, schema);
    error[0] = '\0';
    if (!config_parse(&first.proxy.head, "f.ini", text, error, sizeof error)) {
        CHECK(strncmp(error, "f.ini:", 6) == 0);
        config_fini(&first.proxy.head);
        return;
    }
    FILE *file = open_memstream(&printed.text, &printed.len);
    CHECK(file);
    config_print(&first.proxy.head, file);
    CHECK(fclose(file) == 0);
    config_init_defaults(&second.proxy.head, schema);
    struct bytes again = {printed.text, printed.len};
    CHECK(config_parse(&second.proxy.head, "f.ini", again, error, sizeof error));
    CHECK(!config_diff(&first.proxy.head, &second.proxy.head, &cursor));
    if (schema == &proxy_schema) {
        CHECK(first.proxy.namespace_count == second.proxy.namespace_count);
        CHECK(first.proxy.listener_count == second.proxy.listener_count);
        struct shard_map *map = shard_map_new(1);
        snapshot_unref(snapshot_make(&first.proxy, map, error, sizeof error));
    }
    free(printed.text);
    config_fini(&first.proxy.head);
    config_fini(&second.proxy.head);
}

static void check_shards(struct bytes text)
{
    struct printed printed = {0};
    struct shard_map *map = shards_parse("f.ini", text, error, sizeof error);
    if (!map) {
        CHECK(strncmp(error, "f.ini:", 6) == 0);
        return;
    }
    FILE *file = open_memstream(&printed.text, &printed.len);
    CHECK(file);
    shard_map_print(map, file);
    CHECK(fclose(file) == 0);
    struct bytes again_text = {printed.text, printed.len};
    struct shard_map *again = shards_parse("f.ini", again_text, error, sizeof error);
    CHECK(again && shard_map_equal(map, again));
    free(printed.text);
    shard_map_unref(map);
    shard_map_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes text = {(const char *)data + 1, size - 1};
    switch (data[0] % 3) {
    case 0:
        check_config(&proxy_schema, text);
        break;
    case 1:
        check_config(&backend_schema, text);
        break;
    default:
        check_shards(text);
    }
    return 0;
}
