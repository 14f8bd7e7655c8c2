"""load.py - writers that record acknowledged writes, for tests in which servers fail.

A Unit is a key, or several keys of one tag that change together. Every operation has one state before and one after it:
after an acknowledged operation the unit must have the second state; after a failed or unanswered one it may have
either, and is not changed until verify() has read it. So a lost acknowledged write or a half-applied block is detected.

    String   SET, SET with PEXPIREAT, DEL            Counter  INCR (readers check its value during the load)
    Hash     HSET of two fields, HDEL                Pair     RENAME between two keys
    Block    MULTI: two strings and a hash, EXEC      Crowd    MULTI: one element more in a key of each type, EXEC
"""

import threading

from support.harness import patience
from support.resp import Closed, Connection, ReplyError, value

FAR_MS = 4102444800000


class Unit:
    def __init__(self, name, rng):
        self.name, self.rng = name, rng
        self.possible = [self.initial()]
        self.serial = 0

    def state(self):
        return self.possible[0]

    def is_certain(self):
        return len(self.possible) == 1

    def unique(self):
        self.serial += 1
        return ('%s/%d/%d' % (self.name, self.serial, self.rng.randrange(1 << 30))).encode()


class String(Unit):
    """State: (value or None, expiry in ms or -1; -2 without a key)."""

    def initial(self):
        return (None, -2)

    def operation(self):
        dice = self.rng.random()
        if dice < 0.15:
            return [['DEL', self.name]], (None, -2), lambda replies: replies == [int(self.state()[0] is not None)]
        text = self.unique() + b'z' * self.rng.choice([0, 0, 50, 2000])
        if dice < 0.5:
            when = FAR_MS + self.rng.randrange(10 ** 6)
            return [['SET', self.name, text], ['PEXPIREAT', self.name, when]], (text, when), lambda r: r == [b'OK', 1]
        return [['SET', self.name, text]], (text, -1), lambda r: r == [b'OK']

    def reads(self):
        return [['GET', self.name], ['PEXPIRETIME', self.name]]

    def seen(self, replies):
        return tuple(replies)

    def between(self, after):
        """SET and PEXPIREAT are two commands: after a crash, only one of them may have been done. It is the second if a proxy's
        connection was lost with SET, and PEXPIREAT reached the proxy when the shard was back."""
        old = self.state()[0]
        only_second = [(old, after[1])] if old is not None else []
        return [(after[0], -1)] + only_second if after[1] > 0 else []


class Counter(Unit):
    def initial(self):
        return 0

    def operation(self):
        after = self.state() + 1
        return [['INCR', self.name]], after, lambda replies: replies == [after]

    def reads(self):
        return [['GET', self.name]]

    def seen(self, replies):
        return int(replies[0] or 0)

    def between(self, after):
        return []


class Hash(Unit):
    """State: a tuple of (field, value), sorted."""

    def initial(self):
        return ()

    def operation(self):
        fields = dict(self.state())
        if fields and self.rng.random() < 0.3:
            field = self.rng.choice(list(fields))
            del fields[field]
            return [['HDEL', self.name, field]], tuple(sorted(fields.items())), lambda r: r == [1]
        chosen = self.rng.sample([b'f%d' % i for i in range(8)], 2)
        new = sum(1 for field in chosen if field not in fields)
        text = self.unique()
        fields.update({field: text for field in chosen})
        words = ['HSET', self.name, chosen[0], text, chosen[1], text]
        return [words], tuple(sorted(fields.items())), lambda r: r == [new]

    def reads(self):
        return [['HGETALL', self.name]]

    def seen(self, replies):
        return tuple(sorted(zip(replies[0][::2], replies[0][1::2])))

    def between(self, after):
        return []


class Pair(Unit):
    """Two keys; one of them has the value. State: (value of a, value of b)."""

    def initial(self):
        return (None, None)

    def names(self):
        return ['{%s}a' % self.name, '{%s}b' % self.name]

    def operation(self):
        names, (a, b) = self.names(), self.state()
        if a is None and b is None:
            text = self.unique()
            return [['SET', names[0], text]], (text, None), lambda r: r == [b'OK']
        if a is not None:
            return [['RENAME', names[0], names[1]]], (None, a), lambda r: r == [b'OK']
        return [['RENAME', names[1], names[0]]], (b, None), lambda r: r == [b'OK']

    def reads(self):
        return [['GET', name] for name in self.names()]

    def seen(self, replies):
        return tuple(replies)

    def between(self, after):
        return []


class Block(Unit):
    """Three keys written by MULTI … EXEC. State: the value of all three."""

    def initial(self):
        return (None, None, None)

    def operation(self):
        text, tag = self.unique(), '{%s}' % self.name
        commands = [['MULTI'], ['SET', tag + 'x', text], ['SET', tag + 'y', text], ['HSET', tag + 'h', 'f', text],
                    ['EXEC']]

        def right(replies):
            is_new = int(self.state()[0] is None)
            return replies == [b'OK', b'QUEUED', b'QUEUED', b'QUEUED', [b'OK', b'OK', is_new]]
        return commands, (text, text, text), right

    def reads(self):
        tag = '{%s}' % self.name
        return [['GET', tag + 'x'], ['GET', tag + 'y'], ['HGET', tag + 'h', 'f']]

    def seen(self, replies):
        return tuple(replies)

    def between(self, after):
        return []


class Crowd(Unit):
    """A key of each type: one MULTI … EXEC adds an element to each, or deletes all. State: number of elements."""

    GROW = [('RPUSH', 'l', '{n}'), ('SADD', 's', 'member:{n}'), ('ZADD', 'z', '{n}', 'member:{n}'),
            ('SETBIT', 'b', '{n}', '1'), ('XADD', 'x', '{n}-1', 'f', '{n}')]
    COUNT = [('LLEN', 'l'), ('SCARD', 's'), ('ZCARD', 'z'), ('BITCOUNT', 'b'), ('XLEN', 'x')]
    # reads the n-th element by index or rank: rows and counts must fit together
    LAST = [('LINDEX', 'l', '-1'), ('ZRANGE', 'z', '-1', '-1'), ('ZRANK', 'z', 'member:0')]

    def initial(self):
        return 0

    def key_words(self, words, count=0):
        return [words[0], '{%s}%s' % (self.name, words[1])] + [word.replace('{n}', str(count)) for word in words[2:]]

    def operation(self):
        count = self.state()
        if count and self.rng.random() < 0.02:
            commands = [['DEL', '{%s}%s' % (self.name, key)] for key in sorted({words[1] for words in self.GROW})]
            return self.block(commands, 0, [1] * len(commands))
        commands = [self.key_words(words, count) for words in self.GROW]
        return self.block(commands, count + 1, [count + 1, 1, 1, 0, b'%d-1' % count])

    @staticmethod
    def block(commands, after, wanted):
        def right(replies):
            return replies[-1] == wanted
        return [['MULTI']] + commands + [['EXEC']], after, right

    def reads(self):
        return [self.key_words(words) for words in self.COUNT + self.LAST]

    def seen(self, replies):
        counts, (last, highest, first) = replies[:len(self.COUNT)], replies[len(self.COUNT):]
        count = counts[0]
        want = [b'%d' % (count - 1), [b'member:%d' % (count - 1)], 0] if count else [None, [], None]
        return count if counts == [count] * len(counts) and [last, highest, first] == want else tuple(map(repr, replies))

    def between(self, after):
        return []


KINDS = [String, String, Counter, Hash, Pair, Block, Crowd]


class Writer(threading.Thread):
    """A client that sends pipelines of operations on different units. `wrong` collects errors."""

    def __init__(self, address, name, rng, units=60, longest=12):
        super().__init__(daemon=True)
        self.address, self.name_, self.rng, self.longest = address, name, rng, longest
        self.units = [KINDS[i % len(KINDS)]('%s-%s%d' % (name, KINDS[i % len(KINDS)].__name__.lower(), i), rng)
                      for i in range(units)]
        self.stopping = threading.Event()
        self.wrong, self.acknowledged, self.refused, self.last_error = [], 0, 0, None
        self.may_lose_connection = False
        self.connection = None

    def run(self):
        while not self.stopping.is_set() and not self.wrong:
            try:
                if self.connection is None:
                    self.connection = Connection(self.address)
                self.play_pipeline()
            except (Closed, OSError) as error:
                self.connection = None
                if not self.may_lose_connection:
                    self.wrong.append('%s lost its connection: %s: %s' % (self.name_, type(error).__name__, error))
                self.stopping.wait(0.02)

    def play_pipeline(self):
        ready = [unit for unit in self.units if unit.is_certain()]
        if not ready:
            self.stopping.wait(0.01)
            return
        chosen = self.rng.sample(ready, min(len(ready), self.rng.randint(1, self.longest)))
        operations = [(unit,) + unit.operation() for unit in chosen]
        for unit, _, after, _ in operations:
            unit.possible = [unit.state(), after] + unit.between(after)
        self.connection.send_many([words for _, commands, _, _ in operations for words in commands])
        for unit, commands, after, is_right in operations:
            self.note_reply(unit, after, is_right, [value(self.connection.read()) for _ in commands])

    def note_reply(self, unit, after, is_right, replies):
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        if errors:
            self.refused += 1
            self.last_error = str(errors[-1])
            return
        before = unit.possible
        unit.possible = before[:1]
        if not is_right(replies):
            self.wrong.append('%s: unexpected replies %r' % (unit.name, replies))
        unit.possible = [after]
        self.acknowledged += 1

    def finish(self):
        self.stopping.set()
        self.join(patience())
        if self.is_alive():
            self.wrong.append('%s still waits for replies' % self.name_)


class Watcher(threading.Thread):
    """Reads counters while they are written: a value that was read must never be rolled back."""

    def __init__(self, address, counters):
        super().__init__(daemon=True)
        self.address, self.seen = address, {counter.name: 0 for counter in counters}
        self.stopping = threading.Event()
        self.wrong = []

    def run(self):
        connection = None
        while not self.stopping.is_set():
            try:
                connection = connection or Connection(self.address)
                names = list(self.seen)
                for name, reply in zip(names, connection.pipeline([['GET', name] for name in names])):
                    self.note(name, value(reply))
            except (Closed, OSError):
                connection = None
                self.stopping.wait(0.02)

    def note(self, name, got):
        if isinstance(got, ReplyError):
            return
        number = int(got or 0)
        if number < self.seen[name]:
            self.wrong.append('%s went back from %d to %d' % (name, self.seen[name], number))
        self.seen[name] = max(self.seen[name], number)


def verify(units, connection):
    """Reads every unit and returns a list of errors. Afterwards the state of all units is known again."""
    wrong = []
    for start in range(0, len(units), 500):
        some = units[start:start + 500]
        replies = iter(connection.pipeline([words for unit in some for words in unit.reads()]))
        for unit in some:
            got = [value(next(replies)) for _ in unit.reads()]
            errors = [reply for reply in got if isinstance(reply, ReplyError)]
            if errors:
                wrong.append('%s cannot be read: %s' % (unit.name, errors[0]))
                continue
            state = unit.seen(got)
            if state not in unit.possible:
                wrong.append('%s (%s): holds %r, expected %s' % (unit.name, type(unit).__name__, state,
                                                               ' or '.join(repr(one) for one in unit.possible)))
            unit.possible = [state]
    return wrong
