"""appenders.py - clients that append to lists and read them, over shards; list_append.py checks what they saw.

    work = Appending(cluster, number, rng, clients)     # lists of their own for each number
    …                                                   # work.clients run (support/turmoil.py)
    work.check(run)
"""

import itertools
import threading
import time

from support.harness import check, check_equal
from support.list_append import DONE, UNKNOWN, Append, Read, Transaction, anomalies
from support.turmoil import Client

LISTS, LIST_LENGTH = 7, 50
SCRIPT = """local replies = {}
for i = 1, #ARGV, 2 do
    if ARGV[i + 1] == '' then replies[#replies + 1] = redis.call('LRANGE', ARGV[i], 0, -1)
    else replies[#replies + 1] = redis.call('RPUSH', ARGV[i], ARGV[i + 1]) end
end
return replies"""


class Lists:
    """The names of the lists in use. A list that has LIST_LENGTH values is replaced by a new one, since every read returns
    the whole list."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.lock = cluster, number, threading.Lock()
        self.values, self.counts, self.used = itertools.count(1), [0] * LISTS, set()

    def choose(self, rng, count):
        with self.lock:
            return [self.name(place) for place in rng.sample(range(LISTS), count)]

    def name(self, place):
        prefix = 'list:%d:%d:%d' % (self.number, place, self.counts[place] // LIST_LENGTH)
        name = self.cluster.key_on(place % len(self.cluster.slots), prefix)
        self.used.add(name)
        return name

    def new_value(self, name):
        with self.lock:
            self.counts[int(name.split(':')[2])] += 1
            return next(self.values)


class Appender(Client):
    """Appends to lists and reads them: in MULTI, in scripts, and by single commands."""

    def __init__(self, cluster, lists, seed):
        super().__init__(cluster, seed)
        self.lists, self.history = lists, []

    def one_request(self, connection):
        operations, send = self.choose()
        begin = time.monotonic()
        reply = send(connection, operations)
        end = time.monotonic()
        outcome = self.note(reply)
        if outcome == DONE:
            check_equal(len(reply), len(operations), 'replies')
            for step, part in zip(operations, reply):
                if isinstance(step, Append):
                    step.length = part
                else:
                    step.items = list(map(int, part))
        self.history.append(Transaction('%s of %s' % (send.__name__, self.name), begin, end, outcome, operations))
        return outcome != UNKNOWN

    def choose(self):
        """(operations, the function that sends them)"""
        dice = self.rng.random()
        if dice < 0.15:
            return [self.operation(self.lists.choose(self.rng, 1)[0])], self.send_alone
        names = self.lists.choose(self.rng, self.rng.choice([1, 2, 2, 3, 3]))
        operations = [self.operation(name) for name in names + self.rng.choices(names, k=self.rng.randrange(3))]
        return operations, self.send_script if dice < 0.45 else self.send_multi

    def operation(self, name):
        return Append(name, self.lists.new_value(name)) if self.rng.random() < 0.5 else Read(name)

    def words(self, step):
        return ['RPUSH', step.key, step.item] if isinstance(step, Append) else ['LRANGE', step.key, 0, -1]

    def send_alone(self, connection, operations):
        reply = self.ask(connection, *self.words(operations[0]))
        return reply if isinstance(reply, Exception) else [reply]

    def send_multi(self, connection, operations):
        return self.exec(connection, [self.words(step) for step in operations])

    def send_script(self, connection, operations):
        keys = [step.key for step in operations] if self.rng.random() < 0.5 else []  # else: no key is declared
        pairs = [(step.key, step.item if isinstance(step, Append) else '') for step in operations]
        return self.ask(connection, 'EVAL', SCRIPT, len(keys), *keys, *itertools.chain(*pairs))


class Appending:
    def __init__(self, cluster, number, rng, clients):
        self.cluster, self.lists = cluster, Lists(cluster, number)
        self.clients = [Appender(cluster, self.lists, rng.random()) for _ in range(clients)]

    def check(self, run):
        """The history is strictly serializable, and ends with what the lists have now."""
        with self.cluster.connect() as connection:
            final = {name: list(map(int, connection.get('LRANGE', name, 0, -1))) for name in self.lists.used}
        history = [transaction for client in self.clients for transaction in client.history]
        unknown = [transaction for transaction in history if transaction.outcome == UNKNOWN]
        run.note('%d transactions, %d lists, %d values; unknown: %d'
                 % (len(history), len(final), sum(map(len, final.values())), len(unknown)))
        found = anomalies(history, final)
        check(not found, '%d anomalies: %s' % (len(found), found[:3]))
