/*
 * test_config_snapshot.c - the snapshot that CONFIG reads and changes.
 */
#include "backend/context/config_snapshot.h"

#include "shared/check.h"

static struct config_snapshot *make(void)
{
    struct backend_config config;
    config_init_defaults(&config.head, &backend_schema);
    struct config_snapshot *snapshot = config_snapshot_new(&config);
    config_fini(&config.head);
    return snapshot;
}

static bool set(struct config_snapshot *snapshot, const char *name, const char *value)
{
    char error[OPTION_REASON_MAX];
    return config_snapshot_set(snapshot, bytes_of(name), bytes_of(value), error, sizeof error);
}

static bool shows(const struct config_snapshot *snapshot, const char *name, const char *value)
{
    char buffer[OPTION_TEXT_MAX];
    const struct parameter *parameter = parameter_find(bytes_of(name));
    CHECK(parameter);
    return bytes_equal(config_snapshot_get(snapshot, parameter, buffer), bytes_of(value));
}

static void test_parameters_are_remembered_in_canonical_form(void)
{
    struct config_snapshot *snapshot = make();
    CHECK(shows(snapshot, "stream-node-max-bytes", "4096"));
    CHECK(set(snapshot, "stream-node-max-bytes", "2mb") &&
          shows(snapshot, "stream-node-max-bytes", "2097152"));
    CHECK(set(snapshot, "appendonly", "YES") && shows(snapshot, "appendonly", "yes"));
    CHECK(set(snapshot, "hash-max-ziplist-entries", "7"));
    CHECK(shows(snapshot, "hash-max-listpack-entries", "7"));
    CHECK(config_snapshot_number(snapshot, "hash-max-listpack-entries") == 7);
    CHECK(!set(snapshot, "hash-max-listpack-entries", "-1"));
    CHECK(shows(snapshot, "hash-max-ziplist-entries", "7"));
    config_snapshot_unref(snapshot);
}

static void test_parameters_without_an_effect_are_refused(void)
{
    static const char *const refused[][2] = {{"maxmemory-policy", "allkeys-lru"},
                                             {"maxmemory-clients", "1"},
                                             {"save", "3600 1"},
                                             {"appendonly", "no"},
                                             {"min-replicas-to-write", "1"},
                                             {"activedefrag", "yes"},
                                             {"masterauth", "x"},
                                             {"oom-score-adj", "yes"},
                                             {"bind-source-addr", "::1"},
                                             {"repl-backlog-size", "2mb"}};
    static const char *const taken[][2] = {{"maxmemory", "2mb"},
                                           {"maxmemory-policy", "NoEviction"},
                                           {"save", ""},
                                           {"appendonly", "yes"}};
    struct config_snapshot *snapshot = make();
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK(!set(snapshot, refused[i][0], refused[i][1]));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        CHECK(set(snapshot, taken[i][0], taken[i][1]));
    CHECK(shows(snapshot, "maxmemory", "2097152"));
    CHECK(snapshot->maxmemory == 2097152);
    config_snapshot_unref(snapshot);
}

static void test_appendfsync_is_the_durability(void)
{
    struct config_snapshot *snapshot = make();
    CHECK(shows(snapshot, "appendfsync", "always"));
    CHECK(set(snapshot, "appendfsync", "no") && snapshot->config.durability == DURABILITY_OS);
    CHECK(set(snapshot, "appendfsync", "Everysec") &&
          snapshot->config.durability == DURABILITY_EVERYSEC);
    CHECK(shows(snapshot, "appendfsync", "everysec"));
    CHECK(set(snapshot, "durability", "os") && shows(snapshot, "appendfsync", "no"));
    CHECK(!set(snapshot, "appendfsync", "os"));
    config_snapshot_unref(snapshot);
}

static void test_own_options_are_shown_and_taken_in_redis_units(void)
{
    struct config_snapshot *snapshot = make();
    CHECK(shows(snapshot, "proto-max-bulk-len", "536870912"));
    CHECK(set(snapshot, "proto-max-bulk-len", "600mb"));
    CHECK(snapshot->config.proto_max_bulk_len_bytes == 600 * 1024 * 1024);
    CHECK(shows(snapshot, "timeout", "0"));
    CHECK(set(snapshot, "timeout", "90") && snapshot->config.idle_timeout_ms == 90000);
    CHECK(shows(snapshot, "timeout", "90"));
    CHECK(set(snapshot, "loglevel", "warning") && shows(snapshot, "loglevel", "warning"));
    CHECK(set(snapshot, "loglevel", "verbose") && shows(snapshot, "loglevel", "debug"));
    CHECK(set(snapshot, "durability", "os") && snapshot->config.durability == DURABILITY_OS);
    CHECK(!set(snapshot, "maxclients", "0"));
    config_snapshot_unref(snapshot);
}

static void test_options_that_need_a_restart_cannot_be_set(void)
{
    struct config_snapshot *snapshot = make();
    CHECK(config_snapshot_has_option(snapshot, BYTES("partitions")));
    CHECK(config_snapshot_is_fixed(snapshot, BYTES("partitions")));
    CHECK(config_snapshot_is_fixed(snapshot, BYTES("databases")));
    CHECK(config_snapshot_is_fixed(snapshot, BYTES("daemonize")));
    CHECK(!config_snapshot_is_fixed(snapshot, BYTES("maxclients")));
    CHECK(!config_snapshot_is_fixed(snapshot, BYTES("hz")));
    CHECK(!config_snapshot_has_option(snapshot, BYTES("nonsense")));
    config_snapshot_unref(snapshot);
}

static void test_a_copy_is_the_next_epoch_and_independent(void)
{
    struct config_snapshot *old = make();
    CHECK(set(old, "slowlog-max-len", "5") && old->slowlog_len_max[SLOWLOG_SLOW] == 5);
    CHECK(set(old, "requirepass", "secret") && config_snapshot_needs_password(old));
    struct config_snapshot *copy = config_snapshot_copy(old);
    CHECK(copy->epoch == old->epoch + 1);
    CHECK(copy->slowlog_len_max[SLOWLOG_SLOW] == 5);
    CHECK(set(copy, "slowlog-max-len", "6") && set(copy, "requirepass", ""));
    CHECK(old->slowlog_len_max[SLOWLOG_SLOW] == 5 && config_snapshot_needs_password(old));
    CHECK(config_snapshot_ref(old) == old);
    config_snapshot_unref(old);
    CHECK(shows(old, "slowlog-max-len", "5"));
    config_snapshot_unref(old);
    CHECK(shows(copy, "slowlog-max-len", "6"));
    config_snapshot_unref(copy);
}

int main(void)
{
    test_parameters_are_remembered_in_canonical_form();
    test_parameters_without_an_effect_are_refused();
    test_appendfsync_is_the_durability();
    test_own_options_are_shown_and_taken_in_redis_units();
    test_options_that_need_a_restart_cannot_be_set();
    test_a_copy_is_the_next_epoch_and_independent();
    return 0;
}
