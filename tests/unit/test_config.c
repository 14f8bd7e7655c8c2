/*
 * test_config.c - reading and writing configuration files: accepted texts, refused texts and their errors.
 */
#include "config/config.h"

#include "shared/check.h"
#include "shared/log.h"

#include <stdlib.h>
#include <unistd.h>

static char error[1024];

static bool proxy_reads(struct proxy_config *config, const char *text)
{
    config_init_defaults(&config->head, &proxy_schema);
    return config_parse(&config->head, "p.ini", bytes_of(text), error, sizeof error);
}

/* Is the text refused with exactly this error? */
static bool refused(const char *text, const char *expected)
{
    struct proxy_config config;
    bool ok = proxy_reads(&config, text);
    config_fini(&config.head);
    if (!ok && strcmp(error, expected) != 0)
        (void)fprintf(stderr, "%s\n%s\n", error, expected);
    return !ok && strcmp(error, expected) == 0;
}

static void test_defaults(void)
{
    struct proxy_config proxy;
    struct backend_config backend;
    config_init_defaults(&proxy.head, &proxy_schema);
    config_init_defaults(&backend.head, &backend_schema);
    CHECK(strcmp(proxy.listen, "127.0.0.1:7379") == 0);
    CHECK(proxy.upstream_timeout_ms == 5000);
    CHECK(proxy.client_output_limit_bytes == 256u << 20);
    CHECK(proxy.cross_slot == CROSS_SLOT_ANY);
    CHECK(proxy.log_level == LOG_INFO);
    CHECK(backend.port == 7401);
    CHECK(backend.durability == DURABILITY_ALWAYS);
    CHECK(backend.store_compression == COMPRESSION_LZ4);
    CHECK(backend.unix_mode == 0700);
    config_fini(&proxy.head);
    config_fini(&backend.head);
}

static void test_words_of_enums_have_the_order_of_the_c_enums(void)
{
    struct backend_config config;
    config_init_defaults(&config.head, &backend_schema);
    const struct option *level = config_find(&config.head, BYTES("log-level"));
    const struct option *compression = config_find(&config.head, BYTES("store-compression"));
    const struct option *durability = config_find(&config.head, BYTES("durability"));
    CHECK(strcmp(level->unit, "debug|info|warn|error") == 0 && LOG_ERROR == 3 && LOG_DEBUG == 0);
    CHECK(strcmp(compression->unit, "none|lz4|zstd") == 0 && COMPRESSION_ZSTD == 2);
    CHECK(strcmp(durability->unit, "always|everysec|os") == 0 && DURABILITY_OS == 2);
    config_fini(&config.head);
}

static void test_a_file_sets_options_and_groups(void)
{
    struct proxy_config config;
    CHECK(proxy_reads(&config, "# a comment\n"
                               "[proxy]\n"
                               "listen = 0.0.0.0:1 ; two of them\n"
                               "    unix:/tmp/x\n"
                               "workers=2\r\n"
                               "[upstream]\n"
                               "timeout: 250ms\n"
                               "[namespace test_*]\n"
                               "token = t0\n"
                               "ephemeral = yes\n"
                               "[namespace empty]\n"
                               "[listener l]\n"
                               "address = h:9\n"
                               "namespace = test_1"));
    CHECK(strcmp(config.listen, "0.0.0.0:1 unix:/tmp/x") == 0);
    CHECK(config.workers == 2);
    CHECK(config.upstream_timeout_ms == 250);
    CHECK(config.namespace_count == 2);
    CHECK(strcmp(config.namespaces[0].name, "test_*") == 0);
    CHECK(config.namespaces[0].ephemeral && config.namespaces[0].ephemeral_after_ms == 30000);
    CHECK(config.namespaces[0].line == 8);
    CHECK(strcmp(config.namespaces[1].name, "empty") == 0);
    CHECK(config.listener_count == 1 && strcmp(config.listeners[0].namespace, "test_1") == 0);
    config_fini(&config.head);
}

static void test_refusals_say_file_line_and_what_was_expected(void)
{
    CHECK(refused(
        "[upstream]\ntimeout = soon\n",
        "p.ini:2: upstream.timeout: expected a time from 10ms to 1h, such as 500ms, 5s or 1m"));
    CHECK(refused("[proxy]\nworkers = 1\n\nworkers = 2\n",
                  "p.ini:4: proxy.workers: expected only once, it is already on line 2"));
    CHECK(refused(
        "[proxy]\nworkers = 1\n  maxclients = 2\n",
        "p.ini:3: proxy.workers: expected only once, it is already on line 2 (an indented line "
        "continues the line "
        "above it)"));
    CHECK(refused("[proxy]\nadmin = unix:/x\n",
                  "p.ini:2: proxy.admin: expected host:port or [v6]:port, or nothing"));
    CHECK(refused(
        "[proxy]\nspeed = 11\n",
        "p.ini:2: proxy.speed: unknown option of [proxy]; --print-config lists all options"));
    CHECK(refused(
        "[proxy]\ntimeout = 5s\n",
        "p.ini:2: proxy.timeout: unknown option of [proxy]; --print-config lists all options"));
    CHECK(refused(
        "[prox]\n",
        "p.ini:1: unknown section, expected [proxy] [upstream] [namespace NAME] [listener NAME]"));
    CHECK(refused("[proxy]\n[upstream]\n[proxy]\n", "p.ini:3: expected [proxy] only once"));
    CHECK(refused("workers = 1\n", "p.ini:1: expected a [section] before workers"));
    CHECK(refused("[proxy]\n\nwhat\n", "p.ini:3: expected name = value, or [section]"));
    CHECK(refused("[proxy\n", "p.ini:1: expected name = value, or [section]"));
    CHECK(refused("[namespace a]\n[namespace a]\n",
                  "p.ini:2: expected another name: [namespace a] is already on line 1"));
    CHECK(refused("[namespace ]\n",
                  "p.ini:1: expected [namespace NAME], a name of 1 to 200 characters"));
    CHECK(refused(
        "\n[listener l]\nnamespace = a\n",
        "p.ini:2: listener l.address: missing, expected host:port, [v6]:port or unix:/path"));
    CHECK(refused("[namespace n]\nslot-rule = hash\n",
                  "p.ini:2: namespace n.slot-rule: expected tag, prefix:SEPARATOR:FIELDS or "
                  "fixed:SLOT with SLOT < 16384"));
}

static void test_a_zero_byte_and_an_endless_line_are_refused(void)
{
    struct proxy_config config;
    config_init_defaults(&config.head, &proxy_schema);
    CHECK(!config_parse(&config.head, "p.ini", BYTES("[proxy]\nrequirepass = a\0b\n"), error,
                        sizeof error));
    CHECK(strcmp(error, "p.ini:2: expected text, found a zero byte") == 0);
    size_t len = 100000;
    char *line = malloc(len);
    CHECK(line);
    memset(line, 'x', len);
    CHECK(!config_parse(&config.head, "p.ini", (struct bytes){line, len}, error, sizeof error));
    CHECK(strcmp(error,
                 "p.ini:1: expected a shorter line: a list can continue on indented lines") == 0);
    free(line);
    CHECK(!config_load(&config.head, "/nonexistent/p.ini", error, sizeof error));
    CHECK(strcmp(error, "/nonexistent/p.ini: No such file or directory") == 0);
    config_fini(&config.head);
}

static void test_printed_files_read_back_equal(void)
{
    struct proxy_config config;
    struct proxy_config again;
    CHECK(proxy_reads(
        &config,
        "[proxy]\nlisten = a:1 b:2\nrequirepass = p;w #1\nadmin =\n[upstream]\nsecret = x y\n"
        "[namespace n*]\ntoken = t\nslot-rule = prefix:::2\n[listener l]\naddress = h:1\n"
        "namespace = nn\n"));
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    CHECK(file);
    config_print(&config.head, file);
    CHECK(fclose(file) == 0);
    CHECK(proxy_reads(&again, text));
    size_t cursor = 0;
    CHECK(!config_diff(&config.head, &again.head, &cursor));
    CHECK(strcmp(again.requirepass, "p;w #1") == 0);
    CHECK(again.namespace_count == 1 && strcmp(again.namespaces[0].slot_rule, "prefix:::2") == 0);
    CHECK(again.listener_count == 1 && strcmp(again.listeners[0].address, "h:1") == 0);
    free(text);
    config_fini(&config.head);
    config_fini(&again.head);
}

static void test_options_are_found_by_key_and_listed_by_pattern(void)
{
    struct proxy_config config;
    char buffer[OPTION_TEXT_MAX];
    config_init_defaults(&config.head, &proxy_schema);
    const struct option *option = config_find(&config.head, BYTES("UPSTREAM-timeout"));
    CHECK(option && strcmp(option->key, "upstream-timeout") == 0);
    CHECK(config_find(&config.head, BYTES("maxclients")));
    CHECK(!config_find(&config.head, BYTES("proxy-maxclients")));
    CHECK(!config_find(&config.head, BYTES("timeout")));
    CHECK(config_set(&config.head, option, BYTES("7s"), error, sizeof error));
    CHECK(bytes_equal(config_get(&config.head, option, buffer), BYTES("7s")));
    CHECK(!config_set(&config.head, option, BYTES("7"), error, sizeof error));
    size_t cursor = 0;
    size_t count = 0;
    while (config_next(&config.head, BYTES("upstream-backoff-*"), &cursor))
        count++;
    CHECK(count == 2);
    config_fini(&config.head);
}

/* Checks every row of a program: the key is unique, the default is within the bounds, the help text ends with a full
 * stop. */
static void check_rows(const struct config_schema *schema)
{
    union {
        struct proxy_config proxy;
        struct backend_config backend;
    } config;
    const struct option *option;
    char buffer[OPTION_TEXT_MAX];
    size_t cursor = 0;
    config_init_defaults(&config.proxy.head, schema);
    while ((option = config_next(&config.proxy.head, BYTES("*"), &cursor))) {
        CHECK(config_find(&config.proxy.head, bytes_of(option->key)) == option);
        CHECK(strchr(option->key, '_') == NULL);
        CHECK(option->sentence[strlen(option->sentence) - 1] == '.');
        CHECK(config_set(&config.proxy.head, option, config_get(&config.proxy.head, option, buffer),
                         error, sizeof error));
    }
    config_fini(&config.proxy.head);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A first file that includes secrets.ini beside it, with this text; true when both are read. */
static bool both_read(struct proxy_config *config, const char *secrets, char reason[1024])
{
    char folder[] = "/tmp/scree-include-XXXXXX";
    char first[64];
    char second[64];
    CHECK(mkdtemp(folder));
    (void)snprintf(first, sizeof first, "%s/proxy.ini", folder);
    (void)snprintf(second, sizeof second, "%s/secrets.ini", folder);
    write_text(first, "[proxy]\ninclude = secrets.ini\nworkers = 2\nmaxclients = 7\n"
                      "[namespace shop]\nephemeral = yes\n");
    write_text(second, secrets);
    config_init_defaults(&config->head, &proxy_schema);
    bool ok = config_load(&config->head, first, reason, 1024);
    char *included = config_included_path(&config->head);
    CHECK(included && strcmp(included, second) == 0);
    free(included);
    if (!ok && strncmp(reason, folder, strlen(folder)) == 0)
        memmove(reason, reason + strlen(folder), strlen(reason) - strlen(folder) + 1);
    CHECK(unlink(first) == 0 && unlink(second) == 0 && rmdir(folder) == 0);
    return ok;
}

static void test_an_included_file_adds_and_replaces(void)
{
    struct proxy_config config;
    CHECK(both_read(&config,
                    "[upstream]\nsecret = s\n[proxy]\nworkers = 3\n[namespace shop]\ntoken = t\n"
                    "[namespace new]\ntoken = u\n",
                    error));
    CHECK(strcmp(config.upstream_secret, "s") == 0);
    CHECK(config.workers == 3 && config.maxclients == 7);
    CHECK(config.namespace_count == 2);
    CHECK(strcmp(config.namespaces[0].name, "shop") == 0 && config.namespaces[0].ephemeral);
    CHECK(strcmp(config.namespaces[0].token, "t") == 0);
    CHECK(strcmp(config.namespaces[1].token, "u") == 0 && !config.namespaces[1].ephemeral);
    config_fini(&config.head);
}

static void test_an_included_file_is_refused_as_the_first_is(void)
{
    static const struct {
        const char *secrets;
        const char *reason;
    } cases[] = {
        {"[namespace shop]\n[namespace shop]\n",
         "/secrets.ini:2: expected another name: [namespace shop] is already on line 1"},
        {"[proxy]\ninclude = more.ini\n",
         "/secrets.ini:2: proxy.include: an included file cannot include another file"},
        {"[proxy]\n[proxy]\n", "/secrets.ini:2: expected [proxy] only once"},
        {"[proxy]\nworkers = x\n",
         "/secrets.ini:2: proxy.workers: expected a number from 0 to 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct proxy_config config;
        CHECK(!both_read(&config, cases[i].secrets, error));
        CHECK(strncmp(error, cases[i].reason, strlen(cases[i].reason)) == 0);
        config_fini(&config.head);
    }
}

static void test_a_copy_is_equal_and_its_own(void)
{
    struct proxy_config config;
    struct proxy_config copy;
    CHECK(proxy_reads(&config, "[proxy]\nworkers = 3\n[namespace a]\ntoken = t\n"));
    config_copy(&copy.head, &config.head);
    config_fini(&config.head);
    CHECK(copy.workers == 3 && copy.namespace_count == 1);
    CHECK(strcmp(copy.namespaces[0].token, "t") == 0 && strcmp(copy.head.path, "p.ini") == 0);
    config_fini(&copy.head);
}

int main(void)
{
    test_defaults();
    test_words_of_enums_have_the_order_of_the_c_enums();
    test_a_file_sets_options_and_groups();
    test_refusals_say_file_line_and_what_was_expected();
    test_a_zero_byte_and_an_endless_line_are_refused();
    test_printed_files_read_back_equal();
    test_options_are_found_by_key_and_listed_by_pattern();
    check_rows(&proxy_schema);
    check_rows(&backend_schema);
    test_an_included_file_adds_and_replaces();
    test_an_included_file_is_refused_as_the_first_is();
    test_a_copy_is_equal_and_its_own();
    return 0;
}
