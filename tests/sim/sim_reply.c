/*
 * sim_reply.c - checks replies: shape, tags, values; and adds their results to the history.
 */
#include "tests/sim/sim_reply.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <inttypes.h>

/* ---- checking replies ------------------------------------------------------------------------- */

/* A reply, and the offset of its next part. */
struct answer {
    struct bytes frame;
    size_t pos;
};

static struct step *step_of(struct sim_client *client, const struct sim_wanted *wanted, unsigned i)
{
    struct operation *operation =
        history_operation(&client->work->history, wanted->refs[i].operation);
    return &operation->steps[wanted->refs[i].step];
}

static uint32_t key_of(struct sim_client *client, const struct sim_wanted *wanted, unsigned i)
{
    return history_operation(&client->work->history, wanted->refs[i].operation)->key;
}

static bool next_value(struct sim_client *client, struct answer *answer, struct resp_value *value)
{
    if (resp_value_next(answer->frame, &answer->pos, value))
        return true;
    sim_client_fail(client, "a malformed reply");
    return false;
}

/* The header of an array, set or map; a map has twice as many elements. */
static bool next_array(struct sim_client *client, struct answer *answer, int64_t *count)
{
    struct resp_value value;
    if (!next_value(client, answer, &value))
        return false;
    if (value.type != '*' && value.type != '%' && value.type != '~') {
        sim_client_fail(client, "expected an array, got '%c'", value.type);
        return false;
    }
    *count = value.type == '%' ? value.count * 2 : value.count;
    return true;
}

/* A null, or a value that a client wrote to this field of this key. */
static void take_value(struct sim_client *client, uint32_t key, unsigned field,
                       const struct resp_value *value, uint32_t *number)
{
    char why[200] = "expected a bulk string";
    *number = 0;
    if (value->is_null)
        return;
    bool is_text = value->type == '$' && value_parse(value->text, number);
    if (!is_text ||
        !history_may_read(&client->work->history, key, field, *number, why, sizeof(why)))
        sim_client_fail(client, "%s: got '%c%.*s': %s", client->work->keys[key].text, value->type,
                        (int)(value->text.len < 40 ? value->text.len : 40), value->text.data, why);
}

static int64_t counter_of(struct sim_client *client, const struct resp_value *value)
{
    int64_t number = 0;
    if (value->is_null)
        return 0;
    if (value->type != '$' || value->text.len > 18 || value->text.len == 0)
        sim_client_fail(client, "expected a counter's digits");
    for (size_t i = 0; !client->work->why[0] && i < value->text.len; i++) {
        if (value->text.data[i] < '0' || value->text.data[i] > '9')
            sim_client_fail(client, "expected a counter's digits, got '%.*s'", (int)value->text.len,
                            value->text.data);
        number = number * 10 + value->text.data[i] - '0';
    }
    return number;
}

static void take_values(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    struct resp_value value;
    int64_t count = wanted->count;
    bool is_array = answer->frame.data[answer->pos] == '*';
    if (is_array && (!next_array(client, answer, &count) || count != (int64_t)wanted->count)) {
        sim_client_fail(client, "expected %u values", wanted->count);
        return;
    }
    for (unsigned i = 0; i < wanted->count && next_value(client, answer, &value); i++) {
        struct step *step = step_of(client, wanted, i);
        uint32_t key = key_of(client, wanted, i);
        uint32_t number = 0;
        step->has_result = true;
        if (client->work->keys[key].kind == SIM_COUNTER) {
            step->number = counter_of(client, &value);
        } else {
            take_value(client, key, 0, &value, &number);
            step->number = number;
        }
    }
    if (!wanted->is_twin || client->work->are_twins_torn || client->work->why[0])
        return;
    int64_t one = step_of(client, wanted, 0)->number;
    int64_t other = step_of(client, wanted, 1)->number;
    if (one ? other != one + 1 : other != 0)
        sim_client_fail(client, "twins differ: %s has %" PRId64 ", its twin %" PRId64,
                        client->work->keys[key_of(client, wanted, 0)].text, one, other);
}

static void take_number(struct sim_client *client, const struct sim_wanted *wanted, int64_t number)
{
    struct step *step = step_of(client, wanted, 0);
    step->has_result = true;
    if (step->kind == STEP_INCR)
        step->number = number;
    else
        step->result = number;
}

/* A sum is a result for each key only if it is 0 or the number of keys. */
static void take_count(struct sim_client *client, const struct sim_wanted *wanted, int64_t sum)
{
    if (sum < 0 || sum > (int64_t)wanted->count)
        sim_client_fail(client, "expected 0..%u, got %" PRId64, wanted->count, sum);
    for (unsigned i = 0; i < wanted->count; i++) {
        struct step *step = step_of(client, wanted, i);
        step->has_result = sum == 0 || sum == (int64_t)wanted->count;
        step->result = sum > 0;
    }
}

static void take_integer(struct sim_client *client, const struct sim_wanted *wanted,
                         struct answer *answer)
{
    struct resp_value value;
    if (!next_value(client, answer, &value))
        return;
    if (value.type != ':') {
        sim_client_fail(client, "expected an integer, got '%c'", value.type);
        return;
    }
    if (wanted->kind == REPLY_NUMBER)
        take_number(client, wanted, value.count);
    else if (wanted->kind == REPLY_COUNT)
        take_count(client, wanted, value.count);
    else if (wanted->kind == REPLY_DBSIZE)
        client->sight.dbsize = (uint64_t)value.count;
    else
        client->sight.in_slot[wanted->tag] = (unsigned)value.count;
}

static void take_field(struct sim_client *client, const struct sim_wanted *wanted,
                       struct answer *answer)
{
    struct resp_value value;
    struct step *step = step_of(client, wanted, 0);
    unsigned field = (unsigned)__builtin_ctz(step->fields);
    if (!next_value(client, answer, &value))
        return;
    step->has_result = true;
    take_value(client, key_of(client, wanted, 0), field, &value, &step->values[field]);
}

static void take_fields(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    struct resp_value name;
    struct resp_value value;
    struct step *step = step_of(client, wanted, 0);
    int64_t count;
    if (!next_array(client, answer, &count))
        return;
    step->has_result = true;
    for (int64_t i = 0; i < count; i += 2) {
        if (!next_value(client, answer, &name) || !next_value(client, answer, &value))
            return;
        unsigned field = name.text.len == 2 ? (unsigned)(name.text.data[1] - '0') : HISTORY_FIELDS;
        if (field >= HISTORY_FIELDS || step->values[field])
            sim_client_fail(client, "field '%.*s' should not be there", (int)name.text.len,
                            name.text.data);
        else
            take_value(client, key_of(client, wanted, 0), field, &value, &step->values[field]);
    }
}

static void take_keys(struct sim_client *client, struct answer *answer)
{
    struct resp_value value;
    int64_t count;
    if (!next_array(client, answer, &count))
        return;
    client->sight.keys = (unsigned)count;
    for (int64_t i = 0; i < count && next_value(client, answer, &value); i++) {
        const struct sim_workload *work = client->work;
        unsigned key = 0;
        while (key < work->key_count && (work->keys[key].place != client->place ||
                                         !bytes_equal(value.text, bytes_of(work->keys[key].text))))
            key++;
        if (key == work->key_count || client->sight.has_key[key])
            sim_client_fail(client, "KEYS gives '%.*s'", (int)value.text.len, value.text.data);
        else
            client->sight.has_key[key] = true;
    }
}

static void take_text(struct sim_client *client, const char *expected, struct answer *answer)
{
    struct resp_value value;
    if (next_value(client, answer, &value) && !bytes_equal(value.text, bytes_of(expected)))
        sim_client_fail(client, "expected '%s', got '%c%.*s'", expected, value.type,
                        (int)(value.text.len < 60 ? value.text.len : 60), value.text.data);
}

static void take_answer(struct sim_client *client, const struct sim_wanted *wanted,
                        struct answer *answer)
{
    char tag[16];
    switch (wanted->kind) {
    case REPLY_TAG:
        (void)snprintf(tag, sizeof(tag), "%" PRIu32, wanted->tag);
        take_text(client, tag, answer);
        break;
    case REPLY_DONE:
        take_text(client, "OK", answer);
        break;
    case REPLY_QUEUED:
        take_text(client, "QUEUED", answer);
        break;
    case REPLY_VALUES:
        take_values(client, wanted, answer);
        break;
    case REPLY_NUMBER:
    case REPLY_COUNT:
    case REPLY_DBSIZE:
    case REPLY_IN_SLOT:
        take_integer(client, wanted, answer);
        break;
    case REPLY_FIELD:
        take_field(client, wanted, answer);
        break;
    case REPLY_FIELDS:
        take_fields(client, wanted, answer);
        break;
    case REPLY_KEYS:
        take_keys(client, answer);
        break;
    case REPLY_ANY:
    case REPLY_EXEC:
        (void)resp_value_skip(answer->frame, &answer->pos);
        break;
    }
}

/* ---- errors ----------------------------------------------------------------------------------- */

static bool starts_with(struct bytes text, const char *start)
{
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.data, start, len) == 0;
}

/* Was the request certainly not executed? */
static bool is_unsent(struct bytes text)
{
    return starts_with(text, "TRYAGAIN shard '") || starts_with(text, "LOADING shard '");
}

/* Errors that faults may cause. */
static bool is_fault(struct bytes text)
{
    static const char *const starts[] = {"MISCONF ", "EXECABORT ", "ERR shard '",
                                         "SHARDLOST shard '"};
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
        if (starts_with(text, starts[i]))
            return true;
    return is_unsent(text);
}

/* The request did not run, so its values must never be read. */
static void unsend(struct sim_client *client, const struct sim_request *request)
{
    for (unsigned i = 0; i < request->operation_count; i++)
        history_operation(&client->work->history, request->operations[i])->is_sent = false;
}

/* True: the reply is an error. An error without a possible cause is a failure of the simulation. */
static bool take_error(struct sim_client *client, const struct sim_request *request,
                       struct bytes frame, size_t pos)
{
    struct sim_workload *work = client->work;
    struct resp_value value;
    if (frame.data[pos] != '-')
        return false;
    work->errors++;
    bool may_fail = work->may_fail || (request->is_watch && work->has_reloaded);
    bool is_whole = pos == 0;
    if (resp_value_next(frame, &pos, &value) && may_fail && is_fault(value.text)) {
        if (is_whole && is_unsent(value.text))
            unsend(client, request);
        return true;
    }
    sim_client_fail(client, "got an error without a fault: %.*s", (int)value.text.len,
                    value.text.data);
    return true;
}

/* ---- EXEC, whole replies ---------------------------------------------------------------------- */

static void answered(struct sim_client *client, const struct sim_request *request)
{
    for (unsigned i = 0; i < request->operation_count; i++)
        history_answered(&client->work->history, request->operations[i], clock_wall_us() / 1000);
}

/* A command of a block failed: its own steps have no effect, those of other commands have. */
static void forget_steps(struct sim_client *client, const struct sim_wanted *wanted)
{
    for (unsigned i = 0; i < wanted->count; i++)
        step_of(client, wanted, i)->kind = STEP_NOTHING;
}

/* The failed command of an EXEC or script does not undo the other commands, so twins may differ. */
static void note_torn(struct sim_client *client, const struct sim_wanted *wanted)
{
    for (unsigned i = 0; i < wanted->count; i++)
        if (client->work->keys[key_of(client, wanted, i)].kind == SIM_TWIN)
            client->work->are_twins_torn = true;
}

static void take_exec(struct sim_client *client, const struct sim_request *request,
                      struct bytes frame)
{
    struct answer answer = {.frame = frame};
    struct resp_value header;
    if (!next_value(client, &answer, &header))
        return;
    if (header.is_null) {
        unsend(client, request);
        return;
    }
    if (header.type != '*' || header.count != (int64_t)request->wanted_count) {
        sim_client_fail(client, "EXEC of %u commands answered '%c%" PRId64 "'",
                        request->wanted_count, header.type, header.count);
        return;
    }
    for (unsigned i = 0; i < request->wanted_count && !client->work->why[0]; i++) {
        if (take_error(client, request, frame, answer.pos)) {
            note_torn(client, &request->wanted[i]);
            forget_steps(client, &request->wanted[i]);
            (void)resp_value_skip(frame, &answer.pos);
        } else {
            take_answer(client, &request->wanted[i], &answer);
        }
    }
    answered(client, request);
}

bool sim_reply_judge(struct sim_client *client, const struct sim_request *request,
                     struct bytes frame)
{
    if (take_error(client, request, frame, 0)) {
        if (request->wanted[0].is_script)
            note_torn(client, &request->wanted[0]);
        return false;
    }
    if (request->kind == REPLY_EXEC) {
        take_exec(client, request, frame);
        return true;
    }
    struct answer answer = {.frame = frame};
    take_answer(client, &request->wanted[0], &answer);
    if (!client->work->why[0])
        answered(client, request);
    return true;
}
