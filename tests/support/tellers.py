"""tellers.py - clients that move money between accounts on several shards; the sum of all accounts is the same in every read.

    work = Bank(cluster, number, rng, clients)          # accounts of their own for each number
    …                                                   # work.clients run (support/turmoil.py)
    work.check(run)
"""

import itertools

from support.harness import check, check_equal
from support.list_append import DONE
from support.turmoil import Client, outcome_of

ACCOUNTS, BALANCE = 12, 1000
TRANSFER = """redis.call('DECRBY', KEYS[1], ARGV[1])
return redis.call('INCRBY', KEYS[2], ARGV[1])"""
ADD_UP = """local sum = 0
for i = 1, #ARGV do sum = sum + redis.call('GET', ARGV[i]) end
return sum"""


class Teller(Client):
    """Moves money: by MULTI, by a script, or with WATCH and absolute values. Adds up all accounts."""

    def __init__(self, cluster, accounts, seed):
        super().__init__(cluster, seed)
        self.accounts, self.sums, self.conflicts = accounts, 0, 0

    def one_request(self, connection):
        source, target = self.rng.sample(self.accounts, 2)
        work = self.rng.choice([self.multi, self.script, self.watch, self.add_up, self.add_up_script])
        return self.note(work(connection, source, target, self.rng.randrange(1, 10))) == DONE  # else keys may be watched

    def multi(self, connection, source, target, amount):
        return self.exec(connection, [['DECRBY', source, amount], ['INCRBY', target, amount]])

    def script(self, connection, source, target, amount):
        return self.ask(connection, 'EVAL', TRANSFER, 2, source, target, amount)

    def watch(self, connection, source, target, amount):
        reply = self.ask(connection, 'WATCH', source, target)
        if isinstance(reply, Exception):
            return reply
        balances = [self.ask(connection, 'GET', key) for key in (source, target)]
        for reply in balances:
            if isinstance(reply, Exception):
                return reply
        reply = self.exec(connection, [['SET', source, int(balances[0]) - amount], ['SET', target, int(balances[1]) + amount]])
        self.conflicts += reply is None
        return reply

    def add_up(self, connection, *_):
        reply = self.exec(connection, [['MGET', *self.accounts[:5]], *(['GET', key] for key in self.accounts[5:])])
        if outcome_of(reply) == DONE:
            self.check_sum(sum(map(int, reply[0] + reply[1:])))
        return reply

    def add_up_script(self, connection, *_):
        reply = self.ask(connection, 'EVAL', ADD_UP, 0, *self.accounts)
        if outcome_of(reply) == DONE:
            self.check_sum(reply)
        return reply

    def check_sum(self, total):
        check_equal(total, ACCOUNTS * BALANCE, 'the sum of all accounts')
        self.sums += 1


class Bank:
    def __init__(self, cluster, number, rng, clients):
        self.cluster = cluster
        self.accounts = [cluster.key_on(i % len(cluster.slots), 'account:%d:%d' % (number, i)) for i in range(ACCOUNTS)]
        with cluster.connect() as connection:
            check_equal(connection.get('MSET', *itertools.chain(*((key, BALANCE) for key in self.accounts))), b'OK')
        self.clients = [Teller(cluster, self.accounts, rng.random()) for _ in range(clients)]

    def check(self, run):
        with self.cluster.connect() as connection:
            check_equal(sum(map(int, connection.get('MGET', *self.accounts))), ACCOUNTS * BALANCE, 'the sum at the end')
        run.note('%d sums, %d conflicts' % (sum(client.sums for client in self.clients), sum(client.conflicts for client in self.clients)))
        check(any(client.sums for client in self.clients), 'no client has added up')
