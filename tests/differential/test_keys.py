#!/usr/bin/python3
"""The key rules find the keys that a command opens, and their flags say whether it changes them.

ACL rules and the proxy's routing use the key rules (shared/command/keys.h). scree-backend-keys is a backend that compares each
key that a command opens with the rules' keys (tests/spy/keys_opened.c). It gets the random commands of the groups, also
with words doubled, exchanged and inserted; in transactions, so that none blocks.
"""

import random
import re
import time

from support import harness
from support.cluster import Cluster, binary
from support.harness import Suite, check, check_equal, sized
from support.stream import Carry, Context, Grammar
from support.transcript import Step

GROUPS = 'strings,bitmaps,hll,hashes,lists,zsets,geo,keys,sets,sorting,streams,scripting'
DOUBLED = ['STORE', 'STOREDIST', 'STREAMS', 'KEYS', 'COUNT', 'GET', 'BY', 'LIMIT', 'GROUP', 'BLOCK', 'NOACK', 'CLAIM', 'IDS', 'ACKED', 'WEIGHTS',
           'AGGREGATE', 'REPLACE', 'DB', 'WITHSCORES', 'ASC', 'DESC', 'LEFT', 'MIN', 'NX', 'XX', 'CH', 'INCR', 'OVERFLOW',
           'FROMMEMBER', 'FROMLONLAT', 'MAXLEN', 'NOMKSTREAM', 'IDX', 'LEN', 'WITHDIST', 'ANY', 'SET', 'PERSIST', 'EX',
           'IFEQ', 'IFNE', 'UBOUND', 'SATURATE', 'ENX', 'BYINT']
NUMBERS = ['0', '1', '2', '3', '-1', '+1', '01', ' 1', '1 ', '1.0', '4294967297', '18446744073709551617',
           '9223372036854775807', '1x']  # no value here leads to values or replies of gigabytes
# Commands that the groups do not generate.
LINES = '''
JSON.SET j $ {"a":[1,2],"b":"t","c":true,"n":1,"o":{}}
JSON.GET j $.a|JSON.GET j INDENT x NEWLINE y SPACE z $|JSON.MGET j k $.a|JSON.MSET j $ 1 k $ 2|JSON.MSET j $ {"a":[1]} j $ 2
JSON.ARRAPPEND j $.a 1|JSON.ARRINDEX j $.a 1|JSON.ARRINSERT j $.a 0 1|JSON.ARRLEN j $.a|JSON.ARRPOP j $.a|JSON.ARRTRIM j $.a 0 1
JSON.CLEAR j $.a|JSON.DEBUG MEMORY j|JSON.DEL j $.b|JSON.FORGET j $.b|JSON.MERGE j $ {"b":"t"}|JSON.NUMINCRBY j $.n 1
JSON.NUMMULTBY j $.n 2|JSON.OBJKEYS j|JSON.OBJLEN j|JSON.RESP j|JSON.STRAPPEND j $.b "x"|JSON.STRLEN j $.b|JSON.TOGGLE j $.c
BF.ADD bl a|BF.MADD bl a b|BF.EXISTS bl a|BF.MEXISTS bl a b|BF.CARD bl|BF.INFO bl|BF.INSERT bl CAPACITY 5 ITEMS a|BF.RESERVE bl2 0.01 10|BF.SCANDUMP bl 0|BF.LOADCHUNK bl3 1 x
CMS.INITBYDIM cm 9 2|CMS.INITBYPROB cn 0.1 0.1|CMS.INCRBY cm a 1|CMS.QUERY cm a|CMS.INFO cm|CMS.MERGE cm 1 cm|CMS.MERGE cm 2 cm cn WEIGHTS 1 2|CMS.MERGE cm 4294967297 cm
TDIGEST.CREATE td|TDIGEST.CREATE te COMPRESSION 50|TDIGEST.ADD td 1 2 3|TDIGEST.RESET te|TDIGEST.MIN td|TDIGEST.MAX td|TDIGEST.QUANTILE td 0 0.5|TDIGEST.CDF td 1 2
TDIGEST.RANK td 1 2|TDIGEST.REVRANK td 1|TDIGEST.BYRANK td 0 1|TDIGEST.BYREVRANK td 0|TDIGEST.TRIMMED_MEAN td 0.1 0.9|TDIGEST.INFO td
TDIGEST.MERGE td 1 te|TDIGEST.MERGE tf 2 td te COMPRESSION 70 OVERRIDE|TDIGEST.MERGE td 4294967297 te|TDIGEST.MERGE td 2 te
TOPK.RESERVE tk 2|TOPK.RESERVE tl 2 8 7 0.9|TOPK.ADD tk a b c|TOPK.INCRBY tk a 1 b 2|TOPK.QUERY tk a|TOPK.COUNT tk a|TOPK.LIST tk WITHCOUNT|TOPK.INFO tk
JSON.TYPE j $|SIADD si 1 2 3|SICARD si|SIEXISTS si 1|SIRANGE si 0 3|SIREVRANGE si 0 3|SIRANGEBYVALUE si 0 9|SIREVRANGEBYVALUE si 9 0
SIREM si 1|MEMORY USAGE a SAMPLES 3|MEMORY USAGE a|XSETID x 9-9|XINFO STREAM x FULL COUNT 2|XADD x * f v|PFDEBUG GETREG h
GEOADD g 13.3 38.1 p 15.0 37.5 c|GEORADIUS g 15 37 200 km STORE a STORE b|GEORADIUS g 15 37 200 km STOREDIST a STORE b
GEORADIUSBYMEMBER g p 200 km STORE a STOREDIST b|GEORADIUS g 15 37 200 km COUNT 1 STORE a|GEORADIUSBYMEMBER g p 200 km STORE b
GEORADIUS_RO g 15 37 200 km STORE a|GEOSEARCHSTORE a g FROMMEMBER p BYRADIUS 200 km STOREDIST|RPUSH l 3 1 2
SORT l STORE a STORE b|SORT l BY STORE STORE a|SORT l GET STORE GET b STORE a|SORT l LIMIT 0 9 STORE a LIMIT 0 1|SORT_RO l BY store
XREAD COUNT 1 STREAMS x 0|XREAD STREAMS streams x 0 0|XREAD COUNT 1 STREAMS x y 0 0|XREADGROUP GROUP streams c STREAMS x >
XGROUP CREATE x streams 0 MKSTREAM|XGROUP CREATE x streams $|XREADGROUP GROUP streams streams COUNT 1 STREAMS x >|XREAD BLOCK 1 STREAMS x $
ZADD z 1 m|ZUNIONSTORE a 1 z|ZUNIONSTORE a 4294967297 z|ZUNIONSTORE a 2 z z WEIGHTS 1 2 AGGREGATE MAX|ZINTERSTORE a +1 z|ZDIFFSTORE a 1 z
ZUNION 1 z|ZINTER 1 z|ZDIFF 01 z|ZINTERCARD 1 z LIMIT 1|SINTERCARD 1 s LIMIT 1|SADD s m|LMPOP 1 l LEFT COUNT 1|BLMPOP 0 1 l LEFT
ZMPOP 1 z MIN|BZMPOP 0 1 z MIN COUNT 1|ZRANGESTORE a z 0 -1|BITOP AND a b c|SET a v GET|SET a v EX 9 GET|BITFIELD a GET u8 0
BITFIELD a GET u8 0 OVERFLOW SAT SET u8 0 1|BITFIELD a OVERFLOW SAT|BITFIELD_RO a GET u8 0|COPY a b REPLACE|COPY a b DB 1 REPLACE|MOVE a 1
GETEX a PERSIST|LCS a b IDX LEN|EVAL return(redis.call('GET',KEYS[1])) 1 a b|EVAL return(redis.call('SET',KEYS[1],1)) 1 a
EVAL_RO return(redis.call('GET',KEYS[1])) 1 a|HRANDFIELD hh 1 WITHVALUES|RENAME a b|RENAMENX b a|SMOVE s t m|LMOVE l m LEFT RIGHT
RPOPLPUSH l m|BRPOPLPUSH l m 0|BLMOVE l m LEFT RIGHT 0|BLPOP l m 0|BRPOP l m 0|BZPOPMIN z zz 0|BZPOPMAX z zz 0|PFMERGE p|PFMERGE p q
DELEX a IFEQ v|DELEX a|DELIFEQ a v|SUNIONCARD 2 s t|SDIFFCARD 2 s t LIMIT 1|DIGEST a|CAS a 1 2|CAD a 1|MSETEX 2 a 1 b 2 NX|MSETEX 1 a 1 EX 9|INCREX a BYINT 2|SET a v IFEQ 1|SET a v IFDNE 0000000000000000
HEXPIRE hh 9 FIELDS 1 f|HPEXPIRE hh 9 NX FIELDS 1 f|HEXPIREAT hh 9 FIELDS 1 f|HPEXPIREAT hh 9 FIELDS 1 f|HTTL hh FIELDS 1 f|HPTTL hh FIELDS 1 f
HEXPIRETIME hh FIELDS 1 f|HPEXPIRETIME hh FIELDS 1 f|HPERSIST hh FIELDS 1 f|HGETDEL hh FIELDS 1 f|HGETEX hh EX 9 FIELDS 1 f
HGETEX hh PERSIST FIELDS 1 f|HSETEX hh EX 9 FIELDS 1 f v|HSETEX hh FNX FIELDS 2 f v g w|HSETEXPIRE hh 9 f v
HRANGEBYLEX hh - + LIMIT 0 1|DISK USAGE a|JSON.INFO j|XDELEX x ACKED IDS 1 1-1|XACKDEL x streams DELREF IDS 2 1-1 2-2|XTRIM x MAXLEN 1 ACKED|XADD x DELREF MAXLEN 1 * f v|XREADGROUP GROUP streams c CLAIM 0 STREAMS x >
XREADGROUP CLAIM streams GROUP streams c STREAMS x >|XAUTOCLAIM x streams c 0 0|XCLAIM x streams c 0 1-1|XPENDING x streams|OBJECT ENCODING a|OBJECT FREQ a|OBJECT IDLETIME a|OBJECT REFCOUNT a
'''


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(8, long=1200))


suite = Suite(__doc__, options)


class Source:
    """Random requests."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.grammar = Grammar(GROUPS.split(','))
        self.context = None
        self.lines = [line.split() for row in LINES.strip().split('\n') for line in row.split('|')]

    def begin(self):
        """Draws a new Context: each one leaves some keys and values out, and so some commands."""
        self.context = Context(self.rng.random(), False)

    def plain(self):
        """[words, …] of one or several valid requests."""
        if self.rng.random() < 0.5:
            return [list(self.rng.choice(self.lines))]
        return [list(step.words) for step in self.grammar.draw(self.context) if type(step) in (Step, Carry)]

    def word(self):
        pool = self.rng.random()
        if pool < 0.4:
            return self.rng.choice(DOUBLED)
        return self.rng.choice(NUMBERS) if pool < 0.6 else self.rng.choice('abglmsxz')

    def changed(self, words):
        for _ in range(self.rng.choice([0, 0, 1, 1, 2, 3])):
            at = self.rng.randrange(1, len(words) + 1)
            kind = self.rng.random()
            if kind < 0.35:
                words[at:at] = [self.word(), self.word()][:self.rng.choice([1, 2, 2])]
            elif kind < 0.6 and at < len(words):
                words[at] = self.word()
            elif kind < 0.9:
                begin = self.rng.randrange(1, len(words) + 1)
                words[at:at] = words[begin:begin + self.rng.randrange(1, 4)]
            elif at < len(words):
                del words[at]
        return words

    def batch(self):
        """Several requests, in about a third of the cases unchanged."""
        made = self.plain()
        return made if self.rng.random() < 0.3 else [self.changed(words) for words in made]


# These end the transaction, or are not allowed in scripts or transactions.
LEFT_OUT = {'MULTI', 'EXEC', 'DISCARD', 'WATCH', 'UNWATCH', 'RESET', 'QUIT', 'HELLO', 'CLIENT', 'SUBSCRIBE', 'PSUBSCRIBE',
            'SSUBSCRIBE', 'UNSUBSCRIBE', 'PUNSUBSCRIBE', 'SUNSUBSCRIBE', 'SHUTDOWN', 'MONITOR', 'SCRIPT', 'DEBUG', 'SELECT'}
# Opened only by requests that are not generated here: a payload of DUMP, another server, a watched key.
NOT_REACHED = {'restore', 'restore-asking', 'migrate', 'watch'}


def word_of(text):
    return (text if isinstance(text, str) else text.decode('latin-1')).upper()


def play(connection, requests):
    """Runs all of them in one transaction; a refused request discards it."""
    commands = [['MULTI']] + requests + [['EXEC']]
    connection.send_many(commands)
    for _ in commands:
        connection.read()


def missed_of(rows, backend):
    """Commands with keys that have not opened a key so far."""
    reached = set(re.findall(r'^reached: command=(\S+)', backend.log().decode('latin-1'), re.M)) | NOT_REACHED
    return sorted(name for name in rows if name not in reached and not name.startswith(('eval', 'fcall')))


@suite.case('commands open the keys that the key rules find, and change only those that the rules mark as changed')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        backend.stop()
        backend.argv[0] = binary('scree-backend-keys')
        backend.start()
        source = Source(run.seed)
        with cluster.partition(0) as connection:
            rows = {row[0].decode() for command in connection.get('COMMAND')
                    for row in (command[9] or [command]) if row[8] and b'not_key' not in repr(row[8]).encode()}
            end = time.monotonic() + run.options.seconds
            count = 0
            # On a slow machine this continues until each command has opened a key.
            while time.monotonic() < end or (missed_of(rows, backend) and time.monotonic() < end + 100 * harness.SLOW):
                source.begin()
                for _ in range(100):
                    requests = [words for words in source.batch() if word_of(words[0]) not in LEFT_OUT]
                    play(connection, requests)
                    count += len(requests)
        text = backend.log().decode('latin-1')
        run.note('%d requests, %d commands with keys' % (count, len(rows)))
        wrong = {}
        for line in re.findall(r'^undeclared: .*', text, re.M):
            wrong.setdefault(re.match(r'undeclared: command=(\S+) key=\S* use=(\S+)', line).groups(), line)
        check(not wrong, '%d kinds:\n     %s' % (len(wrong), '\n     '.join(wrong[kind] for kind in sorted(wrong))))
        check_equal(missed_of(rows, backend), [], 'commands that opened no key')


if __name__ == '__main__':
    suite.main()
