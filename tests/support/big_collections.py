"""big_collections.py - random changes of one big collection of each type, by plain commands and by transactions over shards.

    big = BigCollections(ours, theirs, seed)     connections to Scree and to redis-server
    big.fill()
    big.round()                                  some reads, then a change; every reply must be equal
    big.check_all()                              whole collections, and a rank at every place of a sorted set

A change is made plain, or together with a change of a key of another shard: in MULTI, EXEC after WATCH, EVAL, FCALL, or by a
command with keys of several shards. The collections are so big that each has rows in all trees and caches that are kept for a
collection: rank trees of two levels, range bounds, cached runs. redis-server has no sorted ints: a sorted list stands in for it.
"""

import bisect
import random

from support.harness import check, check_equal
from support.resp import ReplyError

SIZE = 3500  # members; a rank tree has its second level above 32 leaves of 96
LIBRARY = """#!lua name=big
redis.register_function('change', function(keys, args)
    redis.call('INCR', keys[1])
    return redis.call(unpack(args))
end)"""
SCRIPT = "redis.call('INCR', KEYS[1]) return redis.call(unpack(ARGV))"
UNORDERED = {'SMEMBERS', 'HGETALL', 'HKEYS', 'SUNION'}
PLAIN, MULTI, WATCHED, EVAL, FCALL = 'plain', 'multi', 'watched', 'eval', 'fcall'


def is_same(words, ours, theirs):
    if ours == theirs:
        return True
    if words[0] not in UNORDERED or isinstance(ours, ReplyError) or isinstance(theirs, ReplyError):
        return False
    if isinstance(ours, dict) or words[0] != 'HGETALL':
        return ours == theirs if isinstance(ours, dict) else sorted(ours) == sorted(theirs)
    return dict(zip(ours[::2], ours[1::2])) == dict(zip(theirs[::2], theirs[1::2]))


class BigCollections:
    def __init__(self, ours, theirs, seed):
        self.ours, self.theirs, self.rng = ours, theirs, random.Random(seed)
        self.others = ['big%d:other:%d' % (seed, i) for i in range(12)]  # on all shards
        self.z, self.s, self.h, self.l, self.x, self.b, self.i, self.g = ['big%d:%s' % (seed, kind) for kind in 'zshlxbig']
        self.near_z, self.near_s, self.copy = self.z + ':2', self.s + ':2', self.z + ':copy'
        self.ints = []
        self.last_id = SIZE
        self.done = {}

    # -- what both servers do

    def both(self, *words):
        ours, theirs = self.ours.get(*words), self.theirs.get(*words)
        check(is_same(words, ours, theirs), '%r: got %r, expected %r' % (words, ours, theirs))
        return theirs

    def each(self, commands):
        for words, ours, theirs in zip(commands, self.ours.pipeline(commands), self.theirs.pipeline(commands)):
            check_equal(ours, theirs, words)

    def fill(self):
        keys = [self.z, self.s, self.h, self.l, self.x, self.b, self.g, self.near_z, self.near_s, self.copy] + self.others
        for key in keys + [self.i]:
            self.ours.get('DEL', key)
            self.theirs.get('DEL', key)
        self.ours.get('FUNCTION', 'LOAD', 'REPLACE', LIBRARY)
        self.theirs.get('FUNCTION', 'LOAD', 'REPLACE', LIBRARY)
        for first in range(0, SIZE, 500):
            part = range(first, first + 500)
            self.each([['ZADD', self.z] + [word for n in part for word in (2 * n, 'm%05d' % (2 * n))],
                       ['ZADD', self.near_z] + [word for n in part for word in (n, 'm%05d' % (3 * n))],
                       ['SADD', self.s] + ['s%d' % n for n in part], ['SADD', self.near_s] + ['s%d' % (2 * n) for n in part],
                       ['HSET', self.h] + [word for n in part for word in ('f%d' % n, n)],
                       ['RPUSH', self.l] + ['e%d' % n for n in part],
                       ['GEOADD', self.g] + [word for n in part for word in (n % 170, n % 80, 'p%d' % n)]]
                      + [['XADD', self.x, '%d-1' % (n + 1), 'a', n] for n in part])
            self.change_ints('SIADD', list(range(10 * first, 10 * first + 5000, 10)))
        self.each([['SETBIT', self.b, 200000, 1]])

    # -- changes

    def member(self):
        return 'm%05d' % self.rng.randrange(3 * SIZE)

    def near(self, count, most=SIZE):
        first = self.rng.randrange(most)
        return first, first + count

    def change_of_zset(self):
        rng, z = self.rng, self.rng.choice([self.z, self.z, self.near_z])
        return rng.choice([
            ['ZADD', z, rng.randrange(-50, 2 * SIZE), self.member()], ['ZADD', z, rng.randrange(-20, 20), self.member(), 99999, self.member()],
            ['ZADD', z] + [word for _ in range(60) for word in (rng.randrange(2 * SIZE), self.member())],
            ['ZREM', z, self.member(), self.member()], ['ZREM', z] + [self.member() for _ in range(80)],
            ['ZINCRBY', z, rng.randrange(-99, 99), self.member()], ['ZPOPMIN', z], ['ZPOPMAX', z, 2], ['ZMPOP', 1, z, 'MIN', 'COUNT', 3],
            ['ZREMRANGEBYRANK', z, *self.near(3)], ['ZREMRANGEBYRANK', z, 0, 1], ['ZREMRANGEBYSCORE', z, *self.near(9)]])

    def change_of_others(self):
        rng, s, h, l, x, b = self.rng, self.rng.choice([self.s, self.near_s]), self.h, self.l, self.x, self.b
        self.last_id += 1
        return rng.choice([
            ['SADD', s] + ['s%d' % rng.randrange(2 * SIZE) for _ in range(30)], ['SREM', s] + ['s%d' % rng.randrange(2 * SIZE) for _ in range(30)],
            ['HSET', h, 'f%d' % rng.randrange(2 * SIZE), rng.randrange(9)], ['HDEL', h, 'f%d' % rng.randrange(2 * SIZE)],
            ['HINCRBY', h, 'n%d' % rng.randrange(2 * SIZE), 1], ['LPUSH', l, 'x', 'y'], ['RPUSH', l, 'v'], ['LPOP', l], ['RPOP', l, 2],
            ['LSET', l, rng.randrange(1000), 'q'], ['LTRIM', l, 1, -2], ['LINSERT', l, 'BEFORE', 'e%d' % rng.randrange(SIZE), 'in'],
            ['LREM', l, 1, 'e%d' % rng.randrange(SIZE)], ['XADD', x, '%d-1' % self.last_id, 'b', 1], ['XDEL', x, '%d-1' % rng.randrange(1, SIZE)],
            ['XTRIM', x, 'MAXLEN', SIZE - rng.randrange(40)], ['SETBIT', b, rng.randrange(300000), rng.randrange(2)],
            ['SETRANGE', b, rng.randrange(30000), 'zz'], ['GEOADD', self.g, rng.randrange(170), rng.randrange(80), 'p%d' % rng.randrange(2 * SIZE)]])

    def change_over_shards(self):
        """A command that is over shards by itself."""
        rng, other, copy = self.rng, self.rng.choice(self.others) + ':z', self.copy
        return rng.choice([
            [['ZADD', other, rng.randrange(-9, SIZE), self.member()], ['ZUNIONSTORE', self.z, 2, self.z, other]],
            [['SADD', other + ':s', 's1', 's2'], ['SMOVE', self.s, other + ':s', 's%d' % rng.randrange(SIZE)],
             ['SMOVE', other + ':s', self.near_s, 's2'], ['DEL', other + ':s']],
            [['ZADD', other, 5, 'other'], ['ZRANGESTORE', other, self.z, *self.near(900)], ['ZRANK', other, self.member()],
             ['ZADD', other, -1, 'first'], ['ZRANGE', other, 0, 2], ['DEL', other]],
            [['COPY', self.z, copy, 'REPLACE'], ['ZADD', copy, 3, 'new'], ['ZRANK', copy, 'new'], ['RENAME', copy, other], ['ZRANK', other, self.member()],
             ['ZPOPMIN', other], ['RENAME', other, copy], ['ZRANGE', copy, -3, -1]],
            [['SORT', self.l, 'ALPHA', 'LIMIT', 0, 300, 'STORE', other + ':l'], ['LLEN', other + ':l'], ['DEL', other + ':l']],
            [['GEOSEARCHSTORE', other, self.g, 'FROMLONLAT', 80, 40, 'BYBOX', 16000, 8000, 'km'], ['ZCARD', other], ['ZRANGE', other, 99, 101], ['DEL', other]],
            [[rng.choice(['SUNIONSTORE', 'SINTERSTORE', 'SDIFFSTORE']), other + ':s', self.s, self.near_s], ['SCARD', other + ':s'], ['DEL', other + ':s']],
            [[rng.choice(['ZINTERSTORE', 'ZDIFFSTORE']), other, 2, self.z, self.near_z], ['ZRANGE', other, *self.near(50), 'WITHSCORES'], ['DEL', other]],
            [['LMOVE', self.l, other + ':l', 'LEFT', 'RIGHT'], ['LMOVE', other + ':l', self.l, 'LEFT', 'LEFT']]])

    def run(self, commands, how):
        """Makes the changes at both servers together with that of a key of another shard."""
        other = self.rng.choice(self.others)
        self.done[how] = self.done.get(how, 0) + 1
        if how in (MULTI, WATCHED):
            if how == WATCHED:
                self.both('WATCH', other, commands[0][1] if commands[0][0] != 'ZMPOP' else self.z)
            self.both('MULTI')
            for words in [['INCR', other], *commands]:
                self.both(*words)
            self.both('EXEC')
            return
        for words in commands:
            if how == PLAIN:
                self.both(*words)
            elif how == EVAL:
                self.both('EVAL', SCRIPT, 2, other, words[1], *words)
            else:
                self.both('FCALL', 'change', 2, other, words[1], *words)

    def change_ints(self, name, numbers, how=PLAIN):
        """Sorted ints are compared with a list."""
        for number in numbers:
            at = bisect.bisect_left(self.ints, number)
            is_there = at < len(self.ints) and self.ints[at] == number
            if name == 'SIADD' and not is_there:
                self.ints.insert(at, number)
            elif name == 'SIREM' and is_there:
                del self.ints[at]
        words = [name, self.i, *numbers]
        if how == MULTI:
            self.ours.get('MULTI')
            self.ours.get('APPEND', self.rng.choice(self.others) + ':i', '')
            self.ours.get(*words)
            check(isinstance(self.ours.get('EXEC'), list), words)
        else:
            check(isinstance(self.ours.get(*words), int), words)

    def change(self):
        dice = self.rng.random()
        how = self.rng.choice([PLAIN, PLAIN, MULTI, WATCHED, EVAL, FCALL])
        if dice < 0.5:
            self.run([self.change_of_zset() for _ in range(self.rng.randint(1, 3))], how)
        elif dice < 0.75:
            self.run([self.change_of_others() for _ in range(self.rng.randint(1, 3))], how)
        elif dice < 0.85:
            self.run(self.change_over_shards(), PLAIN)
        elif dice < 0.93:
            self.change_ints(self.rng.choice(['SIADD', 'SIREM']), [self.rng.randrange(20 * SIZE) for _ in range(40)], self.rng.choice([PLAIN, MULTI]))
        else:
            self.pop(self.s)

    def pop(self, key):
        """SPOP chooses at random, so redis-server removes what was chosen here."""
        found = self.ours.get('SPOP', key, 3)
        check(isinstance(found, list), found)
        check_equal(self.theirs.get('SREM', key, *found), len(found), 'members that SPOP removed')

    # -- reads

    def read_zset(self):
        rng, z, first = self.rng, self.rng.choice([self.z, self.z, self.near_z]), self.rng.randrange(SIZE)
        return rng.choice([
            ['ZRANK', z, self.member()], ['ZREVRANK', z, self.member()], ['ZRANGE', z, 0, 3], ['ZRANGE', z, -3, -1],
            ['ZRANGE', z, first, first + 4, 'WITHSCORES'], ['ZCOUNT', z, first, first + 300], ['ZCARD', z],
            ['ZRANGE', z, first, first + 9, 'BYSCORE'], ['ZRANGE', z, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 2], ['ZSCORE', z, self.member()],
            ['ZRANGE', z, '+inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 2], ['ZLEXCOUNT', z, '-', '+'], ['ZREVRANGE', z, first, first + 3]])

    def read_others(self):
        first = self.rng.randrange(SIZE)
        return self.rng.choice([
            ['HLEN', self.h], ['HGET', self.h, 'f%d' % first], ['SCARD', self.s], ['SISMEMBER', self.s, 's%d' % first], ['LLEN', self.l],
            ['LINDEX', self.l, first], ['LINDEX', self.l, 0], ['LINDEX', self.l, -1], ['LRANGE', self.l, first, first + 5],
            ['XLEN', self.x], ['XRANGE', self.x, '%d-0' % first, '+', 'COUNT', 3], ['XREVRANGE', self.x, '+', '-', 'COUNT', 2],
            ['BITCOUNT', self.b], ['GETRANGE', self.b, 5 * first, 5 * first + 20], ['BITPOS', self.b, 1], ['GEOPOS', self.g, 'p%d' % first]])

    def read_ints(self):
        first = self.rng.randrange(len(self.ints))
        check_equal(self.ours.get('SIRANGE', self.i, first, 3), [b'%d' % number for number in self.ints[first:first + 3]], 'SIRANGE %d' % first)

    def read_random(self):
        found = self.ours.get('SRANDMEMBER', self.s, 3)
        check(isinstance(found, list), 'SRANDMEMBER: %r' % (found,))
        check_equal(len(set(found)), 3, found)
        check_equal(self.theirs.get('SMISMEMBER', self.s, *found), [1, 1, 1], 'SRANDMEMBER')

    def round(self):
        for _ in range(3):
            dice = self.rng.random()
            if dice < 0.6:
                self.both(*self.read_zset())
            elif dice < 0.85:
                self.both(*self.read_others())
            elif dice < 0.95:
                self.read_ints()
            else:
                self.read_random()
        self.change()

    def check_all(self):
        for key in (self.z, self.near_z):
            members = self.both('ZRANGE', key, '-inf', '+inf', 'BYSCORE')
            for at in range(0, len(members), 37):
                check_equal(self.ours.get('ZRANK', key, members[at]), at, 'ZRANK of %r' % members[at])
                check_equal(self.ours.get('ZRANGE', key, at, at + 2), members[at:at + 3], 'ZRANGE %d' % at)
        for words in (['SMEMBERS', self.s], ['SMEMBERS', self.near_s], ['HGETALL', self.h], ['LRANGE', self.l, 0, -1], ['XRANGE', self.x, '-', '+'], ['GET', self.b]):
            self.both(*words)
        for _ in range(20):
            self.read_ints()
            self.read_random()
