"""counters.py - clients that count keys up and read them, through proxies and at copies of shards; are the keys linearizable?

    work = Counting(cluster, number, rng, clients)      # keys of their own for each number
    …                                                   # work.clients run (support/turmoil.py)
    work.check(run)

A key is counted up by INCR only, so each value is the number of INCRs before it, and that is a place in the order of all of them:

    an INCR or GET that began after another had its reply   has no lower value; an INCR a higher one
    two INCRs                                               never have one value
    a value                                                 is no higher than the number of INCRs that had begun before its reply

A client at a copy asks any of them, also one that leads no more, goes where MOVED says, and gives up at any other error.
"""

import time
from bisect import bisect_left

from support.harness import check
from support.list_append import DONE, UNKNOWN
from support.turmoil import REPLY_TIMEOUT, Client

KEYS = 9


class Step:
    """An INCR or a GET; `value`: its reply, None: unknown."""

    def __init__(self, begin, end, is_change, value):
        self.begin, self.end, self.is_change, self.value = begin, end, is_change, value

    def __repr__(self):
        return '%s = %s (%.6f-%.6f)' % ('INCR' if self.is_change else 'GET', self.value, self.begin, self.end)


def wrong_steps(steps, final):
    """What is wrong with the history of a key, whose value at its end is `final`."""
    known = sorted((step for step in steps if step.value is not None), key=lambda step: step.end)
    changes = sorted(step.begin for step in steps if step.is_change)
    found, highest, ends, values = [], None, [], {}
    before = []  # before[i]: the step with the highest value of known[:i + 1]
    for step in known:
        highest = step if highest is None or step.value > highest.value else highest
        before.append(highest)
        ends.append(step.end)
        if step.is_change and values.setdefault(step.value, step) is not step:
            found.append('twice: %s, %s' % (values[step.value], step))
    for step in known:
        place = bisect_left(ends, step.begin)
        if place and before[place - 1].value >= step.value + (not step.is_change):
            found.append('old: %s after %s' % (step, before[place - 1]))
        if step.value > bisect_left(changes, step.end):
            found.append('from nowhere: %s, of %d INCRs' % (step, bisect_left(changes, step.end)))
    if final > len(changes) or final < (highest.value if highest else 0):
        found.append('at the end: %d, of %d INCRs, the highest was %s' % (final, len(changes), highest))
    return found


class Counter(Client):
    """Through the proxies; with `is_direct` at copies."""

    def __init__(self, cluster, keys, seed, is_direct):
        super().__init__(cluster, seed)
        self.keys, self.is_direct = keys, is_direct
        self.steps = {key: [] for key in keys}
        self.moved_to = None

    def connect(self):
        if not self.is_direct:
            return super().connect()
        address, self.moved_to = self.moved_to or self.rng.choice(self.cluster.backends).addresses[0], None
        return self.cluster.connect_to(address, REPLY_TIMEOUT)

    def one_request(self, connection):
        key, is_change = self.rng.choice(self.keys), self.rng.random() < 0.5
        begin = time.monotonic()
        reply = self.ask(connection, *(('INCR', key) if is_change else ('GET', key)))
        end = time.monotonic()
        outcome = self.note(reply)
        if outcome == DONE:
            self.steps[key].append(Step(begin, end, is_change, int(reply or 0)))
        elif outcome == UNKNOWN and is_change:
            self.steps[key].append(Step(begin, end, True, None))
        if outcome != DONE and str(reply).startswith('MOVED '):
            host, _, port = str(reply).split()[2].rpartition(':')
            self.moved_to = host, int(port)
        return outcome == DONE or (outcome != UNKNOWN and not self.is_direct)


class Counting:
    def __init__(self, cluster, number, rng, clients):
        self.cluster = cluster
        self.keys = [cluster.key_on(i % len(cluster.slots), 'counter:%d:%d' % (number, i)) for i in range(KEYS)]
        self.clients = [Counter(cluster, self.keys, rng.random(), i % 3 != 0) for i in range(clients)]

    def check(self, run):
        steps, wrong = 0, []
        with self.cluster.connect() as connection:
            for key in self.keys:
                history = [step for client in self.clients for step in client.steps[key]]
                wrong += ['%s: %s' % (key, text) for text in wrong_steps(history, int(connection.get('GET', key) or 0))]
                steps += len(history)
        run.note('%d steps of counters' % steps)
        check(not wrong, '%d wrong: %s' % (len(wrong), wrong[:3]))
