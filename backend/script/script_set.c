/*
 * script_set.c - the namespaces of a partition that use scripts, and the limit of the memory of their Lua states.
 *
 *   namespace ─► struct scripts ─┬─ eval: state of EVAL      ┐ made when first needed, freed when the states of
 *                                └─ functions: FCALL's ┘ their kind take more than script-memory-limit
 *
 * The biggest state is freed first, so a namespace that fills its state cannot evict the states of others. Freeing a
 * state loses no data: clients that get NOSCRIPT send EVAL again, and functions are loaded again from their rows.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/script/halt.h"
#include "backend/session/session.h"
#include "backend/storage/overlay.h"
#include "shared/check.h"
#include "shared/clock.h"
#include "shared/table.h"

#include <stdlib.h>

struct script_set *script_set_new(struct partition *partition)
{
    struct script_set *set = calloc(1, sizeof *set);
    CHECK(set);
    set->partition = partition;
    partition->running.script_hooks = &script_hooks;
    set->max = partition->snapshot->config.script_memory_limit_bytes;
    set->names = table_new();
    out_init(&set->reply);
    return set;
}

/* Frees the state of this kind, with its scripts or libraries. */
static void forget_state(struct scripts *scripts, enum script_kind kind)
{
    struct script_vm *vm = scripts->states[kind];
    if (!vm)
        return;
    if (kind == SCRIPT_FUNCTION) {
        libraries_forget(scripts);
        scripts->is_loaded = false;
    } else {
        scripts->cached = scripts->cached_bytes = 0;
    }
    scripts->states[kind] = NULL;
    vm_free(vm);
}

static void free_scripts(struct scripts *scripts)
{
    for (int kind = 0; kind < SCRIPT_KINDS; kind++)
        forget_state(scripts, kind);
    table_free(scripts->libraries_by_name);
    table_free(scripts->functions_by_name);
    free(scripts);
}

void script_set_free(struct script_set *set)
{
    struct bytes name;
    void *scripts;
    size_t cursor = 0;
    if (!set)
        return;
    while (table_next(set->names, &cursor, &name, &scripts))
        free_scripts(scripts);
    table_free(set->names);
    halt_fibers_free(&set->fibers);
    out_clear(&set->reply);
    free(set);
}

struct script_run *scripts_running(const struct script_set *set)
{
    return set->running;
}

void scripts_log_next_second(struct script_set *set)
{
    struct script_log *log = &set->log;
    uint64_t now_ms = clock_mono_us() / 1000;
    if (now_ms < log->second_ms + 1000)
        return;
    if (log->dropped)
        log_event(LOG_WARN, "script_log_dropped", "partition=%u lines=%llu limit=%d/s",
                  set->partition->index, (unsigned long long)log->dropped, LOG_LINES_PER_SECOND);
    *log = (struct script_log){.second_ms = now_ms};
}

void scripts_log(struct script_set *set, enum log_level level, const char *text)
{
    if (!log_on(level))
        return;
    scripts_log_next_second(set);
    if (set->log.lines == LOG_LINES_PER_SECOND) {
        set->log.dropped++;
        return;
    }
    set->log.lines++;
    log_event(level, "script", "text=" LOG_QUOTED, text);
}

const char *scripts_busy_text(const struct script_set *set)
{
    return set->running->is_function
               ? "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN "
                 "NOSAVE."
               : "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
                 "NOSAVE.";
}

struct scripts *scripts_open(struct script_set *set, struct bytes name)
{
    struct scripts *scripts = table_get(set->names, name);
    if (scripts)
        return scripts;
    scripts = calloc(1, sizeof *scripts);
    CHECK(scripts);
    scripts->set = set;
    scripts->libraries_by_name = table_new();
    scripts->functions_by_name = table_new();
    for (int kind = 0; kind < SCRIPT_KINDS; kind++) /* the initial state of lrand48 */
        memcpy(scripts->chance.states[kind], (unsigned short[3]){0x330E, 0xABCD, 0x1234},
               sizeof scripts->chance.states[kind]);
    (void)table_put(set->names, name, scripts);
    return scripts;
}

struct scripts *scripts_of(const struct session *session)
{
    return scripts_open(session->partition->scripts, session_namespace(session));
}

void scripts_drop(struct script_set *set, struct bytes name)
{
    struct scripts *scripts = table_remove(set->names, name);
    if (scripts)
        free_scripts(scripts);
}

bool script_run_concerns(const struct script_run *run, const struct session *session)
{
    return run->vm->scripts == scripts_of(session) ||
           (!session->login.is_internal && session_namespace(session).len == 0);
}

uint64_t script_set_memory(const struct script_set *set, enum script_kind kind)
{
    return set->used[kind];
}

/* ---- states ---- */

/* The namespace, other than `kept`, with the biggest state of this kind; NULL: there is none. */
static struct scripts *find_biggest(struct script_set *set, const struct scripts *kept,
                                    enum script_kind kind)
{
    struct scripts *biggest = NULL;
    struct bytes name;
    void *value;
    size_t cursor = 0;
    while (table_next(set->names, &cursor, &name, &value)) {
        struct scripts *scripts = value;
        if (scripts != kept && scripts->states[kind] &&
            (!biggest || scripts->states[kind]->used > biggest->states[kind]->used))
            biggest = scripts;
    }
    return biggest;
}

void scripts_make_room(struct scripts *scripts, enum script_kind kind)
{
    struct script_set *set = scripts->set;
    struct scripts *other;
    while (set->used[kind] > set->max && (other = find_biggest(set, scripts, kind)))
        forget_state(other, kind);
}

struct script_vm *scripts_state(struct scripts *scripts, enum script_kind kind)
{
    if (!scripts->states[kind]) {
        scripts->states[kind] = vm_new(scripts, scripts->set->max, kind);
        scripts_make_room(scripts, kind);
    }
    return scripts->states[kind];
}

void functions_forget(struct script_set *set)
{
    struct bytes name;
    void *scripts;
    size_t cursor = 0;
    if (set->running)
        return; /* the running script may be one of these functions */
    while (table_next(set->names, &cursor, &name, &scripts)) {
        forget_state(scripts, SCRIPT_FUNCTION);
        functions_set_loaded(scripts, false); /* also for a namespace without a state */
    }
}

bool functions_are_loaded(const struct scripts *scripts)
{
    return scripts->is_loaded;
}

void functions_set_loaded(struct scripts *scripts, bool is_loaded)
{
    scripts->is_loaded = is_loaded;
}
