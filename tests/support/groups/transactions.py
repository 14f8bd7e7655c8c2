"""transactions: MULTI blocks around other groups' commands, with WATCH, errors inside, and a second connection."""

from support.transcript import Step


def body(context, grammar):
    """The commands between MULTI and EXEC; sometimes one that fails when it is queued."""
    steps = [grammar.draw_single(context) for _ in range(context.number(0, 6))]
    if context.chance(0.1):
        steps.insert(context.number(0, len(steps)),
                     Step(context.pick([['NOSUCH', 'x'], ['GET'], ['MULTI'], ['WATCH', context.key()], ['HSET', 'a', 'b'],
                                        ['UNWATCH']])))
    return steps


def block(context, grammar):
    """[WATCH, …] MULTI … EXEC
    DISCARD. Through a proxy, all keys have one tag."""
    context.group = context.pick(context.GROUPS) if context.has_tags else None
    context.in_block = True
    steps = []
    watched = context.chance(0.35)
    if watched:
        keys = context.keys_together(context.number(1, 3))
        steps.append(Step(['WATCH'] + keys))
        if context.chance(0.5):
            intruder = grammar.draw_single(context)
            steps.append(Step(intruder.words, conn=context.pick([0, 1, 1])))
        if context.chance(0.1):
            steps.append(Step(['UNWATCH']))
    steps.append(Step([context.case('MULTI')]))
    steps += body(context, grammar)
    if watched and context.chance(0.2):
        steps.append(Step(grammar.draw_single(context).words, conn=1))
    steps.append(Step([context.pick(['EXEC', 'EXEC', 'EXEC', 'EXEC', 'DISCARD'])]))
    if context.chance(0.05):
        steps.append(Step([context.pick(['EXEC', 'DISCARD', 'UNWATCH'])]))
    context.in_block = False
    context.group = None
    return steps
