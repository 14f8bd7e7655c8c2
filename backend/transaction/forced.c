#include "backend/transaction/forced.h"

#include "backend/context/partition.h"
#include "backend/peer/peer_set.h"
#include "backend/storage/commit.h"
#include "shared/log.h"

#include <stdio.h>
#include <stdlib.h>

struct forced {
    struct list link;
    struct forced_set *set;
    struct transaction_id id;
    bool is_commit;
    bool differs; /* the deciding shard has decided otherwise */
    bool is_asked;
    struct peer_request question;
};

struct forced_set {
    struct partition *partition;
    struct list all;
};

static struct forced *forced_at(struct list *link)
{
    return container_of(link, struct forced, link);
}

static struct peer_link *deciding_shard(const struct forced *forced)
{
    const struct peer_set *peers = forced->set->partition->shards.peers;
    return peers ? peer_set_find(peers, bytes_of(forced->id.shard)) : NULL;
}

static void forced_free(struct forced *forced)
{
    struct peer_link *link = forced->is_asked ? deciding_shard(forced) : NULL;
    if (link)
        peer_link_cancel(link, &forced->question);
    list_remove(&forced->link);
    free(forced);
}

struct forced_set *forced_set_new(struct partition *partition)
{
    struct forced_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->partition = partition;
    list_init(&set->all);
    return set;
}

void forced_clear(struct forced_set *set)
{
    while (!list_empty(&set->all))
        forced_free(forced_at(set->all.next));
}

void forced_set_free(struct forced_set *set)
{
    if (!set)
        return;
    forced_clear(set);
    free(set);
}

static struct forced *forced_new(struct forced_set *set, const struct transaction_id *id,
                                 bool is_commit)
{
    struct forced *forced = calloc(1, sizeof *forced);
    CHECK(forced);
    forced->set = set;
    forced->id = *id;
    forced->is_commit = is_commit;
    list_push(&set->all, &forced->link);
    return forced;
}

bool forced_load(struct forced_set *set, const struct transaction_id *id, struct bytes value)
{
    bool is_commit;
    bool differs;
    if (!decode_forced(value, &is_commit, &differs))
        return false;
    forced_new(set, id, is_commit)->differs = differs;
    return true;
}

static void put_forced(const struct forced *forced)
{
    const struct partition *partition = forced->set->partition;
    struct arena arena;
    arena_init(&arena);
    overlay_put(partition->overlay, CF_SYSTEM,
                encode_transaction_key(&arena, TRANSACTION_FORCED, &forced->id),
                encode_forced(&arena, forced->is_commit, forced->differs));
    arena_fini(&arena);
}

static void delete_forced(struct forced *forced)
{
    const struct partition *partition = forced->set->partition;
    struct arena arena;
    arena_init(&arena);
    overlay_delete(partition->overlay, CF_SYSTEM,
                   encode_transaction_key(&arena, TRANSACTION_FORCED, &forced->id));
    arena_fini(&arena);
    forced_free(forced);
}

static void log_forced(const struct forced *forced, const char *event)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    transaction_id_print(&forced->id, id);
    log_event(LOG_WARN, event, "partition=%u id=%s forced=%s", forced->set->partition->index, id,
              forced->is_commit ? "commit" : "abort");
}

void forced_add(struct forced_set *set, const struct transaction_id *id, bool is_commit)
{
    const struct forced *forced = forced_new(set, id, is_commit);
    put_forced(forced);
    log_forced(forced, "transaction_forced");
}

static void take_outcome(struct forced *forced, bool is_commit)
{
    struct partition *partition = forced->set->partition;
    if (forced->differs || commit_is_failed(partition->commit, NULL))
        return;
    overlay_savepoint(partition->overlay);
    if (forced->is_commit == is_commit) {
        delete_forced(forced);
        return;
    }
    forced->differs = true;
    put_forced(forced);
    log_forced(forced, "transaction_differs");
}

static struct forced *find_forced(const struct forced_set *set, struct bytes text)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    for (struct list *at = set->all.next; at != &set->all; at = at->next) {
        transaction_id_print(&forced_at(at)->id, id);
        if (bytes_equal(bytes_of(id), text))
            return forced_at(at);
    }
    return NULL;
}

void forced_decided(struct forced_set *set, const struct transaction_id *id, bool is_commit)
{
    char text[TRANSACTION_ID_TEXT_MAX];
    transaction_id_print(id, text);
    struct forced *forced = list_empty(&set->all) ? NULL : find_forced(set, bytes_of(text));
    if (forced)
        take_outcome(forced, is_commit);
}

bool forced_forget(struct forced_set *set, struct bytes id)
{
    struct forced *forced = find_forced(set, id);
    if (forced)
        delete_forced(forced);
    return forced;
}

/* ---- asking the deciding shard ---- */

static void on_outcome(struct peer_request *request, enum peer_result result, struct bytes payload)
{
    struct forced *forced = container_of(request, struct forced, question);
    bool is_known = result == PEER_OK && payload.len == 1 && payload.data[0] != 'o';
    forced->is_asked = false;
    if (is_known && !forced->set->partition->running.busy_error)
        take_outcome(forced, payload.data[0] == 'c');
}

void forced_tick(struct forced_set *set)
{
    char id[TRANSACTION_ID_BYTES_MAX];
    for (struct list *at = set->all.next; at != &set->all; at = at->next) {
        struct forced *forced = forced_at(at);
        struct peer_link *link = deciding_shard(forced);
        if (forced->is_asked || forced->differs || !link)
            continue;
        forced->question = (struct peer_request){.on_reply = on_outcome};
        size_t len = transaction_id_write(&forced->id, id);
        forced->is_asked = peer_link_send(link, &forced->question, PEER_OUTCOME,
                                          (struct bytes){id, len}) == PEER_SENT;
    }
}

/* ---- figures ---- */

uint32_t forced_count(const struct forced_set *set)
{
    uint32_t count = 0;
    for (struct list *at = set->all.next; at != &set->all; at = at->next)
        count++;
    return count;
}

void forced_list(const struct forced_set *set, void (*on_line)(void *owner, const char *line),
                 void *owner)
{
    char id[TRANSACTION_ID_TEXT_MAX];
    char line[256];
    for (struct list *at = set->all.next; at != &set->all; at = at->next) {
        const struct forced *forced = forced_at(at);
        transaction_id_print(&forced->id, id);
        (void)snprintf(line, sizeof line, "id=%s role=forced state=%s deciding_shard=%s", id,
                       forced->is_commit ? "commit" : "abort",
                       forced->differs ? "differs" : "silent");
        on_line(owner, line);
    }
}
