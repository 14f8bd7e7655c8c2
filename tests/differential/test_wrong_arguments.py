#!/usr/bin/python3
"""Each argument of the commands of Bloom filters, sketches, digests and top-k lists is replaced by each of many wrong ones.

Nothing crashes, no memory is taken, a command that is refused has changed nothing, and MULTI and scripts reply as a command alone
does: through a proxy over three shards, so that the keys of a merge are on different ones.
"""

import random

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, sized
from support.resp import show

suite = Suite(__doc__)
MB = 1 << 20

WRONG = [b'', b' 1', b'-1', b'0', b'1', b'1.5', b'0x10', b'1e-300', b'1e308', b'1e309', b'nan', b'-inf', b'2147483648', b'4294967296',
         b'1152921504606846976', b'9223372036854775807', b'9223372036854775808', b'-9223372036854775808', b'18446744073709551616',
         b'x' * 5000, b'\xff\x00\r\n', b'EXPANSION', b'NONSCALING', b'CAPACITY', b'ITEMS', b'WEIGHTS', b'COMPRESSION', b'OVERRIDE',
         b'WITHCOUNT', b'9' * 400]
HUGE = [word for word in WRONG if word.isdigit() and int(word) >= 1 << 60]  # as sizes they must be refused

# (commands that make the keys, words); the words of sizes have a mark.
FILTER = [['BF.RESERVE', 'k', '0.01', '10'], ['BF.MADD', 'k', 'a', 'b']]
SKETCH = [['CMS.INITBYDIM', 'k', '100', '4'], ['CMS.INITBYDIM', 'l', '100', '4'], ['CMS.INCRBY', 'k', 'a', '3'], ['CMS.INCRBY', 'l', 'b', '4']]
DIGEST = [['TDIGEST.CREATE', 'k'], ['TDIGEST.CREATE', 'l'], ['TDIGEST.ADD', 'k', '1', '2'], ['TDIGEST.ADD', 'l', '3']]
LIST = [['TOPK.RESERVE', 'k', '2', '100', '4', '1'], ['TOPK.ADD', 'k', 'a', 'b', 'a']]
COMMANDS = [
    ([], 'BF.RESERVE k 0.01 #10 EXPANSION #2'), ([], 'BF.RESERVE k 0.01 #10 NONSCALING'), (FILTER, 'BF.RESERVE k 0.01 10'),
    (FILTER, 'BF.ADD k c'), (FILTER, 'BF.MADD k c d'), ([], 'BF.INSERT k CAPACITY #10 ERROR 0.1 EXPANSION #2 ITEMS a b'),
    (FILTER, 'BF.INSERT k NOCREATE ITEMS c'), (FILTER, 'BF.EXISTS k a'), (FILTER, 'BF.MEXISTS k a c'), (FILTER, 'BF.CARD k'),
    (FILTER, 'BF.INFO k'), (FILTER, 'BF.INFO k ITEMS'), (FILTER, 'BF.SCANDUMP k 0'), ([], 'BF.LOADCHUNK k 1 x'), (FILTER, 'BF.LOADCHUNK k 2 x'),
    ([], 'CMS.INITBYDIM k #100 #4'), ([], 'CMS.INITBYPROB k 0.01 0.01'), (SKETCH, 'CMS.INCRBY k a 1 c 2'), (SKETCH, 'CMS.QUERY k a c'),
    (SKETCH, 'CMS.INFO k'), (SKETCH, 'CMS.MERGE k #2 k l'), (SKETCH, 'CMS.MERGE k 2 k l WEIGHTS #1 2'),
    ([], 'TDIGEST.CREATE k COMPRESSION #100'), (DIGEST, 'TDIGEST.ADD k 1 2'), (DIGEST, 'TDIGEST.QUANTILE k 0.5 1'), (DIGEST, 'TDIGEST.CDF k 1 2'),
    (DIGEST, 'TDIGEST.RANK k 1 2'), (DIGEST, 'TDIGEST.REVRANK k 1 2'), (DIGEST, 'TDIGEST.BYRANK k 0 1'), (DIGEST, 'TDIGEST.BYREVRANK k 0 1'),
    (DIGEST, 'TDIGEST.TRIMMED_MEAN k 0.1 0.9'), (DIGEST, 'TDIGEST.MIN k'), (DIGEST, 'TDIGEST.MAX k'), (DIGEST, 'TDIGEST.INFO k'),
    (DIGEST, 'TDIGEST.RESET k'), (DIGEST, 'TDIGEST.MERGE k #2 k l COMPRESSION #100 OVERRIDE'),
    ([], 'TOPK.RESERVE k #2 #100 #4 0.9'), (LIST, 'TOPK.ADD k c a'), (LIST, 'TOPK.INCRBY k a #3 c #4'), (LIST, 'TOPK.QUERY k a c'),
    (LIST, 'TOPK.COUNT k a c'), (LIST, 'TOPK.LIST k WITHCOUNT'), (LIST, 'TOPK.INFO k'),
]


def variants(rng, text):
    """(words, must it be refused?): each word after the name replaced, left out, or with another one behind it."""
    words = [word.lstrip('#').encode() for word in text.split()]
    yield words, False
    for at in range(1, len(words)):
        is_size = text.split()[at].startswith('#')
        wrong = [b'text', b'none'] if words[at] in (b'k', b'l') else rng.sample(WRONG, sized(8, long=len(WRONG))) + (HUGE if is_size else [])
        for word in wrong:
            yield words[:at] + [word] + words[at + 1:], is_size and word in HUGE
        if at > 1 or len(words) == 2:
            yield words[:at] + words[at + 1:], False
        yield words[:at + 1] + [b'1'] + words[at + 1:], False


class Player:
    def __init__(self, client, names):
        self.client, self.names = client, names

    def named(self, words):
        return [self.names.get(word, word) for word in words]

    def dumps(self):
        return [self.client.call('DUMP', key) for key in self.names.values()]

    def prepare(self, payloads):
        self.client.pipeline([['RESTORE', key, 0, payload[1], 'REPLACE'] if payload[1] else ['DEL', key]
                              for key, payload in zip(self.names.values(), payloads)])

    def play(self, payloads, words):
        """The replies alone, in MULTI and in a script; what a command that was refused has changed."""
        words, changed, replies = self.named(words), [], []
        for name, request in (('alone', [words]), ('in MULTI', [['MULTI'], words, ['EXEC']]),
                              ('in a script', [['EVAL', 'return redis.pcall(unpack(ARGV))', 0, *words]])):
            self.prepare(payloads)
            found = self.client.pipeline(request)
            reply = found[0] if len(found) == 1 else found[2][1][0] if found[1][1] == b'QUEUED' else found[1]
            if reply[0] == '-' and self.dumps() != payloads:
                changed.append(name)
            replies.append(reply)
        return replies, changed


def same(alone, other):
    """A script has one text for wrong numbers of arguments."""
    return alone == other or (alone[0] == other[0] == '-' and b'rong number of arg' in alone[1] and b'rong number of arg' in other[1])


@suite.case('no wrong argument crashes, takes memory, changes a key of a refused command, or has another reply in MULTI and in scripts')
def _(run):
    rng, count = random.Random(run.seed), 0
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        names = {b'k': cluster.key_on(0, 'k').encode(), b'l': cluster.key_on(1, 'l').encode(), b'text': cluster.key_on(2, 'text').encode(),
                 b'none': cluster.key_on(2, 'none').encode()}
        player = Player(client, names)
        processes = [*cluster.backends, *cluster.proxies]
        client.get('SET', names[b'text'], 'v')
        before = None
        for setup, text in COMMANDS:
            client.get('DEL', names[b'k'], names[b'l'])
            for words in setup:
                check(client.call(*player.named([word.encode() for word in words]))[0] != '-', words)
            payloads = player.dumps()
            for words, must_fail in variants(rng, text):
                replies, changed = player.play(payloads, words)
                shown = '%r: %s' % (words, ', '.join(show(reply) for reply in replies))
                check(not changed, 'refused, but it has changed a key %s: %s' % (changed, shown))
                check(all(same(replies[0], reply) for reply in replies[1:]), 'replies differ: %s' % shown)
                check(not must_fail or replies[0][0] == '-' or b'-' in [item[0].encode() for item in replies[0][1]], 'not refused: %s' % shown)
                count += 1
            before = before or [process.rss_bytes() for process in processes]
        grown = [process.rss_bytes() - was for process, was in zip(processes, before)]
        check(max(grown) < 256 * MB, 'memory: %s' % grown)
        check_equal(client.get('GET', names[b'text']), b'v')
        run.note('%d requests in three ways; the processes have grown by %s MB' % (count, [size // MB for size in grown]))


if __name__ == '__main__':
    suite.main()
