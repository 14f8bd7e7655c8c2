/*
 * script_hooks.c - what the rooms below ask about scripts (struct script_hooks).
 */
#include "backend/context/partition.h"
#include "backend/script/vm.h"
#include "backend/session/session.h"

static void save_random(const struct session *session)
{
    struct scripts *scripts = scripts_of(session);
    scripts->saved_chance = scripts->chance;
}

static void restore_random(const struct session *session)
{
    struct scripts *scripts = scripts_of(session);
    scripts->chance = scripts->saved_chance;
}

static bool source_of(const struct session *session, struct bytes sha, struct out *out)
{
    return script_source(scripts_of(session), sha, out);
}

static bool is_reading_script(const struct session *session, struct bytes sha)
{
    uint32_t flags;
    return script_find(scripts_of(session), sha, &flags) && flags & SCRIPT_NO_WRITES;
}

/* Libraries that no FCALL has needed yet are loaded now. */
static bool is_reading_function(const struct session *session, struct bytes name)
{
    if (functions_load(session->partition, session_namespace(session)) != OK)
        return false;
    const struct function *function = function_find(scripts_of(session), name);
    return function && function->flags & SCRIPT_NO_WRITES;
}

const struct script_hooks script_hooks = {.save_random = save_random,
                                          .restore_random = restore_random,
                                          .source = source_of,
                                          .script_only_reads = is_reading_script,
                                          .function_only_reads = is_reading_function};
