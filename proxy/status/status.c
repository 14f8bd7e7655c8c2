#include "proxy/status/status.h"

#include "proxy/core/proxy.h"
#include "proxy/core/worker.h"
#include "proxy/status/gather.h"
#include "proxy/status/peers.h"
#include "proxy/status/recent.h"
#include "proxy/status/share.h"
#include "proxy/status/slot_survey.h"
#include "proxy/status/survey.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/version.h"

#include <inttypes.h>
#include <stdlib.h>

/* The page may load its own files and send requests to its own server only; scripts in its content do not run. */
static const struct http_header page_headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
    {NULL, NULL}};

struct status *status_new(struct proxy *proxy)
{
    const struct proxy_config *config = &proxy->snapshot->config;
    struct status *status = calloc(1, sizeof *status);
    CHECK(status);
    status->proxy = proxy;
    status->gatherer = gatherer_new(proxy);
    status->survey = survey_new();
    status->slot_survey = slot_survey_new();
    status->recent = recent_new();
    if (*config->peers)
        status->peers = peers_new(config->peers, proxy->run_id);
    return status;
}

void status_free(struct status *status)
{
    if (!status)
        return;
    peers_free(status->peers);
    survey_free(status->survey);
    slot_survey_free(status->slot_survey);
    recent_free(status->recent);
    gatherer_free(status->gatherer);
    free((char *)status->document.data);
    free(status);
}

void status_slow(struct status *status, struct proxy_worker *worker)
{
    if (!status || worker->index > 0)
        return;
    recent_tick(status->recent, worker);
    survey_tick(status->survey, worker);
    if (survey_is_wanted(status->survey, loop_mono_ms(worker->loop)))
        slot_survey_tick(status->slot_survey, worker);
}

/* ---- slots ------------------------------------------------------------------------------------- */

/* Computes each slot's rate: the growth of its count per second since the last document. */
static void measure_slots(struct status *status, uint64_t now_us)
{
    static uint32_t totals[SLOT_COUNT]; /* only used on the HTTP thread */
    uint32_t shares = 0;
    memset(totals, 0, sizeof totals);
    for (uint32_t i = 0; i < gatherer_count(status->gatherer); i++) {
        const struct share *share = gatherer_share(status->gatherer, i);
        if (!share)
            continue;
        shares++;
        for (uint32_t slot = 0; slot < SLOT_COUNT; slot++)
            totals[slot] += share->slot_hits[slot];
    }
    bool is_comparable = status->counted_us && shares == status->counted_shares;
    status->interval_us = is_comparable ? now_us - status->counted_us : 0;
    for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) {
        double more = totals[slot] - status->slot_totals[slot];
        double rate = is_comparable ? more * 1e6 / (double)status->interval_us : 0;
        status->slot_rates[slot] = rate > 0 && rate < 1 ? 1 : (uint32_t)(rate + 0.5);
        status->slot_totals[slot] = totals[slot];
    }
    status->counted_us = now_us;
    status->counted_shares = shares;
}

/* ---- documents --------------------------------------------------------------------------------- */

static void make_document(struct status *status, const struct proxy_snapshot *snapshot)
{
    struct out out;
    out_init(&out);
    survey_wanted(status->survey, clock_mono_us() / 1000);
    uint32_t late_workers = gatherer_run(status->gatherer);
    measure_slots(status, clock_mono_us());
    document_write(status, snapshot, late_workers, &out);
    free((char *)status->document.data);
    status->document = out_take(&out);
    status->document_us = clock_mono_us();
}

static void reply_document(struct status *status, const struct proxy_snapshot *snapshot,
                           struct http_reply *reply)
{
    bool is_fresh =
        status->document.data && clock_mono_us() - status->document_us < (uint64_t)REUSE_MS * 1000;
    if (!is_fresh)
        make_document(status, snapshot);
    out_write(&reply->body, status->document.data, status->document.len);
}

static void reply_history(const struct status *status, struct http_reply *reply)
{
    struct json_writer json;
    json_writer_init(&json, &reply->body);
    json_put_object(&json, NULL);
    json_put_text(&json, "run_id", status->proxy->run_id);
    recent_write(status->recent, &json);
    json_put_end(&json);
    json_writer_fini(&json);
}

static void reply_self(const struct status *status, const struct proxy_snapshot *snapshot,
                       struct http_reply *reply)
{
    const struct proxy *proxy = status->proxy;
    uint64_t now_ms = clock_wall_us() / 1000;
    out_printf(&reply->body,
               "run_id %s\nepoch %" PRIu64 "\nversion " SCREE_VERSION "\nuptime_s %" PRIu64 "\n",
               proxy->run_id, snapshot->map->epoch, (now_ms - proxy->started_ms) / 1000);
}

void status_answer(struct status *status, const struct proxy_snapshot *snapshot, const char *path,
                   struct http_reply *reply)
{
    const struct status_file *file = status_file_find(path);
    reply->headers = page_headers;
    if (file) {
        reply->content_type = file->content_type;
        out_write(&reply->body, file->data, (size_t)(file->end - file->data));
    } else if (!status) {
        reply->status = 503;
        out_printf(&reply->body, "the proxy starts\n");
    } else if (strcmp(path, "/status.json") == 0) {
        reply_document(status, snapshot, reply);
    } else if (strcmp(path, "/status/namespaces.json") == 0) {
        (void)gatherer_run(status->gatherer);
        document_write_namespaces(status, snapshot, &reply->body);
    } else if (strcmp(path, "/status/history.json") == 0) {
        reply_history(status, reply);
    } else {
        reply_self(status, snapshot, reply);
    }
}
