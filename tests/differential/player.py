"""player.py - plays one random stream to two servers and finds the first difference.

Both servers are emptied and get the same bytes on new connections, and every pair of replies is compared. Afterwards
both keyspaces are read, key by key, with ordinary commands, and compared.

Modes: 'single' waits for each reply; 'pipelined' sends several commands in one packet. A step that needs a reply first
(Walk, Carry, Member, Pause) is sent alone. `chill`, if given, is called before some of the packets.
"""

import random
import time

from support import checks, groups
from support.harness import patience
from support.resp import show
from support.stream import Carry, Member, Pause, Walk
from support.transcript import Pair, Step, quote

# databases compared afterwards; streams write to 0, 1 and 2 (and to 15, which is emptied without a comparison)
DATABASES = 3


CHILL_CHANCE = {'single': 0.1, 'pipelined': 0.5}  # before a packet
CHILL_WHOLE = 0.1


class Difference(Exception):
    """A difference at step `index` (len(stream): in the keyspace afterwards), with a title for its kind, and both
    replies."""

    def __init__(self, index, title, what, ours, theirs):
        super().__init__(title)
        self.index, self.title, self.what, self.ours, self.theirs = index, title, what, ours, theirs

    def text(self):
        return '%s\n       redis: %s\n       scree: %s' % (self.what, self.theirs, self.ours)


def title_of(step, ours, theirs):
    """The kind of a difference; only the first difference of a kind is reported."""
    def sort(reply):
        return reply[0] + (reply[1].split()[0].decode('latin-1') if reply[0] == '-' and reply[1].split() else '')
    words = step.name()
    if words in ('OBJECT', 'CLIENT', 'CONFIG') and len(step.words) > 1:
        words += ' ' + step.words[1].upper().decode('latin-1')
    return '%s: %s instead of %s' % (words[:40], sort(ours), sort(theirs))


class Player:
    def __init__(self, oracle_address, target_addresses, mode, proto, seed, chill=None):
        self.oracle_address, self.target_addresses = oracle_address, target_addresses
        self.mode, self.proto, self.seed, self.chill = mode, proto, seed, chill
        self.replies = 0

    def play(self, steps):
        """The first Difference, or None."""
        try:
            with Pair(self.oracle_address, self.target_addresses, self.proto, timeout=patience()) as self.pair:
                self.oracle, self.target = self.pair.oracle, self.pair.target
                if self.chill:
                    self.chill(True)
                self.play_steps(steps)
                self.compare_keyspaces(len(steps))
        except Difference as difference:
            return difference
        return None

    def play_steps(self, steps):
        chunks = random.Random(self.seed)
        chills = random.Random(self.seed)
        at = 0
        while at < len(steps):
            run = [steps[at]]
            if self.mode == 'pipelined':
                limit = chunks.randint(1, 40)
                while len(run) < limit and at + len(run) < len(steps) and type(run[-1]) is Step and \
                        type(steps[at + len(run)]) is Step and steps[at + len(run)].conn == run[0].conn:
                    run.append(steps[at + len(run)])
            if self.chill and chills.random() < CHILL_CHANCE[self.mode]:
                self.chill(chills.random() < CHILL_WHOLE)
            self.play_run(run, at)
            at += len(run)

    def play_run(self, run, at):
        step = run[0]
        if type(step) is not Step:
            if not self.pair.queues[0].is_open:
                {Walk: self.play_walk, Carry: self.play_carry, Member: self.play_member, Pause: self.play_pause}[type(step)](step, at)
            return
        self.replies += len(run)
        for offset, each, ours, theirs, is_in_exec in self.pair.differences(run):
            self.differ(each, at + offset, ours, theirs, 'in EXEC: ' if is_in_exec else '')

    def call_both(self, words):
        self.replies += 1
        return self.target.call(*words), self.oracle.call(*words)

    def differ(self, step, index, ours, theirs, where=''):
        raise Difference(index, where + title_of(step, ours, theirs), where + repr(step), show(ours), show(theirs))

    # -- steps of several commands

    def walk(self, side, step):
        """(error or None, elements): the complete walk at one server."""
        words, found = list(step.words), []
        for _ in range(100000):
            reply = side.call(*words)
            if reply[0] != '*':
                return reply, found
            found += reply[1][1][1]
            words[step.cursor_at] = reply[1][0][1]
            if words[step.cursor_at] == b'0':
                if step.is_pairs:
                    found = zip(found[::2], found[1::2])
                return None, sorted(set(found))
        return ('-', b'the walk does not end'), []

    def play_walk(self, step, index):
        theirs = self.walk(self.oracle, step)
        ours = self.walk(self.target, step)
        if ours != theirs:
            lacks = [item for item in theirs[1] if item not in ours[1]]
            more = [item for item in ours[1] if item not in theirs[1]]
            raise Difference(index, step.name() + ' walk', repr(step),
                             'error %r, lacks %r, has too much %r' % (ours[0], lacks[:5], more[:5]),
                             'error %r, %d elements' % (theirs[0], len(theirs[1])))

    def play_pause(self, step, index):
        ours, theirs = self.call_both(step.words)
        if ours != theirs:
            self.differ(step, index, ours, theirs)
        time.sleep(step.seconds)

    def play_carry(self, step, index):
        ours, theirs = self.call_both(step.words)
        if not checks.same('kind', ours, theirs):
            self.differ(step, index, ours, theirs)
        if theirs[1] is None or theirs[0] == '-':
            return
        words = ['RESTORE', step.dst, step.ttl]
        theirs_now = self.oracle.call(*words, ours[1], *step.options)
        ours_now = self.target.call(*words, theirs[1], *step.options)
        if ours_now != theirs_now:
            self.differ(step, index, ours_now, theirs_now)

    def play_member(self, step, index):
        ours, theirs = self.call_both(step.words)
        if not checks.same(checks.check_of(step.words), ours, theirs):
            self.differ(step, index, ours, theirs)
        if ours[0] in '-_' or ours[1] is None:
            return
        universe = self.target.call(*step.universe)
        names, values = self.flatten(universe), self.flatten(ours)
        if step.universe[0] == 'HGETALL':
            universe_pairs = set(zip(names[::2], names[1::2]))
            names = names[::2]
            if step.with_values and not set(zip(values[::2], values[1::2])) <= universe_pairs:
                raise Difference(index, step.name() + ' members', repr(step), show(ours), show(universe))
            values = values[::2] if step.with_values else values
        if not set(values) <= set(names) or (self.is_distinct(step) and len(set(values)) != len(values)):
            raise Difference(index, step.name() + ' members', repr(step), show(ours), show(universe))

    @staticmethod
    def is_distinct(step):
        return len(step.words) > 2 and not step.words[2].startswith(b'-')

    def flatten(self, reply):
        if not isinstance(reply[1], list):
            return [reply[1]]
        return [leaf for item in reply[1] for leaf in self.flatten(item)]

    # -- afterwards

    def compare_keyspaces(self, index):
        if self.chill:
            self.chill(True)
        step = Step(['(afterwards)'])
        ours, theirs = [], []
        for side, dump in ((self.target, ours), (self.oracle, theirs)):
            connection = side.connection(0)
            connection.call('RESET')
            for db in range(DATABASES):
                if connection.call('SELECT', db) != ('+', b'OK'):
                    break
                dump.append(read_database(connection))
        for db, (our, their) in enumerate(zip(ours, theirs)):
            self.compare_database(db, our, their, index)
        if len(ours) != len(theirs):
            raise Difference(index, 'SELECT', repr(step), '%d databases' % len(ours), '%d databases' % len(theirs))

    def compare_database(self, db, ours, theirs, index):
        for key in sorted(set(ours) | set(theirs), key=repr):
            if key not in ours or key not in theirs:
                raise Difference(index, 'keyspace: a key too many or too few', 'db %d: key %s' % (db, quote(key)),
                                 'there' if key in ours else 'not there', 'there' if key in theirs else 'not there')
            for (what, check, our), (_, _, their) in zip(ours[key], theirs[key]):
                if not checks.same(check, our, their):
                    raise Difference(index, 'keyspace: ' + what, 'db %d: %s of key %s' % (db, what, quote(key)),
                                     show(our), show(their))


def read_database(connection):
    """{key: [(what, check, reply), …]} of the selected database, without DUMP; '(size)' has DBSIZE."""
    keys = [item[1] for item in connection.call('KEYS', '*')[1]]
    types = connection.pipeline([['TYPE', key] for key in keys])
    commands, plan = [], []
    for key, (_, name) in zip(keys, types):
        words, check = groups.READERS.get(name, (['TYPE', None], 'exact'))
        commands += [[key if word is None else word for word in words], ['PEXPIRETIME', key], ['OBJECT', 'ENCODING', key]]
        plan.append((key, check))
    replies = iter(connection.pipeline(commands))
    scanned = scan_keys(connection)
    found = {b'(size)': [('DBSIZE', 'exact', connection.call('DBSIZE')),
                         ('KEYS twice', 'exact', keys_of(key for key in keys if keys.count(key) > 1)),
                         ('KEYS but not SCAN', 'exact', keys_of(set(keys) - scanned)),
                         ('SCAN but not KEYS', 'exact', keys_of(scanned - set(keys)))]}
    for (key, check), kind in zip(plan, types):
        found[key] = [('type', 'exact', kind), ('value', check, next(replies)), ('ttl', 'ttl_ms', next(replies)),
                      ('encoding', 'encoding', next(replies))]
    return found


def keys_of(keys):
    return ('*', [('$', key) for key in sorted(keys)])


def scan_keys(connection):
    cursor, keys = b'0', set()
    while True:
        reply = connection.call('SCAN', cursor, 'COUNT', 1000)
        cursor = reply[1][0][1]
        keys.update(item[1] for item in reply[1][1][1])
        if cursor == b'0':
            return keys


def shrink(player, steps, difference):
    """A shorter stream with a difference of the same kind, and that difference."""
    end = time.monotonic() + patience()
    best, best_difference = steps[:difference.index + 1], difference

    def still_differs(candidate):
        nonlocal best, best_difference
        found = player.play(candidate)
        if found is None or found.title != difference.title:
            return False
        best, best_difference = candidate[:found.index + 1], found
        return True

    still_differs(best)
    size = max(1, len(best) // 2)
    while time.monotonic() < end:
        at, progress = 0, False
        while at < len(best) and time.monotonic() < end:
            if still_differs(best[:at] + best[at + size:]):
                progress = True
            else:
                at += size
        if size == 1 and not progress:
            break
        size = max(1, size // 2)
    return best, best_difference
