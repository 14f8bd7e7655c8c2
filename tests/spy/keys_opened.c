/*
 * keys_opened.c - linked into scree-backend-keys, a backend that compares the keys which commands open with those that
 * the key rules (shared/command/keys.h) find in the arguments.
 *
 *   handler ─► keyspace_open ──--wrap──► here: is the key among those of keys_find()? ─► keyspace_open
 *           ─► entry_save … ───--wrap──► here: do the key's flags include a change? ─► entry_save
 *
 * ACL rules and the proxy's routing use keys_find(): a key that it does not find is not checked, and may be on another
 * shard. Each such key is printed on stderr: `undeclared: command=… key=… use=… arguments=…`. A line `reached:
 * command=…` is printed for the first key of each command.
 */
#include "backend/dispatch/handlers.h"
#include "backend/keyspace/keyspace.h"
#include "shared/command/keys.h"

#include <stdio.h>

static const uint16_t CHANGES = KEY_UPDATE | KEY_INSERT | KEY_DELETE;

static void print_text(struct bytes text)
{
    for (size_t i = 0; i < text.len && i < 40; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        (void)fprintf(stderr, byte > ' ' && byte < 127 ? "%c" : "\\x%02x", byte);
    }
}

static void report(const struct call *call, struct bytes key, const char *use)
{
    (void)fprintf(stderr, "undeclared: command=%s key=", call->command->full_name);
    print_text(key);
    (void)fprintf(stderr, " use=%s arguments=", use);
    for (uint32_t i = 0; i < call->argc && i < 24; i++) {
        (void)fputc(i ? ',' : '"', stderr);
        print_text(call->argv[i]);
    }
    (void)fprintf(stderr, "\"\n");
}

static void note_reached(const struct command *command)
{
    static bool is_noted[COMMAND_COUNT];
    if (!is_noted[command->id])
        (void)fprintf(stderr, "reached: command=%s\n", command->full_name);
    is_noted[command->id] = true;
}

/* SORT … BY and GET read keys whose names depend on values: their users need access to all keys, and a proxy checks
 * the shards. */
static bool may_read_others(const struct command *command)
{
    for (int i = 0; i < KEY_SPECS_MAX && command->keys[i].begin != KEY_BEGIN_NONE; i++)
        if (command->keys[i].begin == KEY_BEGIN_UNKNOWN)
            return true;
    return false;
}

/* The arguments as the client sent them. JSON.DEBUG MEMORY runs with the arguments after its first word. */
static const struct bytes *arguments_of(const struct call *call, uint32_t *argc)
{
    bool is_shifted = call->command->parent != COMMAND_NONE &&
                      !bytes_is(call->argv[0], command_of(call->command->parent)->name);
    *argc = call->argc + is_shifted;
    return call->argv - is_shifted;
}

static void compare(const struct call *call, struct bytes key, bool changes)
{
    const struct command *command = call->command;
    struct key_list list;
    bool is_found = false;
    uint32_t argc;
    if (!command)
        return;
    /* PFCOUNT saves a count that it computed. PFDEBUG's key has the flags of Redis, which do not include the change
     * by TODENSE. */
    bool may_change = command->flags & (CMD_READONLY | CMD_ADMIN);
    const struct bytes *argv = arguments_of(call, &argc);
    if (!command_arity_ok(command,
                          argc)) /* GEOADD runs as ZADD, with fewer arguments and the same key. */
        return;
    note_reached(command);
    keys_list_init(&list);
    (void)keys_find(command, argv, argc, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        if (!bytes_equal(argv[list.refs[i].index], key))
            continue;
        is_found = true;
        may_change |= (list.refs[i].flags & CHANGES) != 0;
        if (!(list.refs[i].flags & (KEY_RO | KEY_RW | KEY_OW | KEY_RM)))
            report(call, key, "without-flags");
    }
    keys_list_fini(&list);
    if (changes ? !may_change : !is_found && !may_read_others(command))
        report(call, key, changes ? "change" : "read");
}

bool __real_keyspace_open(struct call *call, struct bytes key, enum open_flag flags,
                          struct entry *entry);
bool __wrap_keyspace_open(struct call *call, struct bytes key, enum open_flag flags,
                          struct entry *entry);
bool __wrap_keyspace_open(struct call *call, struct bytes key, enum open_flag flags,
                          struct entry *entry)
{
    compare(call, key, false);
    return __real_keyspace_open(call, key, flags, entry);
}

bool __real_keyspace_open_in(struct call *call, struct space *space, struct bytes key,
                             enum open_flag flags, struct entry *entry);
bool __wrap_keyspace_open_in(struct call *call, struct space *space, struct bytes key,
                             enum open_flag flags, struct entry *entry);
bool __wrap_keyspace_open_in(struct call *call, struct space *space, struct bytes key,
                             enum open_flag flags, struct entry *entry)
{
    compare(call, key, false);
    return __real_keyspace_open_in(call, space, key, flags, entry);
}

bool __real_keyspace_open_type(struct call *call, struct bytes key, enum type type,
                               enum open_flag flags, struct entry *entry);
bool __wrap_keyspace_open_type(struct call *call, struct bytes key, enum type type,
                               enum open_flag flags, struct entry *entry);
bool __wrap_keyspace_open_type(struct call *call, struct bytes key, enum type type,
                               enum open_flag flags, struct entry *entry)
{
    compare(call, key, false);
    return __real_keyspace_open_type(call, key, type, flags, entry);
}

void __real_entry_set_payload(struct call *call, struct entry *entry, enum type type,
                              struct bytes payload, uint64_t expire_ms);
void __wrap_entry_set_payload(struct call *call, struct entry *entry, enum type type,
                              struct bytes payload, uint64_t expire_ms);
void __wrap_entry_set_payload(struct call *call, struct entry *entry, enum type type,
                              struct bytes payload, uint64_t expire_ms)
{
    compare(call, entry->key, true);
    __real_entry_set_payload(call, entry, type, payload, expire_ms);
}

void __real_entry_create(struct call *call, struct entry *entry, enum type type);
void __wrap_entry_create(struct call *call, struct entry *entry, enum type type);
void __wrap_entry_create(struct call *call, struct entry *entry, enum type type)
{
    compare(call, entry->key, true);
    __real_entry_create(call, entry, type);
}

void __real_entry_save(struct call *call, struct entry *entry);
void __wrap_entry_save(struct call *call, struct entry *entry);
void __wrap_entry_save(struct call *call, struct entry *entry)
{
    compare(call, entry->key, true);
    __real_entry_save(call, entry);
}

void __real_entry_touch(struct call *call, struct entry *entry);
void __wrap_entry_touch(struct call *call, struct entry *entry);
void __wrap_entry_touch(struct call *call, struct entry *entry)
{
    compare(call, entry->key, true);
    __real_entry_touch(call, entry);
}

void __real_entry_delete(struct call *call, struct entry *entry);
void __wrap_entry_delete(struct call *call, struct entry *entry);
void __wrap_entry_delete(struct call *call, struct entry *entry)
{
    compare(call, entry->key, true);
    __real_entry_delete(call, entry);
}

void __real_entry_set_expire(struct call *call, struct entry *entry, uint64_t expire_ms);
void __wrap_entry_set_expire(struct call *call, struct entry *entry, uint64_t expire_ms);
void __wrap_entry_set_expire(struct call *call, struct entry *entry, uint64_t expire_ms)
{
    compare(call, entry->key, true);
    __real_entry_set_expire(call, entry, expire_ms);
}
