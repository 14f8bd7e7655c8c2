/*
 * test_config_reload.c - snapshots: files checked together, what a reload takes over and what it reports.
 */
#include "config/reload.h"

#include "shared/check.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/scree-reload-XXXXXX";
static char proxy_path[128];
static char shards_path[128];
static char backend_path[128];
static char users_path[128];
static char error[1024];

static const char map_1[] = "[map]\nepoch = 5\n[shard a]\nslots = 0-16383\naddress = h:1\n";
static const char proxy_1[] =
    "[proxy]\nworkers = 2\n[upstream]\nsecret = s\n[namespace a]\ntoken = t\n";

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}

static struct proxy_snapshot *start(void)
{
    put(shards_path, map_1);
    put(proxy_path, proxy_1);
    struct proxy_snapshot *snapshot = snapshot_load(proxy_path, error, sizeof error);
    CHECK(snapshot);
    return snapshot;
}

/* True when the error is `ending` after a path in the folder. */
static bool error_is(const char *ending)
{
    size_t skip = strlen(folder);
    if (strncmp(error, folder, skip) == 0 && strcmp(error + skip, ending) == 0)
        return true;
    (void)fprintf(stderr, "%s\n%s\n", error, ending);
    return false;
}

static bool refused(const char *proxy_text, const char *ending)
{
    put(proxy_path, proxy_text);
    struct proxy_snapshot *snapshot = snapshot_load(proxy_path, error, sizeof error);
    bool ok = !snapshot && error_is(ending);
    snapshot_unref(snapshot);
    return ok;
}

static void test_a_snapshot_holds_all_files(void)
{
    struct proxy_snapshot *snapshot = start();
    struct namespace_match match;
    CHECK(snapshot->config.workers == 2);
    CHECK(snapshot->map->epoch == 5);
    CHECK(strcmp(snapshot->shards_path, shards_path) == 0);
    CHECK(namespaces_login(snapshot->namespaces, BYTES("t"), &match));
    snapshot_unref(snapshot);
}

static void test_nothing_changed(void)
{
    struct proxy_snapshot *old = start();
    struct reload_report report;
    struct proxy_snapshot *fresh = snapshot_reload(old, &report, error, sizeof error);
    CHECK(fresh && !report.map_changed && !report.namespaces_changed);
    CHECK(!*report.changed && !*report.needs_restart);
    snapshot_unref(fresh);
    snapshot_unref(old);
}

static void test_a_reload_takes_what_may_change_and_names_the_rest(void)
{
    struct proxy_snapshot *old = start();
    struct reload_report report;
    put(proxy_path,
        "[proxy]\nworkers = 4\nmaxclients = 5\nidle-timeout = 1m\n[upstream]\nsecret = s\n"
        "[namespace b]\ntoken = t\n[listener l]\naddress = h:1\nnamespace = b\n");
    put(shards_path, "[map]\nepoch = 6\n[shard b]\nslots = 0-16383\naddress = h:2\n");
    struct proxy_snapshot *fresh = snapshot_reload(old, &report, error, sizeof error);
    CHECK(fresh && report.map_changed && report.namespaces_changed);
    CHECK(strcmp(report.changed, "maxclients idle-timeout") == 0);
    CHECK(strcmp(report.needs_restart, "workers listeners") == 0);
    CHECK(fresh->config.workers == 2 && fresh->config.maxclients == 5);
    CHECK(strcmp(fresh->map->shards[0].name, "b") == 0);
    CHECK(report.slots_moved == 16384 && strcmp(report.moves, "16384 slots from a to b") == 0);
    snapshot_unref(old);
    snapshot_unref(fresh);
}

static const char proxy_users[] =
    "[proxy]\naclfile = users.acl\nrequirepass = pw\n[upstream]\nsecret = s\n"
    "[namespace a]\ntoken = t\nusers = bob eve\n";

static bool accepts(const struct proxy_snapshot *snapshot, const char *name, const char *password)
{
    const struct acl_user *user = acl_user_find(snapshot->users, bytes_of(name));
    return user && acl_user_accepts(user, bytes_of(password));
}

static struct proxy_snapshot *reload(struct proxy_snapshot *old)
{
    struct reload_report report;
    struct proxy_snapshot *fresh = snapshot_reload(old, &report, error, sizeof error);
    CHECK(fresh);
    CHECK(report.users_changed == (fresh->users != old->users));
    snapshot_unref(old);
    return fresh;
}

static struct proxy_snapshot *with_user(struct proxy_snapshot *old, const char *name)
{
    struct acl *users = acl_copy(old->users);
    (void)acl_user_add(users, bytes_of(name), false);
    struct proxy_snapshot *fresh = snapshot_with_users(old, users);
    snapshot_unref(old);
    return fresh;
}

static void test_users_stay_until_another_file_is_configured(void)
{
    put(shards_path, map_1);
    put(proxy_path, proxy_users);
    put(users_path, "user bob on >b +@all\n");
    struct proxy_snapshot *snapshot = snapshot_load(proxy_path, error, sizeof error);
    struct namespace_match match;
    CHECK(snapshot && accepts(snapshot, "bob", "b") && !accepts(snapshot, "bob", "c"));
    CHECK(accepts(snapshot, "default", "pw") && !accepts(snapshot, "default", ""));
    CHECK(namespaces_home(snapshot->namespaces, BYTES("eve"), &match));
    CHECK(bytes_equal(match.name, BYTES("a")));
    CHECK(!namespaces_home(snapshot->namespaces, BYTES("ev"), &match));
    snapshot = reload(with_user(snapshot, "ann"));
    CHECK(acl_user_find(snapshot->users, BYTES("ann")));
    put(users_path, "user bob on >c +@all\nuser default on nopass\n");
    snapshot = reload(snapshot);
    CHECK(!acl_user_find(snapshot->users, BYTES("ann")) && accepts(snapshot, "bob", "c"));
    CHECK(accepts(snapshot, "default", "pw") && !accepts(snapshot, "default", ""));
    put(proxy_path, "[proxy]\naclfile = users.acl\nrequirepass = other\n");
    snapshot = reload(with_user(snapshot, "ann"));
    CHECK(accepts(snapshot, "default", "other") && !accepts(snapshot, "default", "pw"));
    CHECK(acl_user_find(snapshot->users, BYTES("ann")));
    snapshot_unref(snapshot);
}

static void test_users_are_saved_and_loaded(void)
{
    put(shards_path, map_1);
    put(proxy_path, proxy_users);
    put(users_path, "user bob on >b\n");
    struct proxy_snapshot *first = snapshot_load(proxy_path, error, sizeof error);
    CHECK(first);
    first = with_user(first, "ann");
    struct proxy_snapshot *saved = snapshot_save_users(first);
    CHECK(saved && saved->users == first->users);
    snapshot_unref(first);
    saved = reload(with_user(saved, "eve"));
    /* saving is no change of the files, so eve stays */
    CHECK(acl_user_find(saved->users, BYTES("eve")));
    struct proxy_snapshot *loaded = snapshot_load_users(saved, error, sizeof error);
    CHECK(loaded && acl_user_find(loaded->users, BYTES("ann")));
    CHECK(!acl_user_find(loaded->users, BYTES("eve")));
    snapshot_unref(saved);
    put(users_path, "user bob on\nuser +x\nnobody\n");
    CHECK(!snapshot_load_users(loaded, error, sizeof error));
    CHECK(error_is("/users.acl: line 3: expected 'user NAME rules…'"));
    snapshot_unref(loaded);
    CHECK(refused(proxy_users, "/users.acl: line 3: expected 'user NAME rules…'"));
    CHECK(unlink(users_path) == 0);
    CHECK(refused(proxy_users, "/users.acl: No such file or directory"));
}

static void test_homes_of_users(void)
{
    static const char secret[] = "[upstream]\nsecret = s\n";
    char text[512];
    (void)snprintf(text, sizeof text, "%s[namespace a]\nusers = x\n[namespace b]\nusers = y x\n",
                   secret);
    CHECK(refused(
        text,
        "/proxy.ini:5: namespace b: users: expected users that no other namespace lists, found x"));
    (void)snprintf(text, sizeof text, "%s[namespace a_*]\nusers = x\n", secret);
    CHECK(refused(text, "/proxy.ini:3: namespace a_*: users: expected no users in a pattern, "
                        "found x"));
    (void)snprintf(text, sizeof text, "%s[namespace a]\nusers = default\n", secret);
    CHECK(refused(text,
                  "/proxy.ini:3: namespace a: users: expected users other than default, found "
                  "default"));
}

static void test_after_an_error_the_old_configuration_stays(void)
{
    struct proxy_snapshot *old = start();
    struct reload_report report;
    put(shards_path, "[map]\nepoch = 4\n[shard a]\nslots = 0-16383\naddress = h:1\n");
    CHECK(!snapshot_reload(old, &report, error, sizeof error));
    CHECK(error_is("/shards.ini:2: map.epoch: expected at least 5, the epoch in force, found 4"));
    put(shards_path, "[map]\nepoch = 5\n[shard a]\nslots = 0-16380\naddress = h:1\n"
                     "[shard b]\nslots = 16381-16383\naddress = h:2\n");
    CHECK(!snapshot_reload(old, &report, error, sizeof error));
    CHECK(
        error_is("/shards.ini:2: map.epoch: expected more than 5, the epoch in force, because the "
                 "new map moves 3 slots from a to b"));
    put(shards_path, "[map]\nepoch = 9\n[shard a]\nslots = 0-3\naddress = h:1\n");
    CHECK(!snapshot_reload(old, &report, error, sizeof error));
    CHECK(error_is("/shards.ini:4: expected every slot once, slots 4-16383 have no shard"));
    put(shards_path, map_1);
    put(proxy_path, "[proxy]\nworkers = many\n");
    CHECK(!snapshot_reload(old, &report, error, sizeof error));
    CHECK(error_is("/proxy.ini:2: proxy.workers: expected a number from 0 to 256"));
    snapshot_unref(old);
}

static void test_addresses_may_change_within_an_epoch(void)
{
    struct proxy_snapshot *old = start();
    struct reload_report report;
    put(shards_path, "[map]\nepoch = 5\n[shard a]\nslots = 0-16383\naddress = h:7\n"
                     "[shard spare]\naddress = h:8\n");
    struct proxy_snapshot *fresh = snapshot_reload(old, &report, error, sizeof error);
    CHECK(fresh && report.map_changed && report.slots_moved == 0);
    CHECK(strcmp(report.moves, "nothing") == 0);
    snapshot_unref(old);
    snapshot_unref(fresh);
}

static void test_namespaces_that_contradict_are_refused(void)
{
    put(shards_path, map_1);
    CHECK(refused("[namespace a]\ntoken = t\n",
                  "/proxy.ini:1: namespace a: upstream.secret must be set: backends that are plain "
                  "Redis servers have no namespaces"));
    CHECK(refused("[upstream]\nsecret = s\n[namespace a]\ntoken = t\n[namespace b]\ntoken = t\n",
                  "/proxy.ini:5: namespace b: token: expected a text that no other namespace uses, "
                  "it is the token of a"));
    CHECK(
        refused("[proxy]\nrequirepass = t\n[upstream]\nsecret = s\n[namespace a]\ntoken = t\n",
                "/proxy.ini:5: namespace a: token: expected a text that differs from requirepass"));
    CHECK(refused("[upstream]\nsecret = s\n[namespace default]\ntoken = t\n",
                  "/proxy.ini:3: namespace default: expected another name: \"default\" is the name "
                  "of Redis' own user"));
    CHECK(refused("[upstream]\nsecret = s\n[listener l]\naddress = h:1\nnamespace = nobody\n",
                  "/proxy.ini:3: listener l.namespace: expected the name of a [namespace] or one "
                  "that a pattern matches"));
    CHECK(refused("[upstream]\nbackoff-min = 3s\n",
                  "/proxy.ini: upstream.backoff-min: expected at most backoff-max"));
}

static void test_the_backend_takes_over_what_may_change(void)
{
    struct backend_config config;
    struct reload_report report;
    put(backend_path, "[backend]\nport = 7000\nmaxclients = 10\n");
    config_init_defaults(&config.head, &backend_schema);
    CHECK(config_load(&config.head, backend_path, error, sizeof error));
    put(backend_path, "[backend]\nport = 7001\nmaxclients = 11\ndurability = os\n");
    CHECK(backend_reload(&config, &report, error, sizeof error));
    CHECK(config.port == 7000 && config.maxclients == 11 && config.durability == DURABILITY_OS);
    CHECK(strcmp(report.changed, "durability maxclients") == 0);
    CHECK(strcmp(report.needs_restart, "port") == 0);
    put(backend_path, "[backend]\nmaxclients = 0\n");
    CHECK(!backend_reload(&config, &report, error, sizeof error));
    CHECK(config.maxclients == 11);
    config_fini(&config.head);
}

int main(void)
{
    CHECK(mkdtemp(folder));
    (void)snprintf(proxy_path, sizeof proxy_path, "%s/proxy.ini", folder);
    (void)snprintf(shards_path, sizeof shards_path, "%s/shards.ini", folder);
    (void)snprintf(users_path, sizeof users_path, "%s/users.acl", folder);
    (void)snprintf(backend_path, sizeof backend_path, "%s/backend.ini", folder);
    test_a_snapshot_holds_all_files();
    test_nothing_changed();
    test_a_reload_takes_what_may_change_and_names_the_rest();
    test_users_stay_until_another_file_is_configured();
    test_users_are_saved_and_loaded();
    test_homes_of_users();
    test_after_an_error_the_old_configuration_stays();
    test_addresses_may_change_within_an_epoch();
    test_namespaces_that_contradict_are_refused();
    test_the_backend_takes_over_what_may_change();
    (void)unlink(proxy_path);
    (void)unlink(shards_path);
    (void)unlink(backend_path);
    (void)rmdir(folder);
    return 0;
}
