#include "proxy/client/declared_flags.h"

#include "proxy/client/fan_out.h"
#include "proxy/core/request.h"
#include "proxy/core/worker.h"
#include "shared/command/script_flags.h"
#include "shared/table.h"

#include <string.h>

enum { NOTED_MS = 1000, FLAG_NAME_MAX = 64 };

/* State of a question, kept in an internal request. */
struct flags_search {
    struct script_search search; /* first: scripts_leave */
    uint64_t hash;
};

static bool is_function(const struct command *command)
{
    return !(command->flags & CMD_SCRIPT_CACHE);
}

static uint64_t note_hash(const struct client *client, const struct command *command,
                          struct bytes name)
{
    uint64_t hash = hash_bytes(client->session.keyspace->name) + is_function(command);
    hash = hash * 0x9e3779b97f4a7c15 ^ hash_bytes(name);
    return hash ? hash : 1;
}

static struct declared_note *note_at(struct proxy_worker *worker, uint64_t hash)
{
    return &worker->script_notes.declared[hash % DECLARED_NOTES];
}

bool declared_flags_find(struct client *client, const struct command *command, struct bytes name,
                         uint32_t *flags)
{
    uint64_t hash = note_hash(client, command, name);
    const struct declared_note *note = note_at(client->worker, hash);
    bool is_known = note->hash == hash && loop_mono_ms(client->worker->loop) < note->until_ms;
    *flags = is_known ? note->flags : 0;
    return is_known;
}

void declared_flags_forget(struct proxy_worker *worker)
{
    memset(worker->script_notes.declared, 0, sizeof worker->script_notes.declared);
}

/* Reads the names of flags. 0: the shard has no such script or function, it declares nothing, or the shard could not reply. */
static uint32_t read_flags(const struct shard_reply *answer)
{
    uint32_t flags = SCRIPT_DECLARED;
    struct resp_value value;
    size_t pos = 0;
    if (answer->is_failure || !resp_value_next(answer->frame, &pos, &value) || value.type != '*' ||
        value.is_null)
        return 0;
    for (int64_t left = value.count; left > 0; left--) {
        struct resp_value each;
        char name[FLAG_NAME_MAX];
        if (!resp_value_next(answer->frame, &pos, &each) || each.text.len >= sizeof name)
            return 0;
        memcpy(name, each.text.data, each.text.len);
        name[each.text.len] = 0;
        flags |= script_flag_named(name);
    }
    return flags;
}

/* request_done_fn: a script may be at some shards only, and one text has the same flags everywhere; while a function is replaced, shards may
 * differ, and then it may do what any of them allows. */
static void note_answers(struct client *none, struct request *request, struct reply *reply)
{
    struct flags_search *asked = request_state(request, sizeof *asked);
    uint32_t all = 0;
    (void)none;
    (void)reply;
    for (uint32_t i = 0; i < request_reply_count(request); i++) {
        uint32_t flags = read_flags(request_reply(request, i));
        if (flags)
            all = all ? all & flags : flags;
    }
    struct proxy_worker *worker = request->worker;
    *note_at(worker, asked->hash) = (struct declared_note){
        .hash = asked->hash, .until_ms = loop_mono_ms(worker->loop) + NOTED_MS, .flags = all};
    struct client *client = asked->search.client;
    if (!client)
        return;
    client->script.search = NULL;
    client->script.answer = all;
    client_unhold(client, HOLD_SCRIPT);
}

bool declared_flags_ask(struct client *client, const struct command *command, struct bytes name)
{
    struct request *request = request_internal(client->worker);
    struct flags_search *asked = request_state(request, sizeof *asked);
    const struct bytes words[] = {BYTES("SCREE"), BYTES("FLAGS"),
                                  is_function(command) ? BYTES("FUNCTION") : BYTES("SCRIPT"), name};
    *asked =
        (struct flags_search){.search.client = client, .hash = note_hash(client, command, name)};
    client->script.search = &asked->search;
    client_hold(client, HOLD_SCRIPT);
    request_fan_out(request, client->session.keyspace, SHARDS_ALL, words, 4, note_answers);
    return client->script.search;
}
