#!/usr/bin/python3
"""COMMAND and its subcommands: the command table compared with that of redis-server 7.0.15.

All ten elements of COMMAND INFO must be equal for every command of Redis, in RESP2 and RESP3, and so must the keys,
flags and errors that COMMAND GETKEYSANDFLAGS gives for random arguments. --endpoint HOST:PORT compares a running proxy
or backend; otherwise a small cluster is started.

Intended differences, removed before comparing:
  - key specs have no "notes" (sentences in Redis);
  - the order of tips and of subcommands (in Redis that of a hash table);
  - PFMERGE with only a destination has one key (Redis finds none, and so routes it to any node);
  - columns that a later version of Redis changed (LATER);
  - commands that only Scree has; the texts of COMMAND DOCS, "history" among them.
"""

import contextlib
import fcntl
import os
import pty
import random
import re
import signal
import struct
import termios

from support.cluster import Cluster, Oracle
from support.harness import Failure, Suite, check, check_equal, sized
from support.resp import Connection, show, value

SHOWN_MAX = 10  # printed differences of one case
COLUMNS = ['name', 'arity', 'flags', 'first key', 'last key', 'step', 'categories', 'tips', 'key specs', 'subcommands']
# fields of COMMAND DOCS that are sentences
TEXTS = (b'summary', b'complexity', b'replaced_by', b'history')
# {command: columns}: options of later versions
LATER = {b'zrank': ['arity'], b'zrevrank': ['arity']}
CATEGORIES = ('keyspace read write set sortedset list hash string bitmap hyperloglog geo stream pubsub admin fast slow '
              'blocking dangerous connection transaction scripting').split()


def options(parser):
    parser.add_argument('--endpoint', default='', help='HOST:PORT of a running proxy or backend')
    parser.add_argument('--rounds', type=int, default=sized(20000, long=2000000), help='random GETKEYS requests for each protocol')


class Comparison:
    """Connections to both servers in one protocol, and the differences found."""

    def __init__(self, target, scree, redis, proto):
        self.target, self.proto, self.differences = target, proto, []
        self.scree, self.redis = Connection(scree, proto=proto), Connection(redis, proto=proto)
        names = value(self.redis.call('COMMAND', 'LIST'))
        self.known = dict(zip(names, self.redis.call('COMMAND', 'INFO', *names)[1]))

    def equal(self, what, ours, theirs):
        if ours != theirs:
            self.differences.append('%s RESP%d %s\n       redis: %s\n       scree: %s'
                                    % (self.target, self.proto, what, said(theirs), said(ours)))

    def same(self, *args):
        self.equal(' '.join(map(repr, args)), self.scree.call(*args), self.redis.call(*args))

    def finish(self):
        if self.differences:
            shown = '\n     '.join(self.differences[:SHOWN_MAX])
            raise Failure('%d differences\n     %s' % (len(self.differences), shown))


def said(thing):
    is_reply = isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], str)
    return show(thing) if is_reply else repr(thing)


class World:
    """The oracle and the cluster that all cases share."""

    def __init__(self):
        self.stack = None

    def start(self, endpoint):
        if self.stack:
            return
        self.stack = contextlib.ExitStack()
        self.oracle = self.stack.enter_context(Oracle())
        if endpoint:
            host, port = endpoint.rsplit(':', 1)
            self.targets = {endpoint: (host, int(port))}
            return
        cluster = self.stack.enter_context(Cluster(backends=1, partitions=2, proxies=1))
        self.targets = {'direct': cluster.backends[0].addresses[0], 'proxy': cluster.proxies[0].address}

    def stop(self):
        if self.stack:
            self.stack.close()


WORLD = World()
suite = Suite(__doc__, options)


def each_protocol(test):
    """Runs a case for every target in both protocols."""
    def run_all(run):
        WORLD.start(run.options.endpoint)
        for name, address in WORLD.targets.items():
            for proto in (2, 3):
                comparison = Comparison(name, address, WORLD.oracle.address, proto)
                test(run, comparison)
                comparison.finish()
    return run_all


# ---- COMMAND, COMMAND INFO -------------------------------------------------------------------------------------------

def without_notes(spec):
    """A key spec as sorted pairs: a map is a flat list in RESP2 and in Reader's form of RESP3."""
    kind, items = spec
    pairs = [(items[i][1], items[i + 1]) for i in range(0, len(items), 2)]
    return kind, sorted(pair for pair in pairs if pair[0] != b'notes')


def comparable(info, known):
    """One element of COMMAND INFO in an order that does not depend on the server."""
    kind, parts = info
    parts = list(parts)
    parts[7] = (parts[7][0], sorted(parts[7][1]))
    parts[8] = (parts[8][0], [without_notes(spec) for spec in parts[8][1]])
    subs = [comparable(sub, known) for sub in parts[9][1] if sub[1][0][1] in known]
    parts[9] = (parts[9][0], sorted(subs, key=lambda sub: sub[1][0][1]))
    for column in LATER.get(parts[0][1], []):
        parts[COLUMNS.index(column)] = ('+', b'later')
    return kind, parts


@suite.case('COMMAND INFO of every command of Redis has the ten elements that Redis gives')
@each_protocol
def _(_run, c):
    names = sorted(c.known)
    ours, theirs = (side.call('COMMAND', 'INFO', *names)[1] for side in (c.scree, c.redis))
    for name, our, their in zip(names, ours, theirs):
        if not isinstance(our[1], list):
            c.equal('COMMAND INFO %r' % name, our, their)
            continue
        our, their = comparable(our, c.known), comparable(their, c.known)
        for column, a, b in zip(COLUMNS, our[1], their[1]):
            c.equal('COMMAND INFO %r: %s' % (name, column), a, b)


@suite.case('COMMAND and COMMAND INFO without names list every command')
@each_protocol
def _(_run, c):
    for what in (['COMMAND'], ['COMMAND', 'INFO']):
        ours = {info[1][0][1]: comparable(info, c.known) for info in c.scree.call(*what)[1]}
        for info in c.redis.call(*what)[1]:
            name = info[1][0][1]
            c.equal('%s: %r' % (' '.join(what), name), ours.get(name), comparable(info, c.known))
        check(c.scree.get('COMMAND', 'COUNT') == len(ours), 'COMMAND COUNT is not the length of COMMAND')


@suite.case('COMMAND INFO finds names in any case, and gives null for others')
@each_protocol
def _(_run, c):
    for odd in ('nosuch', 'get|x', 'client|kill|x', 'client|', '|kill', '', '|', 'get ', 'scree|use'):
        c.same('COMMAND', 'INFO', odd)
    for name in ('GET', 'Client|KILL', 'ZRangeByScore'):
        ours, theirs = (value(side.call('COMMAND', 'INFO', name))[0][0] for side in (c.scree, c.redis))
        c.equal(name, ours, theirs)


# ---- COMMAND DOCS, LIST ----------------------------------------------------------------------------------------------

def as_pairs(reply):
    items = reply[1]
    return [(items[i], items[i + 1]) for i in range(0, len(items), 2)]


def docs_facts(reply):
    """{name: the fields that are no texts} of COMMAND DOCS."""
    facts = {}
    for name, about in as_pairs(reply):
        about = {key[1]: item for key, item in as_pairs(about)}
        facts[name[1]] = {key: item for key, item in about.items() if key not in (*TEXTS, b'subcommands')}
        if b'subcommands' in about:
            facts.update(docs_facts(about[b'subcommands']))
    return facts


@suite.case('COMMAND DOCS has the fields of every command of Redis, and its arguments')
@each_protocol
def _(_run, c):
    ours, theirs = docs_facts(c.scree.call('COMMAND', 'DOCS')), docs_facts(c.redis.call('COMMAND', 'DOCS'))
    for name in sorted(c.known):
        one = docs_facts(c.scree.call('COMMAND', 'DOCS', name))
        c.equal('COMMAND DOCS: %r' % name, ours.get(name), theirs[name])
        c.equal('COMMAND DOCS %r' % name, one.get(name), theirs[name])
    c.same('COMMAND', 'DOCS', 'nosuch')


def each_argument(arguments):
    """The fields of each element of "arguments", those of parts too."""
    for argument in arguments[1]:
        about = {key[1]: item for key, item in as_pairs(argument)}
        yield about
        if b'arguments' in about:
            yield from each_argument(about[b'arguments'])


def is_optional(about):
    return ('+', b'optional') in about.get(b'flags', ('*', []))[1]


@suite.case('COMMAND DOCS has the arguments of later commands and own commands, as many as their arity wants')
@each_protocol
def _(_run, c):
    docs = docs_facts(c.scree.call('COMMAND', 'DOCS'))
    own = [name for name in docs if name not in c.known]
    check(len(own) > 100, 'only %d commands are not in redis-server 7.0.15' % len(own))
    for name, info in zip(own, c.scree.call('COMMAND', 'INFO', *own)[1]):
        least = abs(int(info[1][1][1])) - 1 - name.count(b'|')
        if info[1][9][1] or (least == 0 and int(info[1][1][1]) > 0):
            check(b'arguments' not in docs[name], '%r has no arguments' % name)
            continue
        arguments = docs[name][b'arguments']
        for about in each_argument(arguments):
            is_group = about[b'type'][1] in (b'oneof', b'block')
            check(about[b'name'][1] and is_group == (b'arguments' in about), '%r: %r' % (name, about))
        needed = sum(not is_optional({key[1]: item for key, item in as_pairs(argument)}) for argument in arguments[1])
        check(needed <= least and (needed > 0) == (least > 0), '%r wants %d words or more, but %d arguments' % (name, least, needed))


def hints(address, typed):
    """What redis-cli shows behind these words on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 200, 0, 0))  # it reads the size when it begins
        os.execvpe('redis-cli', ['redis-cli', '-h', address[0], '-p', str(address[1])], dict(os.environ, TERM='xterm'))
    shown = b''
    try:
        for awaited, words in ((b'> ', typed), (b'\x1b[0;90;49m', b'\r'), (b'ERR', b'\x04')):
            while awaited not in shown:
                shown += os.read(terminal, 65536)
            os.write(terminal, words)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    return re.findall(rb'\x1b\[0;90;49m([^\x1b]*)', shown)[-1]


@suite.case('redis-cli shows the hints that it shows at redis-server')
def _(run):
    WORLD.start(run.options.endpoint)
    for typed in (b'zadd', b'set key', b'xadd', b'client kill', b'migrate'):
        theirs = hints(WORLD.oracle.address, typed)
        for name, address in WORLD.targets.items():
            check_equal(hints(address, typed), theirs, '%s: hints of %r' % (name, typed))
    check_equal(hints(WORLD.targets['proxy' if 'proxy' in WORLD.targets else run.options.endpoint], b'json.set'),
                b' key path value [NX|XX]', 'hints of JSON.SET')


@suite.case('COMMAND LIST filters as Redis does')
@each_protocol
def _(_run, c):
    def listed(side, args):
        kind, names = side.call('COMMAND', 'LIST', *args)
        return kind, sorted(name for name in names if name[1] in c.known)

    filters = [[]] + [['FILTERBY', 'ACLCAT', category] for category in CATEGORIES + ['nosuch', '@read', 'STRING']]
    filters += [['filterby', 'pattern', p] for p in ('*', 'get*', '*|k*', 'XINFO', 'x[r]ead*', '?et', '')]
    for args in filters + [['FILTERBY', 'MODULE', 'json']]:
        c.equal('COMMAND LIST %s' % ' '.join(args), listed(c.scree, args), listed(c.redis, args))
    for bad in (['x'], ['FILTERBY', 'PATTERN'], ['FILTERBY', 'x', 'y'], ['FILTERBY', 'ACLCAT', 'read', 'x']):
        c.same('COMMAND', 'LIST', *bad)


# ---- COMMAND GETKEYS -------------------------------------------------------------------------------------------------

WORDS = ('GET STORE store LIMIT BY STREAMS streams KEYS keys COUNT BLOCK GROUP NOACK AUTH AUTH2 OVERFLOW SET INCRBY '
         'WRAP STOREDIST ASC ALPHA nx EX 0 1 2 3 4 5 +1 01 2x -1 9223372036854775807 99999999999999999999 a b c d '
         'e').split() + ['', ' 1']


def random_request(rng, commands):
    words, arity = rng.choice(commands)
    count = abs(arity) - len(words)
    if arity < 0 or rng.random() < 0.1:
        count += rng.choice((0, 0, 1, 2, 3, 5, 9, -1))
    if words == ['pfmerge'] and count == 1:
        count = 2
    return words + [rng.choice(WORDS) for _ in range(count)]


@suite.case('COMMAND GETKEYS and GETKEYSANDFLAGS find the keys that Redis finds in random commands')
@each_protocol
def _(run, c):
    rng = random.Random(run.seed)
    commands = [(name.decode().split('|'), int(info[1][1][1])) for name, info in c.known.items()]
    commands = [command for command in commands if '|'.join(command[0]).encode() not in LATER]
    odd = [command for command in commands
           if ('+', b'movablekeys') in c.known['|'.join(command[0]).encode()][1][2][1]
           or command[0][0] in ('set', 'bitfield')]
    for _ in range(0, run.options.rounds, 500):
        batch = [['COMMAND', rng.choice(('GETKEYS', 'GETKEYSANDFLAGS'))]
                 + random_request(rng, odd if rng.random() < 0.7 else commands) for _ in range(500)]
        for args, ours, theirs in zip(batch, c.scree.pipeline(batch), c.redis.pipeline(batch)):
            c.equal(' '.join(map(repr, args)), ours, theirs)


# ---- errors ----------------------------------------------------------------------------------------------------------

@suite.case('unknown commands, unknown subcommands and wrong numbers of arguments have the texts of Redis')
@each_protocol
def _(_run, c):
    for args in (['nosuch'], ['nosuch', 'a', 'b\r\nc'], ['x' * 300, 'y' * 100, 'z' * 100, 'q'], ['a\0b', 'c\0d'],
                 ['a'] + ['b'] * 200, ['a', 'b' * 127, 'c'], ['a', 'b' * 125, 'c', 'd'], ['client', 'nosuch'],
                 ['CLIENT', 'x' * 300, 'y'], ['client'], ['object'], ['object', 'a\r\nb'], ['get'], ['GET', 'a', 'b'],
                 ['client', 'kill'], ['command', 'count', 'x'], ['command', 'nosuch'], ['command', 'getkeys', 'get'],
                 ['object', 'encoding'], ['Client|Kill', 'x'], ['COMMAND', 'GETKEYS', 'client', 'nosuch'], ['']):
        c.same(*args)


if __name__ == '__main__':
    try:
        suite.main()
    finally:
        WORLD.stop()
