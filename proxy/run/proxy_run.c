#include "proxy/run/proxy_run.h"

#include "config/shards_file.h"
#include "config/tls_files.h"
#include "proxy/client/users.h"
#include "proxy/cluster/tenants.h"
#include "proxy/core/events.h"
#include "proxy/core/routes.h"
#include "proxy/core/slow_log.h"
#include "proxy/core/worker.h"
#include "proxy/run/worker_accept.h"
#include "proxy/run/worker_run.h"
#include "proxy/status/admin.h"
#include "proxy/status/status.h"
#include "proxy/upstream/leaders.h"
#include "proxy/upstream/zones.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/log.h"
#include "shared/map_change.h"
#include "shared/net/stream.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ADDRESS_TEXT = 256,
    REASON_MAX = 1024,
    ROUTES_LOG_MS = 1000, /* routes that are learned sooner after others are logged as LOG_DEBUG */
};

/* A worker's thread and its bound descriptors. */
struct seat {
    struct proxy *proxy;
    struct proxy_worker *worker;
    struct loop *loop;
    struct loop_thread *thread;
    int *fds; /* one per row of proxy_run */
};

/* An address on which clients connect. */
struct address_row {
    char *address;
    char *name; /* name of the namespace; "": none */
    bool speaks_tls;
};

struct proxy_run {
    struct seat *seats;
    uint32_t seat_count;
    struct address_row *rows;
    size_t row_count;
    uint32_t stopped; /* number of workers that have stopped */
    struct watch *config_watch;
    struct watch *include_watch;
    struct watch *shards_watch;
    struct watch *users_watch;
    struct watch *tls_watches[2 * TLS_FILES_MAX]; /* NULL: there is no such file */
    struct proxy *proxy;
    struct task watch;    /* run_watch; posted when the paths of the TLS files have changed */
    bool watches_are_old; /* `watch` is posted and has not run yet */
};

/* ---- create and free ------------------------------------------------------------------------- */

static void publish_routes(struct task *task);

static const struct proxy_calls calls = {.reload = proxy_reload, .publish = proxy_publish};

static void make_run_id(char run_id[41])
{
    unsigned char bytes[20];
    clock_random_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(run_id + 2 * i, 3, "%02x", bytes[i]);
}

struct proxy *proxy_new(struct loop *loop, struct proxy_snapshot *snapshot)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    CHECK(proxy);
    proxy->loop = loop;
    proxy->calls = &calls;
    proxy->snapshot = snapshot;
    proxy->started_ms = clock_wall_us() / 1000;
    proxy->next_client_id = 1;
    proxy->metrics = metrics_new();
    proxy_metrics_init(&proxy->labelled);
    metric_set(proxy->metrics, METRIC_PROXY_RELOAD_GOOD, 1);
    proxy->slow_log = slow_log_new();
    proxy->events = events_new();
    events_note_start(proxy->events, proxy->started_ms);
    proxy->refusals = refusals_new();
    tenants_init(&proxy->tenants);
    proxy->routes.learned = routes_new();
    proxy->routes.zones = zones_new();
    proxy->routes.task.run = publish_routes;
    make_run_id(proxy->run_id);
    metric_set(proxy->metrics, METRIC_PROXY_MAP_EPOCH, snapshot->map->epoch);
    metric_set(proxy->metrics, METRIC_PROXY_MAP_LOADED_S, clock_wall_us() / 1000000);
    return proxy;
}

void proxy_free(struct proxy *proxy)
{
    CHECK(!proxy->run);
    leaders_free(proxy->leaders);
    snapshot_unref(proxy->snapshot);
    refusals_free(proxy->refusals);
    tenants_fini(&proxy->tenants);
    routes_free(proxy->routes.learned);
    zones_free(proxy->routes.zones);
    free(proxy->workers);
    proxy_metrics_fini(&proxy->labelled);
    slow_log_free(proxy->slow_log);
    events_free(proxy->events);
    free(proxy);
}

struct proxy_worker *proxy_add_worker(struct proxy *proxy, struct loop *loop)
{
    size_t size = (proxy->worker_count + 1) * sizeof(struct proxy_worker *);
    proxy->workers = realloc(proxy->workers, size);
    CHECK(proxy->workers);
    struct proxy_worker *worker =
        proxy_worker_new(proxy, loop, proxy->worker_count, proxy->snapshot);
    proxy->workers[proxy->worker_count++] = worker;
    return worker;
}

/* ---- messages to the workers ----------------------------------------------------------------- */

struct order {
    struct task task;
    struct proxy_worker *worker;
    struct proxy_snapshot *snapshot; /* the new snapshot; NULL: stop */
    uint64_t timeout_ms;
};

static void on_order(struct task *task)
{
    struct order *order = container_of(task, struct order, task);
    if (order->snapshot)
        proxy_worker_update(order->worker, order->snapshot);
    else
        proxy_worker_stop(order->worker, order->timeout_ms);
    free(order);
}

static void order_all(struct proxy *proxy, struct proxy_snapshot *snapshot, uint64_t timeout_ms)
{
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        struct order *order = calloc(1, sizeof(*order));
        CHECK(order);
        order->task.run = on_order;
        order->worker = proxy->workers[i];
        order->snapshot = snapshot ? snapshot_ref(snapshot) : NULL;
        order->timeout_ms = timeout_ms;
        loop_post(proxy->workers[i]->loop, &order->task);
    }
}

/* ---- reload ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void note(struct proxy *proxy, enum event_kind kind,
                                                       const char *format, ...)
{
    char text[EVENT_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    events_note(proxy->events, kind, clock_wall_us() / 1000, "", text);
}

static void note_reload(struct proxy *proxy, const struct reload_report *report)
{
    bool is_same = !report->map_changed && !report->namespaces_changed && !report->users_changed &&
                   !*report->changed;
    note(proxy, EVENT_RELOADED, "changed: %s%s%s%s%s%s%s", is_same ? "nothing" : "",
         report->map_changed ? "map " : "", report->namespaces_changed ? "namespaces " : "",
         report->users_changed ? "users " : "", report->changed,
         *report->needs_restart ? "; needs a restart: " : "", report->needs_restart);
}

static void note_map(struct proxy *proxy, const struct shard_map *map)
{
    const struct shard_map *before = proxy->snapshot->wish;
    struct map_change change = map_change_find(before, map);
    char moves[EVENT_TEXT_MAX / 2];
    map_change_print(&change, moves, sizeof moves);
    map_change_free(&change);
    note(proxy, EVENT_MAP_CHANGED,
         "epoch %" PRIu64 " with %zu shards replaces epoch %" PRIu64 ": moves %s", map->epoch,
         map->shard_count, before->epoch, moves);
}

static bool same_tls_paths(const struct proxy_config *a, const struct proxy_config *b)
{
    return strcmp(a->tls_cert_file, b->tls_cert_file) == 0 &&
           strcmp(a->tls_key_file, b->tls_key_file) == 0 &&
           strcmp(a->tls_ca_cert_file, b->tls_ca_cert_file) == 0 &&
           strcmp(a->upstream_tls_cert_file, b->upstream_tls_cert_file) == 0 &&
           strcmp(a->upstream_tls_key_file, b->upstream_tls_key_file) == 0 &&
           strcmp(a->upstream_tls_ca_cert_file, b->upstream_tls_ca_cert_file) == 0;
}

/* Sets the snapshot's map: the wish, with the owners that backends have named in bounces. */
static void merge_routes(struct proxy *proxy, struct proxy_snapshot *snapshot)
{
    shard_map_unref(snapshot->map);
    snapshot->map = routes_merge(proxy->routes.learned, snapshot->wish, &snapshot->routes_version);
    metric_set(proxy->metrics, METRIC_PROXY_LEARNED_SLOTS,
               routes_count(snapshot->map, snapshot->wish));
}

void proxy_publish(struct proxy *proxy, struct proxy_snapshot *snapshot)
{
    routes_forget_removed(proxy->routes.learned, proxy->snapshot->wish, snapshot->wish);
    merge_routes(proxy, snapshot);
    if (!shard_map_equal(proxy->snapshot->wish, snapshot->wish))
        note_map(proxy, snapshot->wish);
    if (!shard_map_equal(proxy->snapshot->wish, snapshot->wish))
        metric_set(proxy->metrics, METRIC_PROXY_MAP_LOADED_S, clock_wall_us() / 1000000);
    bool tls_moved = !same_tls_paths(&proxy->snapshot->config, &snapshot->config);
    snapshot_unref(proxy->snapshot);
    proxy->snapshot = snapshot;
    if (tls_moved && proxy->run && !proxy->run->watches_are_old) {
        proxy->run->watches_are_old = true;
        loop_post(proxy->loop, &proxy->run->watch);
    }
    log_set_level((enum log_level)snapshot->config.log_level);
    order_all(proxy, snapshot, 0);
    admin_publish(proxy);
    if (proxy->leaders)
        leaders_configure(proxy->leaders, snapshot);
    metric_set(proxy->metrics, METRIC_PROXY_MAP_EPOCH,
               snapshot->map->epoch); /* each worker takes it in its next turn */
}

/* proxy->routes.task */
static void publish_routes(struct task *task)
{
    struct proxy *proxy = container_of(task, struct proxy, routes.task);
    atomic_store(&proxy->routes.is_posted, false);
    if (atomic_load(&proxy->is_stopping) ||
        routes_version(proxy->routes.learned) == proxy->snapshot->routes_version)
        return; /* a reload has merged them */
    proxy_publish(proxy, snapshot_with_users(proxy->snapshot, acl_ref(proxy->snapshot->users)));
    const struct shard_map *map = proxy->snapshot->map;
    uint32_t count = routes_count(map, proxy->snapshot->wish);
    uint64_t now_ms = loop_mono_ms(proxy->loop);
    bool is_first = now_ms >= proxy->routes.logged_ms + ROUTES_LOG_MS;
    log_event(is_first ? LOG_INFO : LOG_DEBUG, "routes_learned", "slots=%u shards=%zu", count,
              map->shard_count);
    proxy->routes.logged_ms = is_first ? now_ms : proxy->routes.logged_ms;
    note(proxy, EVENT_ROUTES_LEARNED, "%u slots are owned by other shards than shards.ini says",
         count);
}

/* leaders_events */
static void take_leader(void *owner, const struct route_leader *leader)
{
    struct proxy *proxy = owner;
    if (!routes_lead(proxy->routes.learned, proxy->snapshot->wish, leader))
        return;
    log_event(LOG_INFO, "leader_found", "shard=%s address=%s generation=%" PRIu32 " term=%" PRIu64,
              leader->shard, leader->address, leader->generation, leader->term);
    note(proxy, EVENT_LEADER_FOUND, "shard %s: %s", leader->shard, leader->address);
    proxy_publish(proxy, snapshot_with_users(proxy->snapshot, acl_ref(proxy->snapshot->users)));
}

/* leaders_events */
static void drop_leader(void *owner, const struct route_leader *copy, bool is_lost)
{
    struct proxy *proxy = owner;
    if (!routes_end_lead(proxy->routes.learned, copy, is_lost))
        return;
    log_event(LOG_INFO, "leader_forgotten", "shard=%s address=%s", copy->shard, copy->address);
    proxy_publish(proxy, snapshot_with_users(proxy->snapshot, acl_ref(proxy->snapshot->users)));
}

/* leaders_events */
static void take_zone(void *owner, const char *address, const char *zone)
{
    const struct proxy *proxy = owner;
    zones_put(proxy->routes.zones, address, zone);
}

void proxy_find_leaders(struct proxy *proxy)
{
    static const struct leaders_events events = {
        .on_found = take_leader, .on_ended = drop_leader, .on_zone = take_zone};
    proxy->leaders = leaders_new(proxy->loop, &events, proxy);
    leaders_configure(proxy->leaders, proxy->snapshot);
}

bool proxy_reload(struct proxy *proxy, struct reload_report *report, char *error, size_t size)
{
    if (atomic_load(&proxy->is_stopping)) {
        (void)snprintf(error, size, "the proxy is stopping");
        return false;
    }
    struct proxy_snapshot *fresh = snapshot_reload(proxy->snapshot, report, error, size);
    if (!fresh) {
        metric_add(proxy->metrics, METRIC_PROXY_RELOAD_FAILURES, 1);
        note(proxy, EVENT_RELOAD_REFUSED, "%s", error);
        metric_set(proxy->metrics, METRIC_PROXY_RELOAD_GOOD, 0);
        log_event(LOG_ERROR, "reload_refused", "reason=" LOG_QUOTED, error);
        return false;
    }
    proxy_publish(proxy, fresh);
    metric_add(proxy->metrics, METRIC_PROXY_RELOADS, 1);
    note_reload(proxy, report);
    metric_set(proxy->metrics, METRIC_PROXY_RELOAD_GOOD, 1);
    log_event(
        LOG_INFO, "reloaded",
        "epoch=%" PRIu64 " map_changed=%d namespaces_changed=%d users_changed=%d tls_changed=%d "
        "moves=" LOG_QUOTED " changed=" LOG_QUOTED " needs_restart=" LOG_QUOTED,
        fresh->map->epoch, report->map_changed, report->namespaces_changed, report->users_changed,
        report->tls_changed, report->moves, report->changed, report->needs_restart);
    return true;
}

static void reload_now(struct proxy *proxy)
{
    struct reload_report report;
    char error[REASON_MAX];
    (void)proxy_reload(proxy, &report, error, sizeof(error));
}

static void on_file_change(void *owner)
{
    reload_now(owner);
}

static void on_signal(void *owner, int signum)
{
    struct proxy *proxy = owner;
    log_event(LOG_INFO, "signal", "number=%d", signum);
    if (signum == SIGHUP)
        reload_now(proxy);
    else
        proxy_stop(proxy);
}

/* ---- starting -------------------------------------------------------------------------------- */

static void add_address_row(struct proxy_run *run, struct bytes address, const char *name, bool tls)
{
    run->rows = realloc(run->rows, (run->row_count + 1) * sizeof(*run->rows));
    CHECK(run->rows);
    struct address_row *row = &run->rows[run->row_count++];
    row->address = strndup(address.data, address.len);
    row->name = strdup(name);
    row->speaks_tls = tls;
    CHECK(row->address);
    CHECK(row->name);
}

static void list_addresses(struct proxy_run *run, const struct proxy_config *config)
{
    struct bytes rest = bytes_of(config->listen);
    struct bytes word;
    while (word_next(&rest, &word))
        add_address_row(run, word, "", false);
    rest = bytes_of(config->tls_listen);
    while (word_next(&rest, &word))
        add_address_row(run, word, "", true);
    for (size_t i = 0; i < config->listener_count; i++)
        add_address_row(run, bytes_of(config->listeners[i].address), config->listeners[i].namespace,
                        config->listeners[i].tls);
}

static struct listen_options listen_options_of(const struct proxy_config *config,
                                               const struct address_row *row)
{
    return (struct listen_options){.address = row->address,
                                   .backlog = config->tcp_backlog,
                                   .keepalive_s = (uint32_t)(config->tcp_keepalive_ms / 1000),
                                   .unix_mode = config->unix_mode};
}

/* Logs the bound address. With port 0 the other workers use the port that the kernel chose. */
static void note_address(struct address_row *row, int fd)
{
    char bound[ADDRESS_TEXT];
    listen_address(fd, bound, sizeof(bound));
    log_event(LOG_INFO, "listening", "address=%s tls=%d", bound, row->speaks_tls);
    if (bound[0] == '/')
        return;
    free(row->address);
    row->address = strdup(bound);
    CHECK(row->address);
}

/* Binds one descriptor per worker for each address. */
static bool bind_all(struct proxy *proxy, uint32_t workers, char *error, size_t size)
{
    struct proxy_run *run = proxy->run;
    for (size_t i = 0; i < run->row_count; i++) {
        struct address_row *row = &run->rows[i];
        for (uint32_t worker = 0; worker < workers; worker++) {
            char reason[REASON_MAX];
            struct listen_options options = listen_options_of(&proxy->snapshot->config, row);
            int fd = listen_bind(&options, reason, sizeof(reason));
            if (fd < 0) {
                (void)snprintf(error, size, "cannot listen on %s: %s", options.address, reason);
                return false;
            }
            run->seats[worker].fds[i] = fd;
            if (worker == 0)
                note_address(row, fd);
        }
    }
    return true;
}

static void on_thread_start(void *owner)
{
    struct seat *seat = owner;
    struct proxy_run *run = seat->proxy->run;
    for (size_t row = 0; row < run->row_count; row++) {
        struct listen_options options =
            listen_options_of(&seat->worker->snapshot->config, &run->rows[row]);
        proxy_worker_listen(seat->worker, seat->fds[row], &options, run->rows[row].name,
                            run->rows[row].speaks_tls);
        seat->fds[row] = -1;
    }
}

static void on_thread_end(void *owner)
{
    struct seat *seat = owner;
    proxy_worker_free(seat->worker);
}

static uint32_t count_workers(const struct proxy_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->workers > 0)
        return (uint32_t)config->workers;
    return cores > 0 ? (uint32_t)cores : 1;
}

static void run_free(struct proxy *proxy)
{
    struct proxy_run *run = proxy->run;
    for (uint32_t i = 0; i < run->seat_count; i++) {
        for (size_t row = 0; row < run->row_count; row++) {
            if (run->seats[i].fds[row] >= 0)
                close(run->seats[i].fds[row]);
        }
        free(run->seats[i].fds);
    }
    for (size_t row = 0; row < run->row_count; row++) {
        free(run->rows[row].address);
        free(run->rows[row].name);
    }
    free(run->rows);
    free(run->seats);
    free(run);
    proxy->run = NULL;
}

static void make_seats(struct proxy *proxy, uint32_t workers)
{
    struct proxy_run *run = proxy->run;
    run->seats = calloc(workers, sizeof(*run->seats));
    CHECK(run->seats);
    run->seat_count = workers;
    for (uint32_t i = 0; i < workers; i++) {
        struct seat *seat = &run->seats[i];
        seat->proxy = proxy;
        seat->fds = calloc(run->row_count + 1, sizeof(*seat->fds));
        CHECK(seat->fds);
        for (size_t row = 0; row < run->row_count; row++)
            seat->fds[row] = -1;
    }
}

static void unwatch_tls(struct proxy_run *run)
{
    for (int i = 0; i < 2 * TLS_FILES_MAX; i++) {
        if (run->tls_watches[i])
            watch_free(run->tls_watches[i]);
        run->tls_watches[i] = NULL;
    }
}

static void watch_tls(struct proxy *proxy)
{
    const struct proxy_snapshot *snapshot = proxy->snapshot;
    char *paths[2 * TLS_FILES_MAX] = {NULL};
    if (snapshot->tls)
        proxy_tls_paths(&snapshot->config, paths);
    if (snapshot->upstream_tls)
        upstream_tls_paths(&snapshot->config, paths + TLS_FILES_MAX);
    for (int i = 0; i < 2 * TLS_FILES_MAX; i++) {
        if (paths[i])
            proxy->run->tls_watches[i] = watch_new(proxy->loop, paths[i], on_file_change, proxy);
        free(paths[i]);
    }
}

/* Watches the TLS files under their new paths, and reloads them: they may have changed before they were watched. */
static void run_watch(struct task *task)
{
    struct proxy_run *run = container_of(task, struct proxy_run, watch);
    run->watches_are_old = false;
    unwatch_tls(run);
    if (atomic_load(&run->proxy->is_stopping))
        return;
    watch_tls(run->proxy);
    reload_now(run->proxy);
}

/* Reloads if the map was replaced after it was read and before it was watched. */
static void catch_up(struct proxy *proxy)
{
    char error[REASON_MAX];
    const struct proxy_snapshot *snapshot = proxy->snapshot;
    struct shard_map *now = snapshot->shards_path
                                ? shards_load(snapshot->shards_path, NULL, error, sizeof error)
                                : NULL;
    bool is_newer = now && now->epoch > snapshot->wish->epoch;
    if (now)
        shard_map_unref(now);
    if (is_newer)
        reload_now(proxy);
}

bool proxy_start(struct proxy *proxy, char *error, size_t size)
{
    const struct proxy_config *config = &proxy->snapshot->config;
    uint32_t workers = count_workers(config);
    struct proxy_run *run = calloc(1, sizeof(*run));
    CHECK(run);
    proxy->run = run;
    run->proxy = proxy;
    run->watch.run = run_watch;
    list_addresses(run, config);
    make_seats(proxy, workers);
    if (!bind_all(proxy, workers, error, size) || !admin_port_start(proxy, error, size)) {
        run_free(proxy);
        return false;
    }
    /* before a worker answers a client, because a signal without a handler ends the process */
    loop_on_signal(proxy->loop, SIGTERM, on_signal, proxy);
    loop_on_signal(proxy->loop, SIGINT, on_signal, proxy);
    loop_on_signal(proxy->loop, SIGHUP, on_signal, proxy);
    for (uint32_t i = 0; i < workers; i++) {
        run->seats[i].loop = loop_new();
        run->seats[i].worker = proxy_add_worker(proxy, run->seats[i].loop);
    }
    for (uint32_t i = 0; i < workers; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "worker-%u", i);
        run->seats[i].thread = loop_thread_start(run->seats[i].loop, name, on_thread_start,
                                                 on_thread_end, &run->seats[i]);
    }
    if (config->head.path)
        run->config_watch = watch_new(proxy->loop, config->head.path, on_file_change, proxy);
    char *included = config_included_path(&config->head);
    if (included)
        run->include_watch = watch_new(proxy->loop, included, on_file_change, proxy);
    free(included);
    run->shards_watch = watch_new(proxy->loop, proxy->snapshot->shards_path, on_file_change, proxy);
    watch_tls(proxy);
    if (proxy->snapshot->users_path)
        run->users_watch =
            watch_new(proxy->loop, proxy->snapshot->users_path, on_file_change, proxy);
    if (*config->admin)
        atomic_store(&proxy->status, status_new(proxy));
    proxy_find_leaders(proxy);
    catch_up(proxy);
    return true;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void free_watches(struct proxy_run *run)
{
    unwatch_tls(run);
    if (run->config_watch)
        watch_free(run->config_watch);
    if (run->include_watch)
        watch_free(run->include_watch);
    if (run->shards_watch)
        watch_free(run->shards_watch);
    if (run->users_watch)
        watch_free(run->users_watch);
    run->config_watch = run->include_watch = run->shards_watch = run->users_watch = NULL;
}

/* When called a second time it does not wait for clients any longer. */
void proxy_stop(struct proxy *proxy)
{
    bool again = atomic_exchange(&proxy->is_stopping, true);
    if (!again) {
        note(proxy, EVENT_STOPPING, "requests in flight may take %" PRIu64 " ms (drain-timeout)",
             proxy->snapshot->config.drain_timeout_ms);
        free_watches(proxy->run);
        admin_end_checks(proxy);
        leaders_stop(proxy->leaders);
    }
    order_all(proxy, NULL, again ? 0 : proxy->snapshot->config.drain_timeout_ms);
}

static void on_stopped(struct task *task)
{
    struct order *order = container_of(task, struct order, task);
    struct proxy *proxy = order->worker->proxy;
    free(order);
    if (!proxy->run)
        return;
    if (++proxy->run->stopped == proxy->worker_count)
        loop_stop(proxy->loop);
}

void proxy_worker_stopped(struct proxy_worker *worker)
{
    struct order *order = calloc(1, sizeof(*order));
    CHECK(order);
    order->task.run = on_stopped;
    order->worker = worker;
    loop_post(worker->proxy->loop, &order->task);
}

void proxy_join(struct proxy *proxy)
{
    struct proxy_run *run = proxy->run;
    admin_port_stop(proxy);
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        loop_stop(run->seats[i].loop);
        loop_thread_join(run->seats[i].thread);
        loop_free(run->seats[i].loop);
        proxy->workers[i] = NULL;
    }
    proxy->worker_count = 0;
    status_free(atomic_exchange(&proxy->status, NULL));
    run_free(proxy);
}
