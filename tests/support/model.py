"""model.py - random commands with known replies.

Each OwnKeys belongs to one client and uses keys that no other client uses, so the exact reply to every command is known
when it is sent. A lost, doubled, reordered or foreign reply is detected at once, in any pipeline over any shards.

    own = OwnKeys('client-7', rng)
    args, want = own.next()          # want: the expected result of resp.value()
"""

from support.resp import ReplyError, encode


class OwnKeys:
    def __init__(self, name, rng, keys=12, blocks=True):
        self.name, self.rng, self.blocks = name, rng, blocks
        self.strings = {'%s:s%d' % (name, i): None for i in range(keys)}
        self.counters = {'%s:n%d' % (name, i): 0 for i in range(keys)}
        self.hashes = {'%s:h%d' % (name, i): {} for i in range(4)}
        self.tagged = {'{%s:t%d}%s' % (name, i, c): None for i in range(2) for c in 'ab'}
        self.serial = 0

    def unique(self):
        self.serial += 1
        return ('%s/%d' % (self.name, self.serial)).encode()

    def key(self):
        return self.rng.choice(list(self.strings))

    def next(self):
        """(arguments, expected value)"""
        return self.rng.choice(self.PLAIN)(self)

    def next_many(self):
        """[(arguments, expected value), …]: one command, or a whole MULTI block."""
        if self.blocks and self.rng.random() < 0.05:
            return self.block()
        return [self.next()]

    def pipeline(self, longest):
        commands = []
        length = self.rng.randint(1, longest)
        while len(commands) < length:
            commands += self.next_many()
        return commands

    # -- single commands

    def set(self):
        key, text = self.key(), self.unique() + b'x' * self.rng.choice([0, 0, 0, 100, 3000])
        self.strings[key] = text
        return ('SET', key, text), b'OK'

    def get(self):
        key = self.key()
        return ('GET', key), self.strings[key]

    def getset(self):
        key, text = self.key(), self.unique()
        old, self.strings[key] = self.strings[key], text
        return ('GETSET', key, text), old

    def incr(self):
        key = self.rng.choice(list(self.counters))
        self.counters[key] += 1
        return ('INCR', key), self.counters[key]

    def delete(self):
        keys = [self.key() for _ in range(self.rng.randint(1, 4))]
        count = sum(1 for key in set(keys) if self.strings[key] is not None)
        for key in keys:
            self.strings[key] = None
        return ('DEL', *keys), count

    def exists(self):
        keys = [self.key() for _ in range(self.rng.randint(1, 4))]
        return ('EXISTS', *keys), sum(1 for key in keys if self.strings[key] is not None)

    def mget(self):
        keys = [self.key() for _ in range(self.rng.randint(1, 8))]
        return ('MGET', *keys), [self.strings[key] for key in keys]

    def mset(self):
        words = ['MSET']
        for _ in range(self.rng.randint(1, 6)):
            key, text = self.key(), self.unique()
            self.strings[key] = text
            words += [key, text]
        return tuple(words), b'OK'

    def hset(self):
        key = self.rng.choice(list(self.hashes))
        field, text = b'f%d' % self.rng.randint(0, 5), self.unique()
        is_new = field not in self.hashes[key]
        self.hashes[key][field] = text
        return ('HSET', key, field, text), int(is_new)

    def hmget(self):
        key = self.rng.choice(list(self.hashes))
        fields = [b'f%d' % self.rng.randint(0, 6) for _ in range(3)]
        return ('HMGET', key, *fields), [self.hashes[key].get(field) for field in fields]

    def echo(self):
        text = self.unique()
        return (self.rng.choice(['ECHO', 'PING']), text), text

    def unknown(self):
        name = self.unique().decode()
        return (name,), ReplyError("ERR unknown command '%s', with args beginning with: " % name)

    def wrong(self):
        key = self.key()
        return ('GET', key, 'too', 'many'), ReplyError("ERR wrong number of arguments for 'get' command")

    PLAIN = [set, set, set, get, get, get, getset, incr, incr, delete, exists, mget, mset, hset, hmget, echo, unknown,
             wrong]

    # -- MULTI … EXEC on keys of one tag

    def block(self):
        tag = self.rng.randint(0, 1)
        keys = [key for key in self.tagged if ':t%d}' % tag in key]
        commands, wants = [(('MULTI',), b'OK')], []
        for _ in range(self.rng.randint(0, 4)):
            key, text = self.rng.choice(keys), self.unique()
            if self.rng.random() < 0.5:
                commands.append((('SET', key, text), b'QUEUED'))
                wants.append(b'OK')
                self.tagged[key] = text
            else:
                commands.append((('GET', key), b'QUEUED'))
                wants.append(self.tagged[key])
        commands.append((('EXEC',), wants))
        return commands


def encode_all(commands):
    return b''.join(encode(args) for args, _ in commands)
