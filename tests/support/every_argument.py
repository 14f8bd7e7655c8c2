"""every_argument.py - requests in which one argument, count, size or depth grows: for every command of the table.

A line of EXAMPLES is a request. Words with marks grow with n:

    #        the number n                     $      a text of n bytes               [ ]    JSON arrays inside each other, n deep
    *word    the word n times                 *(a b) both words n times             %word  the word, and a number that differs in each copy
    @type    a key with data of this type; @new: one without data

Commands without a line get their arguments from COMMAND INFO: as many as they need, keys where its key specs say, and what follows grows in
three ways: the last argument many times, as a long text, as a big number.
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
""".strip().splitlines()

# Commands of connections, those that wait, and those that stop or change the server itself.
SKIPPED = set('''auth quit reset hello multi exec discard watch unwatch subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe monitor
shutdown debug select asking readonly readwrite sync psync replconf failover slaveof replicaof save bgsave bgrewriteaof blpop brpop blmove blmpop
bzpopmin bzpopmax bzmpop brpoplpush wait waitaof flushall flushdb swapdb client config acl module cluster scree function script latency slowlog
memory restore migrate keepalive'''.split())


class Growing:
    """One request that grows."""

    def __init__(self, line, keys):
        self.line, self.keys = line, keys

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


def growing(table, keys):
    """All requests, for the rows of COMMAND INFO."""
    lines = list(EXAMPLES)
    named = {line.split()[0].lower() for line in lines}
    for info in table:
        if info and info[0].decode() not in named and info[0].decode() not in SKIPPED:
            lines += generic(info)
    return [Growing(line, keys) for line in lines]
