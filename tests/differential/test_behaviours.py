#!/usr/bin/python3
"""Behaviours that are easy to get wrong, one case each, compared byte for byte with redis-server.

Every case runs directly on one partition and through the proxy over four, in RESP2 and RESP3, command by command and as
one pipeline. The cases are in the files behaviours_*.py; support/transcript.py describes their syntax.
"""


import behaviours_bitmaps
import behaviours_connection
import behaviours_keys
import behaviours_lists
import behaviours_protocol
import behaviours_scripting
import behaviours_values
import behaviours_zsets
from support import groups, transcript
from support.cluster import Oracle, Shared
from support.harness import Failure, Suite, check, patience
from support.resp import Closed, Connection, value

for name in groups.NAMES:
    groups.load(name)

CASES = (behaviours_values.CASES + behaviours_bitmaps.CASES + behaviours_keys.CASES + behaviours_lists.CASES +
         behaviours_scripting.CASES + behaviours_zsets.CASES + behaviours_connection.CASES)


class World(Shared):
    def __init__(self, password=None):
        super().__init__(['--requirepass', password] if password else [])
        self.extra = {'requirepass': password} if password else {}

    def wanted(self, options):
        """[(name, address)] of the targets in --target."""
        wanted = options.target.split(',')
        self.start(backends=2, partitions=2, proxies=int('proxy' in wanted), backend_options={'backend': self.extra},
                   proxy_options={'proxy': self.extra})
        return [(name, address) for name, address in self.targets().items() if name in wanted]


WORLD = World()
LOCKED = World(password='open sesame')


def options(parser):
    parser.add_argument('--target', default='direct,proxy')
    parser.add_argument('--redis', action='store_true', help='compare redis-server with itself (checks the cases)')


def targets(run, world=WORLD):
    if run.options.redis:
        with Oracle() as oracle, Oracle() as twin:
            yield 'redis', oracle.address, twin.address
        return
    for name, address in world.wanted(run.options):
        yield name, world.oracle.address, address


suite = Suite(__doc__, options)


def play_script(run, text, only):
    packets = transcript.parse(text)
    failures = []
    for name, oracle, target in targets(run):
        if only and name not in only + ['redis']:
            continue
        for proto in (2, 3):
            for way, played in (('', packets), (', pipelined', transcript.pipelined(packets))):
                try:
                    transcript.compare(played, oracle, target, proto)
                except Failure as failure:
                    failures.append('%s%s, %s' % (name, way, failure))
    if failures:
        shown = failures[:1] + [text for text in failures[1:] if text.split('\n', 1)[1] != failures[0].split('\n', 1)[1]]
        raise Failure('differs in %d variants\n     %s' % (len(failures), '\n     '.join(shown[:3])))


def add_script(title, text, only=None):
    suite.case(title)(lambda run: play_script(run, text, only))


for case in CASES:
    add_script(*case)


def raw_replies(address, data, closes):
    """The bytes an empty server replies to `data`, and whether it closed. Unless a close is expected, a last PING marks
    the end."""
    with Connection(address) as connection:
        connection.call('FLUSHALL')
    with Connection(address) as connection:
        if closes:
            connection.send_raw(data)
            return connection.read_until_closed(patience())
        connection.send_raw(data + b'PING the-end\r\n')
        answer = b''
        while not answer.endswith(b'$7\r\nthe-end\r\n'):
            more = connection.sock.recv(1 << 16)
            if not more:
                return answer, True
            answer += more
        return answer, False


def play_raw(run, data, closes):
    failures = []
    for name, oracle, target in targets(run):
        theirs = raw_replies(oracle, data, closes)
        check(theirs[1] == closes, 'the case expects closes=%s of redis-server, got %r' % (closes, theirs))
        ours = raw_replies(target, data, closes)
        if ours != theirs:
            failures.append('%s: redis %r%s, scree %r%s' % (name, theirs[0][:300], ' closed' * theirs[1],
                                                            ours[0][:300], ' closed' * ours[1]))
    if failures:
        raise Failure('\n       '.join(failures))


def add_raw(title, data, closes):
    suite.case('24 protocol: ' + title)(lambda run: play_raw(run, data, closes))


for case in behaviours_protocol.CASES:
    add_raw(*case)


@suite.case('24 protocol: a request cut at every byte is answered once')
def _(run):
    for name, _, target in targets(run):
        request = b'*3\r\n$3\r\nSET\r\n$5\r\nsplit\r\n$4\r\na\r\nb\r\n'
        for cut in range(1, len(request)):
            with Connection(target) as connection:
                connection.send_raw(request[:cut])
                with Connection(target) as other:  # its reply shows that the first part has been read
                    other.call('PING')
                connection.send_raw(request[cut:])
                check(connection.read() == ('+', b'OK'), '%s: cut at %d' % (name, cut))
                check(connection.get('GET', 'split') == b'a\r\nb', '%s: cut at %d' % (name, cut))


@suite.case('24 before AUTH only small requests are read, and replies reveal nothing')
def _(run):
    if run.options.redis:
        return
    failures = []
    for name, target in LOCKED.wanted(run.options):
        for title, data, closes in behaviours_protocol.LOCKED:
            theirs = raw_replies_locked(LOCKED.oracle.address, data, closes)
            ours = raw_replies_locked(target, data, closes)
            if ours != theirs:
                failures.append('%s, %s: redis %r, scree %r' % (name, title, theirs, ours))
    if failures:
        raise Failure('\n       '.join(failures))


def raw_replies_locked(address, data, closes):
    with Connection(address) as connection:
        connection.send_raw(data + (b'' if closes else b'AUTH "open sesame"\r\nPING the-end\r\n'))
        if closes:
            return connection.read_until_closed(patience())
        replies = []
        while not replies or replies[-1] != ('$', b'the-end'):
            try:
                replies.append(connection.read())
            except Closed:
                return replies, True
        return [reply for reply in replies if reply[0] not in '%*'], False


@suite.case('27 HRANDFIELD and RANDOMKEY are random')
def _(run):
    for name, _, target in targets(run):
        with Connection(target) as connection:
            connection.call('FLUSHALL')
            connection.call('HSET', 'h', *[word for i in range(10) for word in ('f%d' % i, i)])
            drawn = [value(reply) for reply in connection.pipeline([['HRANDFIELD', 'h']] * 3000)]
            for i in range(10):
                count = drawn.count(b'f%d' % i)
                check(200 < count < 420, '%s: field f%d drawn %d times of 3000' % (name, i, count))
            many = value(connection.call('HRANDFIELD', 'h', -1000))
            check(len(many) == 1000 and len(set(many)) == 10, '%s: HRANDFIELD -1000' % name)
            subsets = {tuple(sorted(connection.get('HRANDFIELD', 'h', 3))) for _ in range(60)}
            check(len(subsets) > 20, '%s: only %d different subsets of 3' % (name, len(subsets)))
            connection.pipeline([['SET', 'key:%d' % i, i] for i in range(20)])
            seen = {value(reply) for reply in connection.pipeline([['RANDOMKEY']] * 2000)}
            check(len(seen) == 21, '%s: RANDOMKEY gave %d of 21 keys' % (name, len(seen)))
            connection.call('FLUSHALL')


@suite.case('22 a SCAN walk finds every key that exists all the time, whatever else is written')
def _(run):
    for name, _, target in targets(run):
        with Connection(target) as connection:
            connection.call('FLUSHALL')
            stay = {b'stay:%d' % i for i in range(2000)}
            connection.pipeline([['SET', key, 1] for key in stay])
            found, cursor, turn = set(), b'0', 0
            while True:
                cursor, batch = value(connection.call('SCAN', cursor, 'COUNT', 37))
                found.update(batch)
                turn += 1
                connection.pipeline([['SET', 'new:%d:%d' % (turn, i), 1] for i in range(20)] +
                                    [['DEL', 'new:%d:%d' % (turn - 3, i)] for i in range(20)])
                if cursor == b'0':
                    break
                check(turn < 10000, '%s: the walk does not end' % name)
            check(stay <= found, '%s: %d keys were not found' % (name, len(stay - found)))
            connection.call('FLUSHALL')


@suite.case('(the servers of these cases stop cleanly)')
def _(run):
    WORLD.stop()
    LOCKED.stop()


if __name__ == '__main__':
    try:
        suite.main()
    finally:
        for world in (WORLD, LOCKED):
            if world.cluster:
                world.cluster.abandon()
                world.oracle.kill9()
