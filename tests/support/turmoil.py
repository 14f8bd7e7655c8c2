"""turmoil.py - clients in threads, while the programs they use are killed and frozen, and their connections fail.

    with Turmoil(run, cluster, clients) as turmoil:      # starts the clients
        turmoil.strike()                                 # a fault; returns when every client is served again
    # the clients have ended; an exception in one of them is raised here

  kill      kill -9, and a start           cut       connections are reset, a random part of them, several times
  freeze    SIGSTOP, SIGCONT               mute      what is sent is lost, and no side learns of it
                                           hold      what is sent arrives seconds later, also after the sender has given up

The last three need relays in front of proxies and backends (support/relay.py): connections between clients and proxies, proxies
and backends, and backends with each other.

A client uses a proxy chosen at random and another one after an unknown outcome. The outcome of a request is DONE, REFUSED (nothing
was done, as the error says) or UNKNOWN: the connection to the proxy or to the shard was lost after it was sent.
"""

import random
import re
import threading
import time

from support.harness import check, patience, wait_for
from support.list_append import DONE, REFUSED, UNKNOWN
from support.resp import Closed, ReplyError

FAULTS = ('kill', 'kill', 'kill', 'freeze', 'freeze')
FAULTS_OF_RELAYS = ('cut', 'cut', 'mute', 'hold')
REPLY_TIMEOUT = 10  # seconds after which a client gives a connection up
NOT_DONE = ('TRYAGAIN', 'EXECABORT', 'MOVED ', 'READONLY ', 'not reachable', 'variable changed')
SERVED = 3  # a client is served again when so many of its requests have succeeded


def outcome_of(reply):
    """DONE, REFUSED or UNKNOWN, by the reply or the exception."""
    if not isinstance(reply, Exception):
        return DONE
    if isinstance(reply, (OSError, Closed)):
        return UNKNOWN
    return REFUSED if any(words in str(reply) for words in NOT_DONE) else UNKNOWN


class Client(threading.Thread):
    """A client with support.resp. A subclass has one_request(connection), which returns False to get another connection."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.rng = cluster, random.Random(seed)
        self.stopping = threading.Event()
        self.served = 0  # successes since Turmoil set it to 0
        self.counts = {DONE: 0, REFUSED: 0, UNKNOWN: 0}
        self.reasons = {}
        self.failure = None

    def run(self):
        try:
            while not self.stopping.is_set():
                try:
                    with self.connect() as connection:
                        while not self.stopping.is_set() and self.one_request(connection):
                            pass
                except (OSError, Closed):
                    pass  # this proxy is down
                time.sleep(0.01)
        except Exception as error:  # the test raises it
            self.failure = error

    def connect(self):
        return self.cluster.connect(self.rng.randrange(len(self.cluster.proxies)), REPLY_TIMEOUT)

    def ask(self, connection, *words):
        """The reply, or the exception that the request ended with."""
        try:
            return connection.get(*words)
        except (OSError, Closed) as error:
            return error

    def note(self, reply):
        """Counts the request and returns its outcome."""
        outcome = outcome_of(reply)
        self.counts[outcome] += 1
        self.served += outcome == DONE
        if outcome != DONE:
            reason = re.sub(r"'[^']*'|\([^)]*\)|[0-9]+", '…', '%s: %s' % (type(reply).__name__, reply))
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return outcome

    def exec(self, connection, commands):
        """MULTI, the commands, EXEC. The reply of EXEC, or the error that prevented it; no error may be inside."""
        try:
            for words in [['MULTI'], *commands]:
                reply = connection.get(*words)
                if isinstance(reply, ReplyError):
                    connection.get('DISCARD')
                    return reply
        except (OSError, Closed):
            connection.close()  # after a timeout, a late reply would be taken for that of the next request
            return ReplyError('TRYAGAIN the connection was lost before EXEC')
        reply = self.ask(connection, 'EXEC')
        if isinstance(reply, list):
            check(not any(isinstance(part, ReplyError) for part in reply), 'half of a transaction: %r of %r' % (reply, commands))
        return reply


class Turmoil:
    def __init__(self, run, cluster, clients):
        self.run, self.cluster, self.clients, self.rng = run, cluster, clients, run.rng
        self.possible = FAULTS + (FAULTS_OF_RELAYS if cluster.relays else ())
        self.faults = dict.fromkeys(self.possible, 0)

    def __enter__(self):
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, kind, *_):
        for client in self.clients:
            client.stopping.set()
        for client in self.clients:
            client.join(patience())
        if kind is None:
            self.check_clients()
            check(not any(client.is_alive() for client in self.clients), 'a client still waits')
        return False

    def check_clients(self):
        for client in self.clients:
            if client.failure:
                raise client.failure

    def wait_served(self):
        """Every client is served, so all locks that crashed programs had left are gone."""
        for client in self.clients:
            client.served = 0
        def are_served():
            self.check_clients()
            return all(client.served >= SERVED for client in self.clients)
        wait_for(are_served, 'all clients to be served')

    def strike(self, possible=()):
        fault = self.rng.choice(possible or self.possible)
        victims = self.victims_of(fault)
        getattr(self, fault)(list(set(self.rng.sample(victims, self.rng.choice([1, 1, 2, 3])))))
        self.faults[fault] += 1
        self.wait_served()

    def victims_of(self, fault):
        return self.cluster.backends * 2 + self.cluster.proxies if fault in FAULTS else list(self.cluster.relays.values())

    def kill(self, victims):
        for victim in victims:
            victim.kill9()
        self.bring_back(victims)

    def bring_back(self, victims):
        time.sleep(self.rng.choice([0, 0, 0.3, 2.5]))  # a participant asks for the outcome after two seconds
        for victim in victims:
            victim.spawn()
        for victim in victims:
            victim.wait_ready()

    def freeze(self, victims):
        for victim in victims:
            victim.pause()
        time.sleep(self.rng.choice([0.05, 0.3, 1.5]))
        for victim in victims:
            victim.resume()

    def cut(self, relays):
        for _ in range(self.rng.randrange(1, 6)):
            for relay in relays:
                relay.spoil('reset', self.rng.choice([0.3, 1]))
            time.sleep(self.rng.choice([0, 0.05, 0.5]))

    def mute(self, relays):
        self.spoil_for_a_while('mute', relays)
        wait_for(lambda: not any(relay.count_damaged() for relay in relays), 'connections that have lost bytes to be closed')

    def hold(self, relays):
        self.spoil_for_a_while('hold', relays)

    def spoil_for_a_while(self, what, relays):
        share = self.rng.choice([0.3, 1])
        for relay in relays:
            relay.spoil(what, share)
        time.sleep(self.rng.choice([0.3, 2.5, 8]))
        for relay in relays:
            relay.spoil('heal')

    def report(self):
        counts = {outcome: sum(client.counts[outcome] for client in self.clients) for outcome in (DONE, REFUSED, UNKNOWN)}
        self.run.note(', '.join('%s: %d' % fault for fault in self.faults.items()) + '; '
                      '%(done)d requests done, %(refused)d refused, %(unknown)d unknown' % counts)
        reasons = {}
        for client in self.clients:
            for reason, count in client.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + count
        for reason in sorted(reasons, key=reasons.get, reverse=True):
            self.run.debug('%d × %s' % (reasons[reason], reason))


def wait_for_silence(cluster):
    """Waits until the shards have connections, and no incomplete transaction, as each proxy sees it."""
    cluster.wait_linked()
    for proxy in range(len(cluster.proxies)):
        with cluster.connect(proxy) as connection:
            wait_for(lambda: connection.get('SCREE', 'TRANSACTIONS') == [], 'all transactions to end')
