#!/usr/bin/python3
"""CLIENT TRACKING: every connection gets the frames it gets from redis-server, and no cached copy stays wrong."""

from support.cluster import Cluster
from support.duel import Duel, add_script
from support.harness import Failure, Suite, check, check_equal, wait_for
from support.resp import Connection, value

suite = Suite(__doc__)

SCRIPTS = {
    'a key that was read is invalidated once': '''
a: HELLO 3
a: CLIENT TRACKING ON
a: GET k
w: SET k v
w: SET k v
a: MGET k l m
a: HGET h f
a: STRLEN k
w: MSET k 1 l 2 n 3
w: HSET h f v
w: HSET h f v
a: GET k
w: DEL k
w: DEL k
a: GET k
a: SET k own
a: GET k
a: GET k
a: INCR n
w: INCR n
a: EXISTS n k
w: EXPIRE n 100
w: PERSIST k
w: RENAME n k
a: GET k
a: GET n
w: COPY k n
w: SELECT 1
a: GET k
w: SET k v
a: TYPE k
a: TTL k
w: APPEND k x
a: MULTI
a: GET k
a: SET k mine
a: GET k
a: SET k mine
a: EXEC
w: SET k v
a: GET k
w: FLUSHALL
w: SET k v
a: GET k
w: FLUSHDB
a: GET k
a: FLUSHALL
a: FLUSHDB
a: CLIENT TRACKING OFF
a: GET k
w: SET k v
a: GET nosuch extra
a: CLIENT TRACKING ON
a: LPUSH k x
a: HGET k f
w: SET k v
a: GET k
a: RESET
w: SET k v
a: GET k
''',
    'a redirection: the other client changes its protocol': '''
b: PING
a: CLIENT TRACKING ON REDIRECT {id:b}
b: HELLO 3
a: GET k
w: SET k v
a: GET k
a: GET k2
a: GET k3
w: MSET k 1 k2 2 k3 3
a: GET k
b: HELLO 2
w: SET k v
a: GET k
b: SUBSCRIBE __redis__:invalidate
w: SET k v
a: GET k
b: HELLO 3
w: SET k v
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON BCAST REDIRECT {id:b}
w: SET k v
a: SET k v
a: HELLO 3
w: SET k v
b: HELLO 2
w: SET k v
b: UNSUBSCRIBE
w: SET k v
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON REDIRECT {id:b}
a: GET k
w: SET k v
b: HELLO 3
a: GET k
w: SET k v
a: GET k
b: QUIT
w: SET k v
a: PING
a: CLIENT TRACKINGINFO
''',
    'a script: keys it has declared are tracked when it calls a command that reads': '''
a: HELLO 3
a: CLIENT TRACKING ON
w: MSET k 1 k2{k} 2
a: EVAL return(redis.call('get',KEYS[1])) 2 k k2{k}
w: SET k2{k} 5
w: SET k 5
a: EVAL return(1) 1 k
w: SET k 5
a: EVAL return(redis.call('set',KEYS[1],1)) 1 k
w: SET k 5
a: EVAL redis.call('get',KEYS[1]);return(redis.call('set',KEYS[1],1)) 1 k
w: SET k 5
a: EVAL return(redis.pcall('hget',KEYS[1],'f')) 1 k
w: SET k 5
a: EVAL return(redis.pcall('get')) 1 k
w: SET k 5
a: EVAL_RO return(redis.call('get',KEYS[1])) 1 k
w: SET k 5
a: EVALSHA c77382aa965ed715a9230ae8a1d2409e254c2b00 1 k
w: SET k 5
a: MULTI
a: EVAL return(redis.call('get',KEYS[1])) 1 k
a: EXEC
w: SET k 5
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON OPTIN
a: EVAL return(redis.call('get',KEYS[1])) 1 k
w: SET k 5
a: CLIENT CACHING YES | EVAL return(redis.call('get',KEYS[1])) 1 k | PING
w: SET k 5
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON OPTOUT
a: CLIENT CACHING NO | EVAL return(redis.call('get',KEYS[1])) 1 k | PING
w: SET k 5
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON NOLOOP
a: EVAL return(redis.call('get',KEYS[1])) 1 k | SET k 6
w: SET k 5
''',
    'an EXEC that reads and changes a key: the last of both counts': '''
a: HELLO 3
a: CLIENT TRACKING ON
a: MULTI
a: SET k 1
a: GET k
a: EXEC
w: SET k 5
w: SET k 6
a: MULTI
a: GET k
a: SET k 1
a: EXEC
w: SET k 5
a: MULTI
a: GET k
a: FLUSHALL
a: GET k
a: EXEC
w: SET k 5
a: EVAL redis.call('set',KEYS[1],1);return(redis.call('get',KEYS[1])) 1 k
w: SET k 5
''',
    'a redirection: RESP2 subscribers and RESP3': '''
b: SUBSCRIBE __redis__:invalidate
a: CLIENT TRACKING ON REDIRECT {id:b}
a: CLIENT GETREDIR
a: CLIENT TRACKINGINFO
a: GET k
w: SET k v
a: GET k
w: FLUSHALL
a: GET k
a: SET k v
a: HELLO 3
a: GET k
w: FLUSHALL
a: GET k
b: UNSUBSCRIBE
w: SET k v
a: GET k
b: HELLO 3
w: SET k v
a: GET k
b: SET k v
a: GET k
w: FLUSHALL
a: HELLO 2
a: GET k
w: FLUSHALL
a: GET k
b: QUIT
a: CLIENT TRACKINGINFO
w: SET k v
a: CLIENT TRACKINGINFO
a: HELLO 3
a: GET k
w: SET k v
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING OFF
a: CLIENT TRACKINGINFO
a: CLIENT GETREDIR
''',
    'OPTIN and OPTOUT': '''
a: HELLO 3
a: CLIENT TRACKING ON OPTIN
a: GET k
w: SET k v
a: CLIENT CACHING YES
a: CLIENT TRACKINGINFO
a: GET k
a: CLIENT TRACKINGINFO
w: SET k v
a: CLIENT CACHING YES | GET k | GET l
w: MSET k v l v
a: CLIENT CACHING YES | MULTI | GET k | GET l | EXEC | GET m
w: MSET k v l v m v
a: CLIENT CACHING NO
a: CLIENT TRACKING ON OPTOUT
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON OPTOUT
a: CLIENT CACHING YES
a: CLIENT CACHING NO | GET k
w: SET k v
a: GET k
w: SET k v
a: CLIENT CACHING NO
a: CLIENT TRACKINGINFO
a: CLIENT CACHING maybe
''',
    'NOLOOP': '''
a: HELLO 3
a: CLIENT TRACKING ON NOLOOP
a: GET k
a: SET k v
w: SET k v
a: GET k
w: SET k v
a: FLUSHALL
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON BCAST NOLOOP
a: SET k v
w: SET k v
w: SET k v | SET l v
a: CLIENT TRACKINGINFO
''',
    'BCAST: prefixes, one message a turn': '''
a: HELLO 3
a: CLIENT TRACKING ON BCAST PREFIX b PREFIX a
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON BCAST PREFIX c
a: CLIENT TRACKING ON BCAST PREFIX ab
a: CLIENT TRACKING ON BCAST PREFIX d PREFIX dd
a: CLIENT TRACKING ON BCAST PREFIX
a: CLIENT TRACKINGINFO
b: HELLO 3
b: CLIENT TRACKING ON BCAST
w: MSET b 1 a2 1 a1 1 z 1
a: MSET b 1 a2 1 a1 1 z 1
a: GET z
w: MULTI
w: SET a1 x
w: SET c1 x
w: DEL a1
w: EXEC
w: SET a x | SET b x | SET a x
w: FLUSHALL
b: CLIENT TRACKING OFF
b: CLIENT TRACKING ON
b: GET a1
w: SET a1 x
a: CLIENT TRACKING OFF
w: SET a1 x
''',
    'BCAST with a redirection': '''
b: SUBSCRIBE __redis__:invalidate other
a: CLIENT TRACKING ON BCAST PREFIX k REDIRECT {id:b}
w: SET k v
w: MSET k2 v k1 v z v
w: PUBLISH __redis__:invalidate hi
w: FLUSHALL
''',
    'invalid arguments are refused as in Redis': '''
a: CLIENT TRACKING
a: CLIENT TRACKING MAYBE
a: CLIENT TRACKING ON NOSUCH
a: CLIENT TRACKING ON REDIRECT
a: CLIENT TRACKING ON REDIRECT x
a: CLIENT TRACKING ON REDIRECT 99999
a: CLIENT TRACKING ON REDIRECT 0
a: CLIENT TRACKING ON REDIRECT {id:b} REDIRECT {id:b}
a: CLIENT TRACKING ON PREFIX x
a: CLIENT TRACKING ON BCAST OPTIN
a: CLIENT TRACKING ON BCAST OPTOUT
a: CLIENT TRACKING ON OPTIN OPTOUT
a: CLIENT TRACKING ON BCAST PREFIX a PREFIX a
a: CLIENT TRACKING OFF NOSUCH
a: CLIENT TRACKING OFF
a: CLIENT CACHING
a: CLIENT CACHING YES
a: CLIENT GETREDIR
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON
a: CLIENT CACHING YES
a: CLIENT CACHING NO
a: CLIENT CACHING x
a: CLIENT TRACKING ON BCAST
a: CLIENT TRACKING ON OPTIN
a: CLIENT TRACKING ON OPTOUT
a: CLIENT TRACKING ON BCAST OPTIN
''',
}


def random_prefixes(rng):
    """Two clients with random prefixes of two letters, many of which overlap, and turns in which keys of them change. Where a prefix overlaps
    with a later one of its command, and is not the first, Redis replies twice, an error and OK: such commands are left out."""
    def word():
        return ''.join(rng.choice('ab') for _ in range(rng.randrange(1, 8)))

    def some_words():
        words = [word() for _ in range(rng.choice((1, 1, 2, 3, 8)))]
        others = [(a, b) for i, a in enumerate(words[1:]) for b in words[i + 2:]]
        return some_words() if any(a.startswith(b) or b.startswith(a) for a, b in others) else words
    lines = ['a: HELLO 3', 'b: HELLO 3']
    for turn in range(120):
        client = rng.choice('ab')
        if turn % 12 == 0:
            lines.append('%s: CLIENT TRACKING OFF' % client)
        noloop = 'NOLOOP ' if client == 'b' else ''
        prefixes = ' '.join('PREFIX ' + name for name in some_words())
        lines += ['%s: CLIENT TRACKING ON BCAST %s%s' % (client, noloop, prefixes),
                  '%s: MSET %s' % (rng.choice('abw'), ' '.join('%s 1' % word() for _ in range(rng.randrange(1, 40))))]
    return '\n'.join(lines + ['a: CLIENT TRACKINGINFO', 'b: CLIENT TRACKINGINFO'])


@suite.case('BCAST with random prefixes: overlaps are refused, and messages and keys are in order, as in Redis')
def _(run):
    with Duel() as duel:
        duel.script(random_prefixes(run.rng))


@suite.case('10 000 prefixes and 2000 keys that change in one turn: a message for each prefix, in order')
def _(run):
    prefixes = ['p%d:' % i for i in range(10000)]
    keys = ['p%d:%d' % (run.rng.randrange(10500), i) for i in range(2000)]
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, cluster.connect(proto=3) as client:
        client.call('CLIENT', 'TRACKING', 'ON', 'BCAST', *(word for prefix in prefixes for word in ('PREFIX', prefix)))
        cluster.connect().call('MSET', *(word for key in keys for word in (key, '1')))
        wanted = {}
        for key in sorted(keys):
            wanted.setdefault(key.partition(':')[0] + ':', []).append(key.encode())
        for prefix in sorted(set(wanted).intersection(prefixes)):
            check_equal(value(client.read()), [b'invalidate', wanted[prefix]])


@suite.case('prefixes of more than 256 lengths are refused with a clear error')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, cluster.connect(proto=3) as client:
        def follow(lengths):
            words = ['%d:%s' % (length, 'x' * length) for length in lengths]
            return client.get('CLIENT', 'TRACKING', 'ON', 'BCAST', *(word for name in words for word in ('PREFIX', name)))
        check_equal(follow(range(10, 200)), b'OK')
        check_equal(str(follow(range(200, 300))), 'ERR the prefixes of all clients may have 256 different lengths at most')
        check_equal(follow(range(200, 250)), b'OK')
        client.get('CLIENT', 'TRACKING', 'OFF')
        check_equal(follow(range(200, 300)), b'OK', 'lengths are free again')


@suite.case('through a proxy over three shards: scripts and redirections get the frames of redis-server')
def _(run):
    for title in ('a redirection: the other client changes its protocol',
                  'a script: keys it has declared are tracked when it calls a command that reads'):
        with Duel(shards=3) as duel:
            duel.script(SCRIPTS[title])


@suite.case('a script: keys that it reads without declaring them are tracked too')
def _(run):
    with Cluster(backends=1, partitions=2) as cluster, cluster.connect(proto=3) as client, cluster.connect() as other:
        declared, read = '{%s}1' % cluster.key_on(1), '{%s}2' % cluster.key_on(1)
        client.call('CLIENT', 'TRACKING', 'ON')
        client.call('EVAL', 'return redis.call("get", ARGV[1])', '1', declared, read)
        other.call('SET', read, 'v')
        check_equal(client.read(), ('>', [('$', b'invalidate'), ('*', [('$', read.encode())])]), 'the first')
        other.call('SET', declared, 'v')
        check_equal(client.read(), ('>', [('$', b'invalidate'), ('*', [('$', declared.encode())])]), 'the second')


@suite.case('HELLO 2 and HELLO 3 of a client that redirects: the target gets every invalidation')
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as writer:
        for options in ([], ['OPTIN'], ['BCAST', 'PREFIX', 'k', 'PREFIX', 'l']):
            with cluster.connect(proto=3) as client, cluster.connect() as target:
                number = target.get('CLIENT', 'ID')
                target.call('SUBSCRIBE', '__redis__:invalidate')

                def read_key(key):
                    if 'OPTIN' in options:
                        client.call('CLIENT', 'CACHING', 'YES')
                    client.call('GET', key)

                def told(*keys):
                    told = set()
                    while not told >= set(keys):
                        _, message = target.read()
                        told |= {key for _, key in message[2][1] or []}
                check_equal(client.call('CLIENT', 'TRACKING', 'ON', 'REDIRECT', number, *options), ('+', b'OK'))
                keys = [b'k%d' % i for i in range(9)]
                for key in keys:
                    read_key(key)
                for protocol, kind in (('2', '*'), ('3', '%'), ('2', '*')):
                    client.send_many([('HELLO', protocol), ('GET', 'k0')])
                    check_equal((client.read()[0], client.read()[0] in '$_'), (kind, True), protocol)
                    for key in keys:
                        writer.call('SET', key, protocol)
                    told(*keys)
                    for key in keys:
                        read_key(key)
                check_equal(client.get('CLIENT', 'GETREDIR'), number)


for title, text in SCRIPTS.items():
    add_script(suite, title, text)
    add_script(suite, title, text, shards=1)


READ_BOTH = 'return {redis.call("get", KEYS[1]), redis.call("get", ARGV[1])}'


class Cache:
    """A client that caches values it has read, and drops them at invalidations."""

    def __init__(self, address, options, fence=()):
        """`fence`: commands whose replies come after all earlier invalidations."""
        self.fence = [list(words) for words in fence]
        self.connection = Connection(address, proto=3)
        check_equal(self.connection.get('CLIENT', 'TRACKING', 'ON', *options), b'OK')
        self.copies, self.expected, self.told = {}, [], 0

    def send(self, commands):
        self.connection.send_many(commands)
        self.expected += commands

    def read_all(self):
        """Reads all replies, and the invalidations up to the reply to a PING."""
        self.send(self.fence + [['PING', 'all read']])
        while self.expected:
            frame = self.connection.read()
            if frame[0] == '>':
                self.told += 1
                keys = value(frame)[1]
                self.copies = {} if keys is None else {key: text for key, text in self.copies.items() if key not in keys}
                continue
            command = self.expected.pop(0)
            if command[0] == 'GET' and frame != ('+', b'QUEUED'):
                self.copies[command[1].encode()] = value(frame)
            elif command[0] in ('EVAL', 'EXEC', 'MGET') and frame[0] != '-':
                texts = dict(zip(command.keys, value(frame)))
                if command[0] == 'MGET':  # null for a key of another type
                    texts = {key: text for key, text in texts.items() if text is not None}
                self.copies.update(texts)


class Command(list):
    """The words of a command that reads these keys, and replies their values."""

    def __init__(self, keys, *words):
        super().__init__(words)
        self.keys = [key.encode() for key in keys]


def random_read(rng, has_several):
    """Commands that read a key, or several."""
    keys = rng.sample(['k%d' % i for i in range(10, 30)], 2)
    dice = rng.random() if has_several else 0
    if dice < 0.4:
        return [['GET', keys[0]]]
    if dice < 0.6:
        return [Command(keys, 'EVAL', READ_BOTH, 1, *keys)]
    if dice < 0.8:
        return [['MULTI'], ['GET', keys[0]], ['GET', keys[1]], Command(keys, 'EXEC')]
    return [Command(keys, 'MGET', *keys)]


def random_write(rng):
    key, other = ('k%d' % rng.randrange(30) for _ in range(2))
    return rng.choice([['SET', key, rng.random()], ['SET', key, 'v', 'PX', rng.choice([1, 50, 100000])], ['DEL', key, other],
                       ['INCR', key], ['APPEND', key, 'x'], ['RENAME', key, other], ['COPY', key, other, 'REPLACE'],
                       ['MSET', key, 1, other, rng.random()], ['LPUSH', key, 'x'], ['HSET', key, 'f', 'v'],
                       ['GETEX', key, 'PX', 1], ['EXPIRE', key, -1], ['SETRANGE', key, 1, 'zz']]
                      + [['FLUSHDB']] * (rng.random() < 0.05))


def play_randomly(run, address, fence=(), has_several=False):
    with Connection(address) as writer:
        writer.call('CONFIG', 'SET', 'tracking-table-max-keys', 20)
        caches = [Cache(address, options, fence)
                  for options in ([], [], ['BCAST'], ['BCAST', 'PREFIX', 'k1', 'PREFIX', 'k2'])]
        copies = 0
        for turn in range(150):
            for cache in caches:
                own = [random_read(run.rng, has_several) for _ in range(run.rng.randrange(6))]
                own += [[random_write(run.rng)] for _ in range(run.rng.randrange(3))]
                run.rng.shuffle(own)
                cache.send([command for commands in own for command in commands])
            commands = [random_write(run.rng) for _ in range(run.rng.randrange(1, 8))]
            if run.rng.random() < 0.3:
                commands = [['MULTI']] + commands + [['EXEC']]
            writer.pipeline(commands)
            for _ in range(2):
                for cache in caches:
                    cache.read_all()
                # a transaction is acknowledged before all shards have applied it; reads wait until they have
                writer.call('EXISTS', *('k%d' % i for i in range(30)))
            copies += check_copies(writer, caches, turn, 60 if fence else 0)
        run.note('%d copies compared, %d messages' % (copies, sum(cache.told for cache in caches)))
        for cache in caches:
            cache.connection.close()


@suite.case("random reads and writes: after every round each cached copy equals the server's value")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        play_randomly(run, cluster.backends[0].addresses[0])


@suite.case("random reads and writes through a proxy over three shards: each cached copy equals the server's value")
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        play_randomly(run, cluster.proxies[0].address,
                      [['DEL', 'fence{%s}' % cluster.key_on(shard)] for shard in range(3)])


@suite.case("random reads and writes of several keys on three shards: each cached copy equals the server's value")
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        play_randomly(run, cluster.proxies[0].address,
                      [['DEL', 'fence{%s}' % cluster.key_on(shard)] for shard in range(3)], has_several=True)


@suite.case('transactions over shards: clients are told of changed keys as their options of CLIENT TRACKING say')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        keys = [cluster.key_on(shard) for shard in range(3)]
        for options in ([], ['OPTIN'], ['OPTOUT'], ['BCAST'], ['BCAST', 'NOLOOP']):
            with cluster.connect(proto=3) as client, cluster.connect() as other:
                told = set()

                def is_told(wanted):
                    client.send('PING')
                    while (frame := client.read()) != ('+', b'PONG'):
                        if frame[0] == '>':
                            told.update(value(frame)[1])
                    return told >= wanted
                client.call('CLIENT', 'TRACKING', 'ON', *options)
                client.send_many([['MULTI'], *(['GET', key] for key in keys), ['EXEC'], ['SUNION', *keys]])
                is_told(set())
                wanted = {key.encode() for key in keys} if options != ['OPTIN'] else set()
                other.call('EVAL', 'for i = 1, 3 do redis.call("sadd", KEYS[i], ARGV[1]) end', 3, *keys, str(options))
                wait_for(lambda: is_told(wanted), 'invalidations with %s' % options)
                check(wanted or not told, 'with %s the client was told %s' % (options, told))


@suite.case('through a proxy: tracking clients are invalidated completely when a shard is lost or the map changes')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 2}}) as cluster:
        address = cluster.proxies[0].address
        keys = [cluster.key_on(shard) for shard in range(3)]
        forget = ('>', [('$', b'invalidate'), ('_', b'')])
        def told(client, shard):
            return ('>', [('$', b'invalidate'), ('*', [('$', keys[shard].encode())])])
        with Connection(address, proto=3) as plain, Connection(address, proto=3) as bcast, Connection(address) as writer, \
                Connection(address) as invalidated, Connection(address) as old:
            check_equal(plain.get('CLIENT', 'TRACKING', 'ON'), b'OK')
            check_equal(bcast.get('CLIENT', 'TRACKING', 'ON', 'BCAST'), b'OK')
            invalidated.call('SUBSCRIBE', '__redis__:invalidate')
            check_equal(old.get('CLIENT', 'TRACKING', 'ON', 'REDIRECT', next(
                int(line.split()[0][3:]) for line in writer.get('CLIENT', 'LIST').decode().split('\n') if ' sub=1 ' in line)), b'OK')
            for shard, key in enumerate(keys):
                for client in (plain, old):
                    check_equal(client.get('GET', key), None)
                writer.call('SET', key, 1)
                check_equal(plain.read(), told(plain, shard))
                check_equal(bcast.read(), told(bcast, shard))
                check_equal(value(invalidated.read()), [b'message', b'__redis__:invalidate', [key.encode()]])
            cluster.backends[1].kill9()
            for client in (plain, bcast):
                check_equal(client.read(), forget)
            check(plain.call('GET', keys[1])[0] == '-' and plain.call('PING') == ('+', b'PONG'), 'told twice')
            check_equal(value(plain.call('GET', keys[0])), b'1')  # other shards keep working
            # its invalidation connection is lost: the client cannot be informed in another way
            old.read_until_closed(20)
            cluster.backends[1].start()
            wait_for(lambda: plain.call('GET', keys[1]) == ('$', b'1'), 'the shard to be back')
            wait_for(lambda: writer.call('SET', keys[1], 2) == ('+', b'OK'), 'the shard to take writes')
            check_equal(plain.read(), told(plain, 1))
            def bcast_hears():
                writer.call('SET', keys[1], 3)
                bcast.send('PING', 'x')
                frames = [bcast.read()]
                while frames[-1] != ('$', b'x'):
                    frames.append(bcast.read())
                return told(bcast, 1) in frames
            wait_for(bcast_hears, 'the dedicated connection of BCAST to be back')
            cluster.slots = [cluster.slots[1], cluster.slots[2], cluster.slots[0]]
            cluster.write_shards()
            check_equal(plain.read(), forget)
            check_equal(plain.get('CLIENT', 'TRACKING', 'OFF'), b'OK')
            check_equal(plain.get('GET', keys[2]) in (None, b'1'), True)


def check_copies(writer, caches, turn, limit):
    """Waits so many seconds until all copies are equal: a proxy may send an invalidation later than the reply of the command that caused it."""
    wrong = []

    def are_equal():
        wrong[:] = wrong_copies(writer, caches)
        return not wrong
    try:
        wait_for(are_equal, 'equal copies', limit)
    except Failure as failure:
        raise Failure('turn %d: %s: %s' % (turn, failure, wrong[0])) from None
    return sum(len(cache.copies) for cache in caches)


def wrong_copies(writer, caches):
    """A copy may outlive its key's TTL until the server notices the expiry, which the read causes."""
    keys = sorted({key for cache in caches for key in cache.copies})
    texts = dict(zip(keys, [value(reply) for reply in writer.pipeline([['GET', key] for key in keys])])) if keys else {}
    for cache in caches:
        cache.read_all()
        cache.read_all()  # a proxy may send an invalidation only after all requests in progress
    return ['%r is %r, copy %d says %r' % (key, texts[key], number, text) for number, cache in enumerate(caches)
            for key, text in cache.copies.items() if type(text) is not type(texts[key]) or text != texts[key]]


@suite.case('the tracking table is bounded: the oldest key is invalidated and dropped')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        address = cluster.backends[0].addresses[0]
        with Connection(address, proto=3) as client:
            client.call('CONFIG', 'SET', 'tracking-table-max-keys', 10)
            client.call('CLIENT', 'TRACKING', 'ON')
            client.send_many([['GET', 'k%d' % i] for i in range(15)] + [['PING', 'end']])
            told = []
            while True:
                frame = client.read()
                if frame == ('$', b'end'):
                    break
                told += value(frame)[1] if frame[0] == '>' else []
            check_equal(told, [b'k%d' % i for i in range(5)])
            info = client.get('INFO', 'stats')
            check(b'tracking_total_keys:10\r\ntracking_total_items:10\r\n' in info, 'INFO: %r' % info)


@suite.case('CONFIG SET of tracking-table-max-keys invalidates at once what is above the new limit, also through a proxy at all shards')
def _(run):
    def play(cluster, address):
        with Connection(address, proto=3) as client, Connection(address) as admin:
            client.call('CLIENT', 'TRACKING', 'ON')
            keys = [cluster.key_on(shard, 'k%d' % i) for i in range(4) for shard in range(len(cluster.backends))]
            for key in keys:
                client.call('GET', key)
            check_equal(admin.get('CONFIG', 'SET', 'tracking-table-max-keys', 1), b'OK')
            told = [value(client.read())[1][0].decode() for _ in keys[len(cluster.backends):]]
            check_equal(sorted(told), sorted(keys[:-len(cluster.backends)]))
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        play(cluster, cluster.backends[0].addresses[0])
    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        play(cluster, cluster.proxies[0].address)


if __name__ == '__main__':
    suite.main()
