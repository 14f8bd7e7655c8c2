"""stream.py - random command streams.

A group of commands is one module in groups/ (groups/__init__.py describes its contents). Its generators draw from a
Context: a small set of keys, so that types collide, and lists of values for which implementations differ. stream(seed,
…) is a pure function of its arguments.

Steps of a stream:

    Step    one command on one of the connections (transcript.py)
    Walk    a complete SCAN/HSCAN/… walk; compares the elements found, not the cursors
    Carry   DUMP on both sides, then RESTORE of the payload of the OTHER side
    Member  a command with a random reply; compares whether its members are in the reply of another command
    Pause   one command, after which time passes at both servers
"""

import random

from support import groups
from support.transcript import Step, quote

SMALL = b'small'  # keys with this in their name hold short values only (LCS is quadratic)


class Walk(Step):
    """args: the command with its cursor as b'0' at `cursor_at`; is_pairs: elements come as name, value."""
    __slots__ = ('cursor_at', 'is_pairs')

    def __init__(self, args, cursor_at, is_pairs):
        super().__init__(args)
        self.cursor_at, self.is_pairs = cursor_at, is_pairs

    def __repr__(self):
        return 'walk: ' + super().__repr__()


class Carry(Step):
    """args: DUMP src; then RESTORE dst ttl <payload of the other side> options."""
    __slots__ = ('dst', 'ttl', 'options')

    def __init__(self, src, dst, ttl, options):
        super().__init__(['DUMP', src])
        self.dst, self.ttl, self.options = dst, ttl, options

    def __repr__(self):
        return 'carry: %s to RESTORE %s %s %s' % (super().__repr__(), quote(self.dst), self.ttl, self.options)


class Member(Step):
    """args: the random command; `universe`: a command whose reply has all possible members; with_values: name, value
    pairs."""
    __slots__ = ('universe', 'with_values')

    def __init__(self, args, universe, with_values=False):
        super().__init__(args)
        self.universe, self.with_values = universe, with_values


class Pause(Step):
    """args: a command; waits afterwards for what redis-server does by its timer."""
    __slots__ = ('seconds',)

    def __init__(self, args, seconds):
        super().__init__(args)
        self.seconds = seconds


class Context:
    """The source of random arguments. `through_proxy`: keys have {tags}, and the keys of a block have one tag, unless
    has_tags is False (cross-slot = any)."""

    PLAIN_KEYS = [b'a', b'b', b'c', b'd', b'e', b'f', b'', b'1', b'\x00\r\n\xff', b'two words', b'{x', b'{}y',
                  b'k' * 300]
    GROUPS = [b'{g1}', b'{g2}', b'{g3}', b'{g4}']
    GROUP_KEYS = [b'a', b'b', b'c', b'd', b'\x00\xff']
    SMALL_KEYS = [SMALL + b'1', SMALL + b'2', SMALL + b'3']
    FIELDS = [b'f1', b'f2', b'f3', b'f4', b'f5', b'', b'1', b'-7', b'\x00\r\n', b'F1', b'f' * 64, b'f' * 65, b'f' * 300]
    INTS = [b'0', b'1', b'-1', b'2', b'7', b'10', b'-12', b'99', b'1000', b'4294967296', b'-2147483649',
            b'9223372036854775807', b'-9223372036854775808', b'9223372036854775806']
    NOT_INTS = [b'9223372036854775808', b'-9223372036854775809', b'18446744073709551616', b'007', b' 1', b'1 ', b'+1',
                b'-0', b'1.0', b'1e3', b'abc', b'', b'0x10', b'\x001', b'123456789012345678901234567890']
    FLOATS = [b'0', b'1', b'-1', b'0.1', b'0.2', b'3.0e3', b'200', b'-0.5', b'1e-5', b'3.14159265358979', b'1e17',
              b'123456789.123456789', b'5.0', b'-0', b'.5', b'5.', b'1e-20', b'0x10', b'100000000000000000000']
    NOT_FLOATS = [b'inf', b'-inf', b'+inf', b'nan', b'', b'abc', b' 1.5', b'1.5 ', b'1e400', b'-1e400', b'1e5000',
                  b'1,5', b'1\x00', b'--1']
    LENGTHS = [0, 1, 2, 5, 19, 20, 21, 43, 44, 45, 63, 64, 65, 127, 511, 512, 513, 1023, 1024, 1025, 2048, 3000, 4096,
               16383, 16384, 16385, 40000]

    def __init__(self, seed, through_proxy, has_tags=True):
        self.rng = random.Random(seed)
        self.through_proxy = through_proxy
        self.has_tags = through_proxy and has_tags
        self.group = None   # in a block: the only tag for keys
        self.in_block = False
        self.fields_many = self.rng.random() < 0.05  # hashes too big for Redis' compact form

    # -- dice

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, things):
        return self.rng.choice(things)

    def number(self, low, high):
        return self.rng.randint(low, high)

    def case(self, word):
        """The word, sometimes in mixed case."""
        if self.chance(0.9):
            return word
        return ''.join(self.pick([char.upper(), char.lower()]) for char in word)

    # -- keys

    def _names(self, group):
        if self.chance(0.1):
            names = self.SMALL_KEYS
        else:
            names = self.GROUP_KEYS if group is not None else self.PLAIN_KEYS
        return (group or b'') + self.pick(names)

    def key(self):
        """Any key (inside a block: of the block's tag)."""
        if self.group is not None:
            return self._names(self.group)
        if self.has_tags and self.chance(0.7):
            return self._names(self.pick(self.GROUPS))
        return self._names(None)

    def keys(self, low=1, high=5):
        """Any keys, possibly repeated; for commands that may use several shards."""
        return [self.key() for _ in range(self.number(low, high))]

    def keys_together(self, count, small=None):
        """Keys of one shard. `small`: all of them with short values, or none, for commands that copy values between
        keys."""
        group = self.group
        if group is None and self.has_tags:
            group = self.pick(self.GROUPS)
        if small is None:
            return [self._names(group) for _ in range(count)]
        names = self.GROUP_KEYS if group is not None else self.PLAIN_KEYS
        return [(group or b'') + self.pick(self.SMALL_KEYS if small else names) for _ in range(count)]

    # -- values

    def length(self, key=b''):
        longest = 200 if SMALL in key else 50000
        return min(self.pick(self.LENGTHS), longest)

    def value(self, key=b''):
        dice = self.rng.random()
        if dice < 0.25:
            return self.pick(self.INTS)
        if dice < 0.30:
            return self.pick(self.NOT_INTS)
        if dice < 0.40:
            return self.pick(self.FLOATS + self.NOT_FLOATS)
        if dice < 0.75:
            return bytes(self.pick(b'abcxyz012 ') for _ in range(self.number(0, 12)))
        length = self.length(key)
        if self.chance(0.5):
            return self.pick([b'x', b'ab', b'\x00', b'\xff\x01']) * length if length < 20000 else b'x' * length
        return self.rng.randbytes(length)

    def field(self):
        if self.fields_many and self.chance(0.7):
            return b'field:%d' % self.number(0, 700)
        return self.pick(self.FIELDS)

    def integer(self):
        """For arguments that are any 64-bit integer."""
        dice = self.rng.random()
        if dice < 0.15:
            return self.pick(self.NOT_INTS)
        return self.pick(self.INTS)

    def float_text(self):
        return self.pick(self.NOT_FLOATS) if self.chance(0.15) else self.pick(self.FLOATS)

    def index(self):
        """An argument that is an index: small, or far outside."""
        dice = self.rng.random()
        if dice < 0.7:
            return b'%d' % self.number(-12, 12)
        if dice < 0.9:
            return b'%d' % self.pick([-50000, -1025, -1024, 1023, 1024, 1025, 16384, 50000])
        return self.integer()

    def far_seconds(self):
        return self.number(1000, 10 ** 9)

    def junk(self):
        return self.pick([b'', b'abc', b'-1', b'0', b'1e5', b'\x00\xff', b'NX', b'9223372036854775808'])


# No further argument. ZRANK: later versions of Redis have options here, so the error is another one than redis-server 7.0's.
# PFADD: if the value is damaged, Redis keeps the elements that it added before it noticed; here a command that fails changes nothing.
NO_FURTHER = ('ZRANK', 'ZREVRANK', 'PFADD')


def mangle(context, args):
    """Sometimes a wrong number of arguments, an invalid one, or another spelling of the name."""
    dice = context.rng.random()
    name = str(args[0]).upper()
    if 0.02 <= dice < 0.04 and context.has_tags and name in groups.MANY_KEYS:
        return args  # another key might be on another shard
    if dice < 0.04 and context.has_tags and context.in_block and len(args) == 1:
        return args
    if dice < 0.02 and name == 'SPOP':
        return args[:1]  # without a count, the members popped would be random
    if dice < 0.02 and len(args) > 1:
        return args[:context.number(1, len(args) - 1)]
    if dice < 0.03:
        return args if name in NO_FURTHER else args + [context.junk()]
    if dice < 0.04 and len(args) > 2:
        at = context.number(2, len(args) - 1)
        return args[:at] + [context.junk()] + args[at + 1:]
    if dice < 0.10:
        return [context.case(name.lower())] + args[1:]
    return args


def allowed(context, args):
    """In a transaction through a proxy, commands must have keys, or be of a kind that any shard can answer."""
    if not (context.in_block and context.through_proxy):
        return True
    return str(args[0]).upper() not in groups.KEYLESS


class Grammar:
    """Generators of several groups, chosen by weight."""

    def __init__(self, names, without=()):
        self.without = {name.upper() for name in without}
        self.makers, self.weights = [], []
        for name in names:
            module = groups.load(name)
            for weight, maker in module.COMMANDS:
                self.makers.append(maker)
                self.weights.append(weight * getattr(module, 'WEIGHT', 1))

    def draw(self, context):
        """One command, or several that belong together: [Step, …]."""
        while True:
            made = context.rng.choices(self.makers, self.weights)[0](context)
            if made is None:
                continue
            if isinstance(made, Step):
                made = [made]
            elif not isinstance(made[0], Step):
                if not allowed(context, made):
                    continue
                made = [Step(mangle(context, made))]
            if not self._is_left_out(made):
                return made

    def _is_left_out(self, steps):
        return any(step.name() in self.without or
                   b' '.join(step.words[:2]).upper().decode('latin-1') in self.without for step in steps)

    def draw_single(self, context):
        """One plain command for the inside of a block."""
        while True:
            made = self.draw(context)
            if len(made) == 1 and type(made[0]) is Step and made[0].name() not in groups.NOT_IN_BLOCKS:
                return made[0]


def stream(seed, grammar, length, through_proxy, blocks=0.06, has_tags=True):
    """A list of steps. `blocks`: the probability that a MULTI block begins."""
    from support.groups import transactions  # imported here, because that module imports this one
    context = Context(seed, through_proxy, has_tags)
    steps = []
    while len(steps) < length:
        if context.chance(blocks):
            steps += transactions.block(context, grammar)
        else:
            steps += grammar.draw(context)
    return steps
