"""every_argument.py - requests in which one argument, count, size or depth grows: for every command of the table.

A line of EXAMPLES is a request. Words with marks grow with n:

    #        the number n                     $      a text of n bytes               [ ]    JSON arrays inside each other, n deep
    *word    the word n times                 *(a b) both words n times             %word  the word, and a number that differs in each copy
    @type    a key with data of this type; @new: one without data

All commands and subcommands also get lines from COMMAND DOCS: for each of their arguments, one in which it is there and grows. A command without
a line of EXAMPLES gets some more from COMMAND INFO: as many arguments as it needs, keys where its key specs say, and the last one many times,
as a long text, as a big number.
"""

import re

EXAMPLES = """
APPEND @new $
SETRANGE @new # x
SETBIT @new # 1
GETRANGE @string 0 #
BITCOUNT @string 0 #
BITPOS @string 1 0 #
BITFIELD @new *(SET u8 %) x
BITFIELD @string *(GET u63 %9)
BITOP AND @new *@string
BITOP NOT @new @string
LCS @text @text2
LCS @text @text2 IDX
MSET *(@new %v)
MGET *@string
DEL *%k
EXISTS *@string
TOUCH *@string
SINTER *@set
SUNION *@set
SDIFF *@set
SUNIONSTORE @new *@set
SINTERSTORE @new *@set
SDIFFSTORE @new *@set
SINTERCARD # *@set
SADD @new *%m
SREM @set *%m
SMISMEMBER @set *%m
SRANDMEMBER @set -#
SRANDMEMBER @set #
SPOP @set #
HSET @new *(%f v)
HDEL @hash *%f
HMGET @hash *%f
HRANDFIELD @hash -# WITHVALUES
HRANDFIELD @hash # WITHVALUES
HGETALL @hash
RPUSH @new *%e
LPUSH @new *%e
LRANGE @list 0 #
LPOS @list x COUNT # RANK 1
LREM @list # x
LINSERT @list BEFORE e1 x
LTRIM @list # -1
LPOP @list #
ZADD @new *(1 %m)
ZREM @zset *%m
ZMSCORE @zset *%m
ZRANDMEMBER @zset -# WITHSCORES
ZRANGE @zset 0 # WITHSCORES
ZRANGESTORE @new @zset 0 #
ZPOPMIN @zset #
ZUNION # *@zset
ZINTER # *@zset
ZDIFF # *@zset
ZUNIONSTORE @new # *@zset
ZINTERSTORE @new # *@zset
ZDIFFSTORE @new # *@zset
ZINTERCARD # *@zset
ZREMRANGEBYRANK @zset 0 #
GEOADD @new *(1 2 %m)
GEOPOS @geo *%m
GEOHASH @geo *%m
GEOSEARCH @geo FROMLONLAT 0 0 BYRADIUS # km WITHDIST WITHCOORD
GEOSEARCHSTORE @new @geo FROMLONLAT 0 0 BYRADIUS # km
PFADD @new *%e
PFCOUNT *@hll
PFMERGE @new *@hll
XADD @new * *(%f v)
XADD @stream MAXLEN = # * f v
XTRIM @stream MAXLEN #
XRANGE @stream - + COUNT #
XREVRANGE @stream + - COUNT #
XDEL @stream *%1
XREAD COUNT # STREAMS @stream 0
XREAD STREAMS *@stream *0
SORT @list ALPHA LIMIT 0 #
SORT @list BY w* *(GET w%)
SORT @list ALPHA STORE @new
COPY @list @new
RENAME @list @new
DUMP @zset
JSON.SET @new $ [ ]
JSON.GET @json *$.a
JSON.GET @json *$..*
JSON.MGET *@json $
JSON.MSET *(@new $ {"a":1})
JSON.MERGE @new $ [ ]
JSON.ARRAPPEND @json $.a *1
JSON.DEL @json $..a
BF.RESERVE @new 0.001 #
BF.MADD @new *%m
BF.MEXISTS @bloom *%m
CMS.INITBYDIM @new # 10
CMS.INITBYDIM @new 10 #
CMS.INCRBY @cms *(%m 1)
CMS.QUERY @cms *%m
TOPK.RESERVE @new # 100 10 0.9
TOPK.ADD @topk *%m
TOPK.QUERY @topk *%m
TDIGEST.ADD @tdigest *1
TDIGEST.QUANTILE @tdigest *0.5
TDIGEST.MERGE @new # *@tdigest
TDIGEST.CREATE @new COMPRESSION #
SCAN 0 COUNT #
SSCAN @set 0 COUNT #
HSCAN @hash 0 COUNT #
ZSCAN @zset 0 COUNT #
EVAL return(ARGV) 0 *x
EVAL return(string.rep('x',tonumber(ARGV[1]))) 0 #
EVAL local(t)={}for(i=1,tonumber(ARGV[1]))do(t[i]=i)end 0 #
PUBLISH channel $
SUBSCRIBE *ch%
PSUBSCRIBE *ch%*
SSUBSCRIBE *ch%
WATCH *k%
HELLO 3 SETNAME $$
HELLO 3 AUTH default $$
CLIENT TRACKING ON BCAST *(PREFIX p%.)
""".strip().splitlines()

# Commands and subcommands that change what the connection is, or end it: each request has a connection of its own.
OWN = set('''auth quit reset hello multi exec discard watch unwatch subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe monitor
select asking readonly readwrite sync psync replconf client|reply client|kill client|pause client|tracking client|caching client|no-evict
client|no-touch'''.split())


class Growing:
    """One request that grows."""

    def __init__(self, line, keys):
        self.line, self.keys = line, keys
        self.kinds = set(re.findall(r'@(\w+)', line))
        self.is_own = not OWN.isdisjoint(names_of(line))

    def word(self, word, n, i):
        if word == '#':
            return str(n)
        if word == '-#':
            return str(-n)
        if word == '$' and self.line.split()[0] in ('APPEND', 'PUBLISH', 'ECHO', 'PING') or word == '$$':
            return 'x' * n
        if word.startswith('@'):
            return self.keys(word[1:], i)
        return word.replace('%', str(i)) if '%' in word else word

    def words(self, n):
        out = []
        for part in re.findall(r'\*\([^)]*\)|\[ \]|\S+', self.line):
            if part.startswith('*('):
                out += [self.word(word, n, i) for i in range(n) for word in part[2:-1].split()]
            elif part == '[ ]':
                out.append('[' * n + ']' * n)
            elif part.startswith('*') and len(part) > 1 and not self.line.startswith('EVAL return(ARGV[1'):
                out += [self.word(part[1:], n, i) for i in range(n)]
            else:
                out.append(self.word(part, n, 0))
        return out


def generic(info):
    """Lines for a command without an example: `info` is its row of COMMAND INFO."""
    name, arity, specs = info[0].decode(), abs(info[1]), info[8]
    words = [name.upper()] + ['1'] * (arity - 1)
    for spec in specs:
        begin = dict(zip(spec[3][::2], spec[3][1::2])) if len(spec) > 3 else {}
        at = dict(zip(begin.get(b'spec', [])[::2], begin.get(b'spec', [])[1::2])).get(b'index')
        if isinstance(at, int) and 0 < at < len(words):
            words[at] = '@new'
    line = ' '.join(words)
    last = words[-1] if words[-1] != '@new' else '%1'
    lines = [line + ' *' + last] if info[1] < 0 else []
    if len(words) > 1:
        head = ' '.join(words[:-1])
        lines += [head + ' $$', head + ' #']
    return lines or [line]


# ---- from COMMAND DOCS: each option once, and each argument that can be repeated, long or big -----------------------------------------------

DATA = {'generic': 'zset', 'string': 'string', 'list': 'list', 'set': 'set', 'hash': 'hash', 'sorted-set': 'zset', 'geo': 'geo', 'hyperloglog': 'hll', 'stream': 'stream',
        'json': 'json', 'bf': 'bloom', 'cms': 'cms', 'topk': 'topk', 'tdigest': 'tdigest'}
VALUES = {'script': 'return(#KEYS)', 'milliseconds': '1'}
WAITS = ('timeout', 'milliseconds')  # they do not grow
NUMBERS = ('integer', 'double', 'unix-time')
EACH = {}  # for a value that differs in each copy


def pairs(flat):
    return dict(zip((word.decode() for word in flat[::2]), flat[1::2])) if isinstance(flat, list) else {}


class Node:
    """An argument of COMMAND DOCS."""

    def __init__(self, row, group):
        fields = pairs(row)
        self.name, self.kind = fields['name'].decode(), fields['type'].decode()
        self.token = fields.get('token', b'').decode()
        self.flags = {flag.decode() for flag in fields.get('flags', [])}
        self.parts = [Node(part, group) for part in fields.get('arguments', [])]
        self.group = group

    def all(self):
        return [self] + [node for part in self.parts for node in part.all()]

    def value(self, grown, chosen):
        """The words behind the token."""
        if self.kind == 'oneof':
            return next((part for part in self.parts if part in chosen), self.parts[0]).words(grown, chosen)
        if self.kind == 'block':
            return words_of(self.parts, grown, chosen)
        if self.kind == 'pure-token':
            return []
        if self.kind == 'key':
            return ['@' + DATA.get(self.group, 'new')]
        if self.name == 'timeout':
            return ['1' if self.kind == 'integer' else '0.01']
        return ['m%' if grown is EACH and self.kind not in NUMBERS else VALUES.get(self.name, '1')]

    def words(self, grown, chosen):
        words = [self.token] if self.token else []
        growth = grown.get(self)
        if growth == 'many':
            value = self.value(EACH, chosen)
            if 'multiple_token' in self.flags:
                return many(words + value)
            return words + many(value)
        return words + ([growth] if growth else self.value(grown, chosen))


def many(words):
    return ['*' + words[0]] if len(words) == 1 else ['*(%s)' % ' '.join(words)]


def words_of(nodes, grown, chosen):
    return [word for node in nodes if 'optional' not in node.flags or node in chosen for word in node.words(grown, chosen)]


def growths(node):
    """In which ways the argument grows."""
    ways = ['many'] if 'multiple' in node.flags else []
    if node.kind in NUMBERS and node.name not in WAITS:
        ways += ['#', '-#']
    if node.kind in ('string', 'pattern'):
        ways.append('$$')
    return ways


def path_to(nodes, wanted):
    """The node and those around it."""
    for node in nodes:
        if node is wanted:
            return {node}
        path = path_to(node.parts, wanted)
        if path:
            return path | {node}
    return set()


def documented(name, doc):
    """Lines for a command, from its arguments: in each one of them grows. An option without a value comes with what can be repeated."""
    group = doc.get('group', b'').decode()
    nodes = [Node(row, group) for row in doc.get('arguments', [])]
    every = [node for top in nodes for node in top.all()]
    repeated = next((node for node in every if 'multiple' in node.flags), None)
    lines = []
    for node in every:
        chosen = path_to(nodes, node)
        ways = [{node: way} for way in growths(node)]
        if node.kind == 'pure-token' and repeated:
            chosen |= path_to(nodes, repeated)
            ways.append({repeated: 'many'})
        for grown in ways:
            if grown.get(repeated) == 'many':  # the number of keys before them
                grown.update({count: '#' for count in every if count.name == 'numkeys'})
            lines.append(' '.join(name.upper().split('|') + words_of(nodes, grown, chosen)))
    return lines or [' '.join(name.upper().split('|') + words_of(nodes, {}, set()))]


def with_subcommands(docs):
    """(name, doc) of each command and subcommand; a container itself does nothing."""
    for name, row in docs.items():
        doc = pairs(row)
        inner = pairs(doc.get('subcommands', []))
        yield from ((part, pairs(part_row)) for part, part_row in inner.items()) if inner else [(name, doc)]


def names_of(line):
    """The names of the command, and of the subcommand if it is one."""
    words = line.lower().split()
    return words[0], '|'.join(words[:2])


def growing(table, docs, keys):
    """All requests, for the rows of COMMAND INFO, and the replies of COMMAND DOCS: those of EXAMPLES come first."""
    lines = list(EXAMPLES)
    named = {line.split()[0].lower() for line in lines}
    for info in table:
        is_known = not info or info[0].decode() in named or info[9]
        if not is_known and b'blocking' not in info[2]:  # its last argument is how long it waits
            lines += generic(info)
    for name, doc in with_subcommands(pairs(docs)):
        lines += documented(name, doc)
    return [Growing(line, keys) for line in dict.fromkeys(lines)]
