#!/usr/bin/python3
"""Everything is restarted, one process after the other, and clients with redis-py's default settings see no error."""

import contextlib
import signal
import threading
import time

import redis
from support.cluster import slot_of
from support.copies import TwoShards
from support.harness import Suite, check, check_equal, sized, wait_for
from support.members import Members
from support.resp import Closed, value

suite = Suite(__doc__)
CLIENTS = 4
KEYS = 6
PATIENT = {'upstream': {'hold': '1m'}}  # a slow machine needs long to start a backend
BEGUN = b'hand_over_begun'  # in the log of a copy that gives its lead to another one


def connection_to_any(addresses):
    """A class of connections that go to the next proxy if one refuses them, as with a balancer that passes packets on (IPVS)."""
    class ConnectionToAny(redis.Connection):
        def _connect(self):
            for place in range(len(addresses)):
                self.host, self.port = addresses[(place + id(self)) % len(addresses)]
                try:
                    return super()._connect()
                except ConnectionRefusedError:
                    if place == len(addresses) - 1:
                        raise
    return ConnectionToAny


class Client(threading.Thread):
    """Counts its keys up, and looks at each reply."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        pool = redis.ConnectionPool(connection_class=connection_to_any([proxy.address[:2] for proxy in cluster.proxies]))
        self.client = redis.Redis(connection_pool=pool)
        self.keys = ['{%d}:%d' % (number, i) for i in range(KEYS)]
        self.rounds, self.errors, self.is_over = 0, [], False

    def one_round(self, expected):
        text = b'%d' % expected
        got = [self.client.incr(key) for key in self.keys]
        got += [self.client.mget(self.keys), self.client.pipeline().get(self.keys[0]).incr(self.keys[0] + ':t').execute()]
        wanted = [expected] * KEYS + [[text] * KEYS, [text, expected]]
        if got != wanted:
            self.errors.append('%s instead of %s' % (got, wanted))

    def run(self):
        while not self.is_over and not self.errors:
            self.rounds += 1
            try:
                self.one_round(self.rounds)
            except redis.RedisError as error:
                self.errors.append('%s: %s' % (type(error).__name__, error))

    def wait_more(self, rounds=20):
        goal = self.rounds + rounds
        wait_for(lambda: self.rounds > goal or self.errors, 'clients to go on')


class Dealer(threading.Thread):
    """Changes keys of two shards together, over and over, and looks at each reply."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.number = cluster, number
        self.keys = [next(key for key in ('%d:%d' % (number, i) for i in range(1000)) if (slot_of(key) < 8192) == is_first)
                     for is_first in (True, False)]
        self.rounds, self.errors, self.is_over = 0, [], False

    def one_round(self, client, expected):
        one, other = self.keys
        requests = [('INCR', one), ('INCR', other), ('MGET', one, other), ('MULTI',), ('INCR', '{%s}t' % one), ('INCR', '{%s}t' % other), ('EXEC',),
                    ('RENAME', one, '{%s}r' % other), ('RENAME', '{%s}r' % other, one)]
        client.send_many(requests)
        got = [value(client.read()) for _ in requests]
        text = b'%d' % expected
        wanted = [expected, expected, [text] * 2, b'OK', b'QUEUED', b'QUEUED', [expected] * 2, b'OK', b'OK']
        if got != wanted:
            self.errors.append('%s instead of %s' % (got, wanted))

    def run(self):
        try:
            with self.cluster.connect(self.number % len(self.cluster.proxies)) as client:
                while not self.is_over and not self.errors:
                    self.rounds += 1
                    self.one_round(client, self.rounds)
        except Exception as error:  # the case reports it
            self.errors.append('%s: %s' % (type(error).__name__, error))

    wait_more = Client.wait_more


class Clients:
    def __init__(self, cluster, count=CLIENTS, make=Client):
        self.list = [make(cluster, number) for number in range(count)]

    def __enter__(self):
        for client in self.list:
            client.start()
        self.wait_more()
        return self

    def wait_more(self):
        for client in self.list:
            client.wait_more()
        self.check()

    def check(self):
        errors = [error for client in self.list for error in client.errors]
        check(not errors, '%d errors, the first: %s' % (len(errors), (errors or [''])[0]))

    def __exit__(self, kind, error, trace):
        for client in self.list:
            client.is_over = True
        for client in self.list:
            client.join()
        if kind is None:
            self.check()


@suite.case('all backends and proxies of a shard with voters are restarted one after the other: redis-py sees no error')
def _(run):
    with Members(proxies=2, proxy_options=PATIENT) as members, Clients(members) as clients:
        for _ in range(sized(1, long=20)):
            for backend in members.backends:
                members.wait_voters(0, 1, 2)
                backend.stop()
                clients.wait_more()
                backend.start()
                clients.wait_more()
            for proxy in members.proxies:
                proxy.stop()
                clients.wait_more()
                proxy.start()
                clients.wait_more()
        run.note('%d rounds' % sum(client.rounds for client in clients.list))


@suite.case('the first address of the map leads again when its copy is back, without an error; not if an operator gave its lead away')
def _(run):
    options = {'backend': {'leader-return': '1s'}}
    with Members(proxies=2, proxy_options=PATIENT, backend_options=options) as members:
        wait_for(lambda: members.serves(0), 'the first address to lead')
        members.wait_voters(0, 1, 2)
        members.backends[0].kill9()
        members.wait_leader(0)
        members.backends[0].start()
        with Clients(members) as clients:
            wait_for(lambda: members.serves(0), 'the first address to lead again')
            clients.wait_more()
            with members.copy(0) as client:
                wait_for(lambda: client.get('SCREE', 'LEADER', 'TO', members.address(1)) == b'OK', 'the hand-over to begin')
            wait_for(lambda: BEGUN in members.backends[0].log(), 'its log line')
            wait_for(lambda: members.serves(1), 'the other copy to lead')
            begun = members.backends[1].log().count(BEGUN)
            members.wait_voters(0, 1, 2)
            for _ in range(6):
                clients.wait_more()
                time.sleep(0.5)
            # on a busy machine the copies may elect another leader, but this one does not give its lead back
            check_equal(members.backends[1].log().count(BEGUN), begun, 'times that it has given its lead away')


class OneFirst(Members):
    """A shard that begins with one copy."""

    def wait_linked(self):
        self.wait_serves(0)


def from_one_to_three(members):
    """The indexes of four copies that are added to the first: two run, the others are for later."""
    added = [members.add() for _ in range(4)]
    members.order = [0] + added[:2]
    members.write_shards()
    for index in added[:2]:  # before the first copy is restarted, which waits for them
        members.start_retrying(members.backends[index])
    members.backends[0].stop()
    members.backends[0].start()
    return added


@suite.case('a shard has one copy, then three, five, three and one, under redis-py without an error; the leader stays or leaves')
def _(run):
    options = {'backend': {'election-timeout': '3s'}}
    for does_leave in (False, True):
        with OneFirst(copies=1, proxies=1, proxy_options=PATIENT, backend_options=options) as members, Clients(members, 2) as clients:
            one, two, three, four = from_one_to_three(members)
            last = [[one, three, four], [four]] if does_leave else [[0, three, four], [0]]
            for order in [[0, one, two], [0, one, two, three, four]] + last:
                members.change(order)
                clients.wait_more()
                for backend in members.backends:
                    if backend.alive() and backend.index not in order:
                        backend.stop()
                clients.wait_more()


class Shards(TwoShards):
    """Two shards with three copies each, which vote."""

    def __init__(self):
        super().__init__(orders=([0, 1, 2], [3, 4, 5]), replicas='voters', proxies=2, proxy_options=PATIENT)

    def leader_of(self, shard):
        """Waits until a copy of the shard serves, and both others follow it closely."""
        def found():
            for index in self.orders[shard]:
                if self.phase(index) == 'serving' and self.has_followers(index):
                    return (index,)
            return None
        return wait_for(found, 'shard %d to have a leader that both others follow' % shard)[0]

    def has_followers(self, index):
        lines = [line for line in self.replicas(index)[1] if line['kind'] == 'voter' and line['up'] == 'yes']
        return len(lines) == 3

    def address_of_next(self, shard, leader):
        order = self.orders[shard]
        return '%s:%d' % self.backends[order[(order.index(leader) + 1) % len(order)]].addresses[0][:2]

    def hand_over(self, shard, leader):
        """Asks the leader to give its role to the next copy; it refuses until it has heard how far the others are."""
        with self.copy(leader) as client:
            wait_for(lambda: client.get('SCREE', 'LEADER', 'TO', self.address_of_next(shard, leader)) == b'OK', 'the hand-over to begin')

    def has_given(self, shard, leader):
        """If the copy leads on, because this machine is slow, it is asked again."""
        if self.leader_of(shard) != leader:
            return True
        with contextlib.suppress(OSError, Closed), self.copy(leader) as client:
            client.get('SCREE', 'LEADER', 'TO', self.address_of_next(shard, leader))
        return False


@suite.case('leaders of two shards hand over at the same time, again and again: transactions over both shards go on without an error')
def _(run):
    with Shards() as shards:
        for shard in (0, 1):
            shards.leader_of(shard)
        with Clients(shards, 6, Dealer) as clients:
            for _ in range(sized(15, long=300)):
                leaders = [shards.leader_of(shard) for shard in (0, 1)]
                for shard, leader in enumerate(leaders):
                    shards.hand_over(shard, leader)
                for shard, leader in enumerate(leaders):
                    wait_for(lambda: shards.has_given(shard, leader), 'another copy to lead', pause=0.1)
                clients.check()
            clients.wait_more()


def drop_leader(shards, shard):
    """A map without the leader of the shard, for all programs; returns the leader."""
    leader = next(index for index in shards.orders[shard] if shards.phase(index) == 'serving')
    shards.orders[shard].remove(leader)
    return leader


@suite.case('a map drops the leaders of two shards: transactions over both shards go on without an error')
def _(run):
    with Shards() as shards:
        for shard in (0, 1):
            shards.leader_of(shard)
        with Clients(shards, 4, Dealer) as clients:
            for _ in range(2):
                leaders = [drop_leader(shards, shard) for shard in (0, 1)]
                shards.reload()
                for proxy in shards.proxies:
                    proxy.signal(signal.SIGHUP)
                for order in shards.orders:
                    wait_for(lambda: any(shards.phase(index) == 'serving' for index in order), 'a copy of the map to lead')
                clients.wait_more()
                for leader in leaders:
                    wait_for(lambda: shards.phase(leader) != 'serving', 'the leader to go')
                    shards.backends[leader].stop()
                clients.wait_more()


if __name__ == '__main__':
    suite.main()
