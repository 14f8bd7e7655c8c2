/*
 * script_hooks.c - what the rooms below ask about scripts (struct script_hooks).
 */
#include "backend/context/partition.h"
#include "backend/script/halt.h"
#include "backend/session/session.h"

_Static_assert(sizeof((struct script_chance *)NULL)->states / sizeof(unsigned short[3]) ==
                   SCRIPT_KINDS,
               "one for each");

static struct script_chance *chance_of(const struct session *session)
{
    return &scripts_of(session)->chance;
}

static bool source_of(const struct session *session, struct bytes sha, struct out *out)
{
    return script_source(scripts_of(session), sha, out);
}

static uint32_t flags_of_script(const struct session *session, struct bytes sha)
{
    uint32_t flags;
    return script_find(scripts_of(session), sha, &flags) ? flags : 0;
}

/* Libraries that are not loaded are loaded by FCALL itself, within the limits of a call. Until then their functions are as ones that declare
 * no flags: each of their commands is checked by itself. */
static uint32_t flags_of_function(const struct session *session, struct bytes name)
{
    const struct scripts *scripts = scripts_of(session);
    if (!functions_are_loaded(scripts))
        return 0;
    const struct function *function = function_find(scripts, name);
    return function ? function->flags | SCRIPT_DECLARED : 0;
}

const struct script_hooks script_hooks = {.chance = chance_of,
                                          .go_on = halt_go_on,
                                          .may_go_on = halt_may_go_on,
                                          .drop_halt = halt_drop,
                                          .source = source_of,
                                          .script_flags = flags_of_script,
                                          .function_flags = flags_of_function};
