/*
 * bitfield.c - BITFIELD: integers of any width inside a string.
 *
 * All operations are parsed before the first one runs, so that an invalid argument changes nothing. As in Redis, a
 * value that is too short grows up to the last bit to be written, even if this write then fails because of OVERFLOW
 * FAIL.
 */
#include "backend/context/goes_on.h"
#include "backend/dispatch/handlers.h"
#include "backend/format/bits.h"
#include "backend/keyspace/text.h"
#include "backend/session/notify.h"
#include "shared/command/arguments.h"

struct operation {
    enum bitfield_word verb;
    enum field_overflow policy;
    struct field_type type;
    uint64_t offset;
    int64_t amount;
};

/* What the operations need together. They are read again when they run: kept, they would take more memory than the request. */
struct plan {
    uint32_t count;
    bool writes;
    bool grows;   /* the value is too short and grows */
    bool changes; /* an operation has changed the value */
    uint64_t len; /* length of the value in bytes that the writes need */
};

static bool policy_argument(struct call *call, uint32_t index, enum field_overflow *policy)
{
    if (bytes_is(call->argv[index], "wrap"))
        *policy = FIELD_WRAP;
    else if (bytes_is(call->argv[index], "sat"))
        *policy = FIELD_SAT;
    else if (bytes_is(call->argv[index], "fail"))
        *policy = FIELD_FAIL;
    else
        call_error_text(call, "ERR Invalid OVERFLOW type specified");
    return !call->failed;
}

/* Parses the arguments of the operation from `index` on: its type, offset and amount. */
static bool operation_parse(struct call *call, uint32_t index, struct operation *operation)
{
    if (!field_type_parse(call->argv[index], &operation->type)) {
        call_error_text(call, "ERR Invalid bitfield type. Use something like i16 u8. Note that "
                              "u64 is not supported but i64 is.");
        return false;
    }
    if (!bit_offset_parse(call->argv[index + 1], operation->type.bits, call_bulk_bytes_max(call),
                          &operation->offset)) {
        call_error_text(call, "ERR bit offset is not an integer or out of range");
        return false;
    }
    return operation->verb == BITFIELD_GET || call_int64(call, index + 2, &operation->amount);
}

enum { FIRST_OPERATION = 2 };

/* Reads the operation at *at, and goes behind it; its policy is the one before, unless OVERFLOW stands there. False: there is none, or an
 * error was replied. */
static bool next_operation(struct call *call, uint32_t *at, struct operation *operation)
{
    while (*at < call->argc) {
        uint32_t index = *at + 1;
        int verb = option_next(bitfield_words, call->argv, call->argc, at);
        if (verb == NO_OPTION) {
            call_error(call, ERR_SYNTAX);
            return false;
        }
        if (verb != BITFIELD_OVERFLOW) {
            operation->verb = (enum bitfield_word)verb;
            return operation_parse(call, index, operation);
        }
        if (!policy_argument(call, index, &operation->policy))
            return false;
    }
    return false;
}

static bool plan_parse(struct call *call, struct plan *plan)
{
    struct operation operation = {.policy = FIELD_WRAP};
    uint32_t at = FIRST_OPERATION;
    *plan = (struct plan){0};
    for (; next_operation(call, &at, &operation); plan->count++) {
        if (operation.verb == BITFIELD_GET)
            continue;
        uint64_t end = (operation.offset + operation.type.bits + 7) / 8;
        plan->writes = true;
        plan->len = end > plan->len ? end : plan->len;
    }
    return !call->failed;
}

enum { OPERATION_WORK = 10 };

/* Runs one operation and replies. False: the store failed, or the call must end. */
static bool operation_run(struct call *call, struct entry *entry, const struct operation *operation,
                          struct plan *plan)
{
    char data[FIELD_BYTES_MAX];
    unsigned at = (unsigned)(operation->offset % 8);
    int64_t value;
    if (!call_goes_on(call, OPERATION_WORK) ||
        !text_copy(call, entry, operation->offset / 8, sizeof data, data))
        return false;
    int64_t old = field_read(data, at, operation->type);
    if (operation->verb == BITFIELD_GET) {
        reply_int(&call->reply, old);
        return true;
    }
    bool is_set = operation->verb == BITFIELD_SET;
    if (!field_add(operation->type, operation->policy, is_set ? operation->amount : old,
                   is_set ? 0 : operation->amount, &value)) {
        reply_null(&call->reply);
        return true;
    }
    reply_int(&call->reply, is_set ? old : value);
    plan->changes = plan->changes || plan->grows || value != old;
    if (value == old) {
        if (plan->grows) /* a change, which text_grow has not reported */
            entry_touch(call, entry);
        return true;
    }
    field_write(data, at, operation->type, value);
    return text_write(call, entry, operation->offset / 8,
                      (struct bytes){data, (at + operation->type.bits + 7) / 8});
}

static void plan_run(struct call *call, struct entry *entry, struct plan *plan)
{
    struct operation operation = {.policy = FIELD_WRAP};
    uint32_t at = FIRST_OPERATION;
    plan->grows = plan->len > text_len(entry);
    entry->is_untold = true; /* as in Redis, clients are notified only if an operation succeeds */
    if (!text_grow(call, entry, plan->len))
        return;
    entry->is_untold = false;
    reply_array(&call->reply, plan->count);
    while (next_operation(call, &at, &operation))
        if (!operation_run(call, entry, &operation, plan))
            return;
    if (plan->changes)
        notify(call, NOTIFY_STRING, "setbit", entry->key);
}

void cmd_bitfield(struct call *call)
{
    struct plan plan;
    struct entry entry;
    if (plan_parse(call, &plan) && keyspace_open_type(call, call->argv[1], TYPE_STRING,
                                                      plan.writes ? OPEN_WRITE : OPEN_READ, &entry))
        plan_run(call, &entry, &plan);
}

void cmd_bitfield_ro(struct call *call)
{
    struct plan plan;
    struct entry entry;
    if (!plan_parse(call, &plan))
        return;
    if (plan.writes) {
        call_error_text(call, "ERR BITFIELD_RO only supports the GET subcommand");
        return;
    }
    if (keyspace_open_type(call, call->argv[1], TYPE_STRING, OPEN_READ, &entry))
        plan_run(call, &entry, &plan);
}
