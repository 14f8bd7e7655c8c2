#!/usr/bin/python3
"""Requests whose words stand in unusual places have the reply of redis-server, errors included, through a proxy over three shards.

The proxy finds keys, timeouts and numbers of keys in the request by the functions that the handlers use (shared/command/arguments.h): it sends
parts of the request to shards, or waits for keys of several. SYMPTOMS are requests that it once read in another way than the handler;
the last case makes random ones of the words of each command.
"""

import random
import time

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, sized
from support.resp import Connection, show


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(8, long=600))
    parser.add_argument('--families', default='')


suite = Suite(__doc__, options)

COUNTS = '1 2 3 0 -1 2x 01 9'
KEYS = 'A B C D'
# name: (requests that make the keys, forms, words)
FAMILIES = {
    'streams': ('XADD A 1-1 f v|XADD B 2-1 f v|XADD C 3-1 f v|XGROUP CREATE A g 0|XGROUP CREATE B g 0|XGROUP CREATE C g 0|'
                'XGROUP CREATE A STREAMS 0|XGROUP CREATE A BLOCK 0|XGROUP CREATE BLOCK g 0 MKSTREAM|XGROUP CREATE STREAMS g 0 MKSTREAM',
                'XREAD STREAMS A 0|XREAD STREAMS A B 0 0|XREAD COUNT 1 BLOCK 5 STREAMS A C 0 9|XREAD BLOCK 1 STREAMS A B $ $|'
                'XREADGROUP GROUP g c STREAMS A B > >|XREADGROUP GROUP g c COUNT 1 NOACK STREAMS A C 0 0|XREADGROUP GROUP g c BLOCK 1 STREAMS A B > >',
                KEYS + ' STREAMS BLOCK COUNT GROUP NOACK g c 0 1 5 $ > 0-0 x -1 9-9'),
    'sort': ('RPUSH A 3 1 2|RPUSH B 5 4|SADD C 7 8|SET w_1 3|SET w_2 2|SET w_3 1|RPUSH STORE 1|RPUSH BY 2 1',
             'SORT A|SORT A STORE D|SORT A BY w_* GET # GET w_*|SORT A LIMIT 0 2 DESC ALPHA STORE B|SORT_RO A BY nosort|SORT C ALPHA',
             KEYS + ' STORE BY GET LIMIT ASC DESC ALPHA w_* # nosort 0 1 x'),
    'geo': ('GEOADD A 13.3 38.1 p 15.0 37.5 c|GEOADD B 13 38 p|SET C v|GEOADD STORE 1 1 p',
            'GEORADIUS A 15 37 200 km ASC|GEORADIUS A 15 37 200 km STORE D|GEORADIUSBYMEMBER A p 200 km STOREDIST D|'
            'GEORADIUS A 15 37 200 km COUNT 1 ANY STORE B|GEORADIUS_RO A 15 37 200 km ASC|GEORADIUSBYMEMBER_RO A p 200 km ASC|'
            'GEOSEARCH A FROMMEMBER p BYRADIUS 200 km ASC|GEOSEARCHSTORE D A FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST|'
            'GEOADD A NX CH 1 2 x 3 4 y',
            KEYS + ' STORE STOREDIST COUNT ANY ASC DESC WITHCOORD WITHDIST FROMMEMBER p 1 2 km BYRADIUS x NX CH'),
    'zsets': ('ZADD A 1 a 2 b|ZADD B 2 b 3 c|ZADD C 4 d|ZADD MIN 1 a|ZADD COUNT 5 a|SADD D a b',
              'ZUNION 2 A B|ZUNION 2 A B WEIGHTS 1 2 AGGREGATE MAX WITHSCORES|ZINTER 2 A B WITHSCORES|ZDIFF 2 A B|ZINTERCARD 2 A B LIMIT 1|'
              'ZUNIONSTORE D 2 A B|ZINTERSTORE D 2 A B WEIGHTS 1 2|ZDIFFSTORE C 2 A B|ZMPOP 2 A B MIN|ZMPOP 1 A MAX COUNT 2|'
              'BZMPOP 0.01 2 A B MIN COUNT 1|BZMPOP 0.01 2 X1 X2 MIN|BZPOPMIN A B 0.01|BZPOPMAX X1 X2 0.01|ZRANGESTORE D A 0 -1|'
              'ZADD A NX 1 x 2 y|ZADD A GT CH 1 x|ZADD A INCR 1 x|ZADD NX XX 1 a|ZADD INCR CH 1 a',
              KEYS + ' X1 WEIGHTS AGGREGATE SUM MIN MAX WITHSCORES LIMIT COUNT NX XX GT LT CH INCR a b 0.01 x ' + COUNTS),
    'lists': ('RPUSH A 1 2 3|RPUSH B 4 5|RPUSH LEFT 6|RPUSH COUNT 7|RPUSH RIGHT 8',
              'LMPOP 2 A B LEFT|LMPOP 2 A B RIGHT COUNT 2|BLMPOP 0.01 2 A B LEFT|BLMPOP 0.01 2 X1 X2 LEFT|BLMPOP 0.01 3 X1 A B LEFT COUNT 1|'
              'BLPOP A B 0.01|BRPOP X1 X2 0.01|BLMOVE X1 A LEFT LEFT 0.01|BLMOVE A B LEFT RIGHT 0.01|BRPOPLPUSH X1 B 0.01|LMOVE A B LEFT RIGHT',
              KEYS + ' X1 LEFT RIGHT COUNT 0.01 x ' + COUNTS),
    'sets': ('SADD A 1 2 3|SADD B 2 3|SADD C 3 4|SADD LIMIT 1',
             'SINTERCARD 2 A B|SINTERCARD 2 A B LIMIT 1|SUNIONSTORE D A B|SMOVE A B 1|SDIFF A B C',
             KEYS + ' LIMIT x ' + COUNTS),
    'strings': ('SET A 1|SET B 2|RPUSH C 1|SET EX 3|SET GET 4',
                'SET A v|SET A v GET|SET A v EX 9 NX|SET A v PX 9000 GET XX|SET A v KEEPTTL|GETEX A EX 9|GETEX A PERSIST|MSET A 1 B 2|MSETNX D 1 B 2|'
                'MGET A B C|DEL A B D|EXISTS A B A|BITFIELD A GET u8 0|BITFIELD A OVERFLOW SAT SET u8 0 1 INCRBY u8 0 1|BITFIELD_RO A GET u8 0|'
                'BITOP AND D A B|BITOP NOT D A|LCS A B IDX|LCS A B LEN|COPY A D REPLACE|COPY A B DB 1|RENAME A D|PFADD D a|PFCOUNT D|TOUCH A B|UNLINK A B',
                KEYS + ' EX PX NX XX GET KEEPTTL PERSIST OVERFLOW SAT FAIL SET u8 INCRBY IDX LEN REPLACE DB AND NOT 0 1 9 x'),
    'scripts': ('SET A 1|SET B 2|SET C 3',
                'EVAL return{#KEYS,#ARGV} 1 A B|EVAL return{#KEYS,#ARGV} 2 A B|EVAL return(redis.call("GET",KEYS[1])) 1 A|'
                'EVAL_RO return{#KEYS,#ARGV} 2 A B C|EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 A|FCALL none 1 A|EVAL return{KEYS,ARGV} 0 A B',
                KEYS + ' x ' + COUNTS),
}


# (family that makes the keys, request)
SYMPTOMS = [
    ('lists', 'BLMPOP 0.01 2 A LEFT'), ('lists', 'BLMPOP 0.01 2 B LEFT'), ('lists', 'BLMPOP 0.01 3 X1 B LEFT'), ('lists', 'LMPOP 2 A LEFT'),
    ('zsets', 'BZMPOP 0.01 2 A MIN'), ('zsets', 'BZMPOP 0.01 2 B MIN'), ('zsets', 'ZMPOP 2 A MIN'),
    ('sort', 'SORT A BY nosort GET #'), ('sort', 'SORT A BY nosort GET # STORE C'), ('sort', 'SORT A STORE BY STORE D'), ('sort', 'SORT B GET nosort'),
    ('strings', 'BITFIELD A OVERFLOW'), ('strings', 'BITFIELD A GET u8'), ('strings', 'BITFIELD A OVERFLOW SAT'), ('strings', 'SET A v EX GET'),
    ('strings', 'SET A v GET EX'), ('strings', 'SET A v NX NX GET'),
]


class Both:
    """Sends each request to redis-server and to the proxy. A request that waits is ended by CLIENT UNBLOCK at both."""

    def __init__(self, oracle, cluster):
        addresses = [oracle.address, cluster.proxies[0].address]
        self.clients = [Connection(address) for address in addresses]
        self.others = [Connection(address) for address in addresses]
        self.ids = [client.get('CLIENT', 'ID') for client in self.clients]
        places = {'A': 0, 'B': 1, 'C': 2, 'D': 0, 'X1': 0, 'X2': 1}
        self.keys = {name: cluster.key_on(shard, name.lower()) for name, shard in places.items()}

    def call(self, words):
        for client in self.clients:
            client.send(*(self.keys.get(word, word) for word in words))
        return [self.read(*side) for side in zip(self.clients, self.others, self.ids)]

    def read(self, client, other, number):
        while True:
            try:
                return client.read(timeout=0.3)
            except OSError:
                other.call('CLIENT', 'UNBLOCK', number)

    def begin(self, family):
        """Makes the keys of the family anew."""
        self.call(['FLUSHALL'])
        for line in FAMILIES[family][0].split('|'):
            replies = self.call(line.split())
            check(replies[0] == replies[1], line)


@suite.case('requests that proxy and handler once read in different ways')
def _(run):
    with Oracle() as oracle, Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        both = Both(oracle, cluster)
        for family, line in SYMPTOMS:
            both.begin(family)
            replies = [show(reply) for reply in both.call(line.split())]
            check(replies[0] == replies[1], '%s\n     redis: %s\n     scree: %s' % (line, *replies))


def long_lived(before, word):
    """No key may expire at one server while the other still has it."""
    return '9000' if before in ('EX', 'PX') and word in ('1', '9') else word


def changed(rng, words, pool):
    words = list(words)
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        at, kind = rng.randrange(1, len(words) + 1), rng.random()
        if kind < 0.35:
            words[at:at] = [rng.choice(pool) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        elif kind < 0.6 and at < len(words):
            words[at] = rng.choice(pool)
        elif kind < 0.75:
            begin = rng.randrange(1, len(words) + 1)
            words[at:at] = words[begin:begin + rng.randrange(1, 4)]
        elif kind < 0.85 and at < len(words):
            other = rng.randrange(1, len(words))
            words[at], words[other] = words[other], words[at]
        elif at < len(words):
            del words[at:at + rng.randrange(1, 3)]
    return words[:1] + [long_lived(*pair) for pair in zip(words, words[1:])]


@suite.case('random words of the command in random places: each reply is that of redis-server')
def _(run):
    rng = random.Random(run.seed)
    names = run.options.families.split(',') if run.options.families else list(FAMILIES)
    with Oracle() as oracle, Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        both = Both(oracle, cluster)
        end, count, wrong = time.monotonic() + run.options.seconds, 0, {}
        while time.monotonic() < end:
            name = rng.choice(names)
            _, forms, pool = FAMILIES[name]
            forms, pool = [form.split() for form in forms.split('|')], pool.split()
            both.begin(name)
            for _ in range(25):
                words = changed(rng, rng.choice(forms), pool)
                replies = both.call(words)
                count += 1
                if replies[0] != replies[1] and not (name == 'scripts' and 'rror running' in show(replies[0])):
                    kind = (words[0], show(replies[0])[:30], show(replies[1])[:30])
                    if kind not in wrong or len(wrong[kind][0]) > len(words):
                        wrong[kind] = words, show(replies[0], 200), show(replies[1], 200)
                    break
        run.note('%d requests' % count)
        check(not wrong, '\n'.join('%s\n   redis: %s\n   scree: %s' % (' '.join(words), *shown) for words, *shown in wrong.values()))


if __name__ == '__main__':
    suite.main()
