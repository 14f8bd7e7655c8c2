/*
 * test_settings.c - the snapshot that CONFIG reads and changes.
 */
#include "backend/context/settings.h"

#include "shared/check.h"

static struct settings *make(void)
{
    struct backend_config config;
    config_init_defaults(&config.head, &backend_schema);
    struct settings *settings = settings_new(&config);
    config_fini(&config.head);
    return settings;
}

static bool set(struct settings *settings, const char *name, const char *value)
{
    char error[OPTION_REASON_MAX];
    return settings_set(settings, bytes_of(name), bytes_of(value), error, sizeof error);
}

static bool shows(const struct settings *settings, const char *name, const char *value)
{
    char buffer[OPTION_TEXT_MAX];
    const struct parameter *parameter = parameter_find(bytes_of(name));
    CHECK(parameter);
    return bytes_equal(settings_get(settings, parameter, buffer), bytes_of(value));
}

static void test_parameters_are_remembered_in_canonical_form(void)
{
    struct settings *settings = make();
    CHECK(shows(settings, "repl-backlog-size", "1048576"));
    CHECK(set(settings, "repl-backlog-size", "2mb") &&
          shows(settings, "repl-backlog-size", "2097152"));
    CHECK(set(settings, "appendonly", "YES") && shows(settings, "appendonly", "yes"));
    CHECK(set(settings, "hash-max-ziplist-entries", "7"));
    CHECK(shows(settings, "hash-max-listpack-entries", "7"));
    CHECK(settings_number(settings, "hash-max-listpack-entries") == 7);
    CHECK(!set(settings, "hash-max-listpack-entries", "-1"));
    CHECK(shows(settings, "hash-max-ziplist-entries", "7"));
    settings_unref(settings);
}

static void test_what_has_no_effect_is_refused(void)
{
    static const char *const refused[][2] = {
        {"maxmemory", "100mb"},     {"maxmemory-policy", "allkeys-lru"},
        {"maxmemory-clients", "1"}, {"save", "3600 1"},
        {"appendonly", "no"},       {"min-replicas-to-write", "1"},
        {"activedefrag", "yes"},    {"masterauth", "x"},
        {"oom-score-adj", "yes"},   {"bind-source-addr", "::1"}};
    static const char *const taken[][2] = {{"maxmemory", "0mb"},
                                           {"maxmemory-policy", "NoEviction"},
                                           {"save", ""},
                                           {"appendonly", "yes"}};
    struct settings *settings = make();
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK(!set(settings, refused[i][0], refused[i][1]));
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        CHECK(set(settings, taken[i][0], taken[i][1]));
    CHECK(shows(settings, "maxmemory", "0"));
    settings_unref(settings);
}

static void test_appendfsync_is_the_durability(void)
{
    struct settings *settings = make();
    CHECK(shows(settings, "appendfsync", "always"));
    CHECK(set(settings, "appendfsync", "no") && settings->config.durability == DURABILITY_OS);
    CHECK(set(settings, "appendfsync", "Everysec") &&
          settings->config.durability == DURABILITY_EVERYSEC);
    CHECK(shows(settings, "appendfsync", "everysec"));
    CHECK(set(settings, "durability", "os") && shows(settings, "appendfsync", "no"));
    CHECK(!set(settings, "appendfsync", "os"));
    settings_unref(settings);
}

static void test_own_options_are_shown_and_taken_in_redis_units(void)
{
    struct settings *settings = make();
    CHECK(shows(settings, "proto-max-bulk-len", "536870912"));
    CHECK(set(settings, "proto-max-bulk-len", "600mb"));
    CHECK(settings->config.proto_max_bulk_len_bytes == 600 * 1024 * 1024);
    CHECK(shows(settings, "timeout", "0"));
    CHECK(set(settings, "timeout", "90") && settings->config.idle_timeout_ms == 90000);
    CHECK(shows(settings, "timeout", "90"));
    CHECK(set(settings, "loglevel", "warning") && shows(settings, "loglevel", "warning"));
    CHECK(set(settings, "loglevel", "verbose") && shows(settings, "loglevel", "debug"));
    CHECK(set(settings, "durability", "os") && settings->config.durability == DURABILITY_OS);
    CHECK(!set(settings, "maxclients", "0"));
    settings_unref(settings);
}

static void test_what_needs_a_restart_is_fixed(void)
{
    struct settings *settings = make();
    CHECK(settings_knows(settings, BYTES("partitions")));
    CHECK(settings_is_fixed(settings, BYTES("partitions")));
    CHECK(settings_is_fixed(settings, BYTES("databases")));
    CHECK(settings_is_fixed(settings, BYTES("daemonize")));
    CHECK(!settings_is_fixed(settings, BYTES("maxclients")));
    CHECK(!settings_is_fixed(settings, BYTES("hz")));
    CHECK(!settings_knows(settings, BYTES("nonsense")));
    settings_unref(settings);
}

static void test_a_copy_is_the_next_epoch_and_independent(void)
{
    struct settings *old = make();
    CHECK(set(old, "slowlog-max-len", "5") && old->slowlog_len_max == 5);
    CHECK(set(old, "requirepass", "secret") && settings_needs_password(old));
    struct settings *copy = settings_copy(old);
    CHECK(copy->epoch == old->epoch + 1);
    CHECK(copy->slowlog_len_max == 5);
    CHECK(set(copy, "slowlog-max-len", "6") && set(copy, "requirepass", ""));
    CHECK(old->slowlog_len_max == 5 && settings_needs_password(old));
    CHECK(settings_ref(old) == old);
    settings_unref(old);
    CHECK(shows(old, "slowlog-max-len", "5"));
    settings_unref(old);
    CHECK(shows(copy, "slowlog-max-len", "6"));
    settings_unref(copy);
}

int main(void)
{
    test_parameters_are_remembered_in_canonical_form();
    test_what_has_no_effect_is_refused();
    test_appendfsync_is_the_durability();
    test_own_options_are_shown_and_taken_in_redis_units();
    test_what_needs_a_restart_is_fixed();
    test_a_copy_is_the_next_epoch_and_independent();
    return 0;
}
