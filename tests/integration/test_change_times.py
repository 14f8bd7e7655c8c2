#!/usr/bin/python3
"""SCREE CHANGES TOKEN AT: behind the token of a time are all changes after it, at all shards, and no others; where that cannot be told, it is
refused."""

import os
import re
import shutil
import subprocess
import threading
import time

from support.cluster import Cluster
from support.copies import UNHURRIED, Voters
from support.harness import Suite, check, check_equal, sized, wait_for
from support.moves import random_slots, wait_settled
from support.resp import ReplyError, value

suite = Suite(__doc__)
ON = {'store': {'change-log': '1gb'}}
ORIGINS_ROW = '0x61'
SMALL = {'store': {'change-log': '1gb', 'wal-limit': '1mb', 'memtable': '1mb'}}


def moment_of(partitions):
    """A Unix time in ms after all batches that these partitions have written, and before all later ones."""
    times = [re.search(rb'log_hybrid_us:(\d+)', partition.get('INFO', 'persistence')) for partition in partitions]
    moment = max(int(found[1]) for found in times) // 1000 + 1

    def has_passed(partition):
        seconds, micros = partition.get('TIME')
        return int(seconds) * 1000000 + int(micros) > (moment + 1) * 1000
    for partition in partitions:
        wait_for(lambda partition=partition: has_passed(partition), 'the moment to be over')
    return moment


def moment_now(cluster, shards=2):
    partitions = [cluster.partition(shard) for shard in range(shards)]
    try:
        return moment_of(partitions)
    finally:
        for partition in partitions:
            partition.close()


def answered(client, *words):
    """The reply, when no shard says TRYAGAIN, and the proxy is connected to those that were started again."""
    passing = ('TRYAGAIN', 'LOADING', 'SHARDLOST')
    return wait_for(lambda: [reply for reply in [client.get('SCREE', 'CHANGES', *words)] if not str(reply).startswith(passing)],
                    'the shards to answer')[0]


def token_at(client, moment):
    token = answered(client, 'TOKEN', 'AT', moment)
    check(not isinstance(token, ReplyError), '%r' % token)
    return token


def refusal_at(client, moment):
    reply = answered(client, 'TOKEN', 'AT', moment)
    check(isinstance(reply, ReplyError), '%r' % reply)
    return str(reply)


def keys_after(client, token):
    """The keys of all events from the token on."""
    keys, lag = set(), 1
    while lag:
        token, events, lag = answered(client, 'READ', token)
        keys |= {event[3] for event in events}
    return keys


def set_keys(client, name):
    """Sets keys at all shards."""
    keys = {b'%s:%d' % (name, i) for i in range(30)}
    for key in keys:
        wait_for(lambda key=key: client.get('SET', key, 1) == b'OK', 'a write')
    return keys


def give(cluster, client, slots):
    """Waits until the shards of this map have their slots, and the proxy's worker of this client has the map."""
    cluster.write_shards(slots)
    wait_settled(cluster, range(len(slots)))
    line = b'cluster_current_epoch:%d\r' % cluster.epoch
    wait_for(lambda: line in client.get('CLUSTER', 'INFO'), 'the worker to have the map')


@suite.case('the token of a time has the later changes, wherever in the log it is, also after kill -9 of all')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=SMALL) as cluster, cluster.connect() as client:
        expected, moments = [], []
        for step in range(sized(8, long=40)):
            moments.append(moment_now(cluster))
            expected.append(set_keys(client, b'step %d' % step))
            client.get('SET', 'big:%d' % (step % 3), b'v' * 400000)  # segments end
        for kill in (False, True):
            for backend in cluster.backends if kill else ():
                backend.kill9()
            for backend in cluster.backends if kill else ():
                backend.start()
            for step, moment in enumerate(moments):
                found = {key for key in keys_after(client, token_at(client, moment)) if not key.startswith(b'big')}
                check_equal(found, set().union(*expected[step:]))
        check_equal(keys_after(client, token_at(client, moment_now(cluster))), set())


@suite.case('a time that has not come, one before the cluster, and what is no time are refused')
def _(run):
    early = int(time.time() * 1000) - 1000
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster, cluster.connect() as client:
        check(refusal_at(client, early).startswith('CHANGESLOST slots were claimed after this time'), 'before the cluster')
        reply = client.get('SCREE', 'CHANGES', 'TOKEN', 'AT', int(time.time() * 1000) + 3600000)
        check(re.match("TRYAGAIN shard 'b[01]p0': this time has not passed yet", str(reply)), '%r' % reply)
        for wrong in ('0', '-1', 'x', '1' * 19):
            check_equal(str(client.get('SCREE', 'CHANGES', 'TOKEN', 'AT', wrong)), 'ERR AT must be a Unix time in milliseconds')
        for words in (['AT'], ['TO', early], ['AT', early, 1]):
            check(str(client.get('SCREE', 'CHANGES', 'TOKEN', *words)).startswith('ERR expected SCREE CHANGES READ'), words)


@suite.case('a time from which on the log is not kept any more is CHANGESLOST')
def _(run):
    options = {'store': {'change-log': '1mb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    with Cluster(backends=1, partitions=1, linked=True, backend_options=options) as cluster, cluster.connect() as client:
        set_keys(client, b'old')
        moment = moment_now(cluster, 1)

        def is_lost():
            client.pipeline([['SET', 'k', b'v' * 20000]] * 10)
            return isinstance(answered(client, 'TOKEN', 'AT', moment), ReplyError)
        wait_for(is_lost, 'the log to be longer than what is kept', pause=0)
        text = refusal_at(client, moment)
        check(text.startswith("CHANGESLOST shard 'b0p0': the log begins with batch "), text)
        later = moment_now(cluster, 1)
        client.get('SET', 'new', 1)
        check_equal(keys_after(client, token_at(client, later)), {b'new'})


@suite.case('slots have moved since: the shards from which they came must be there, with their logs')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, proxies=1, backend_options=ON) as cluster, cluster.connect() as client:
        first = moment_now(cluster, 3)
        keys = set_keys(client, b'a')
        give(cluster, client, ['0-99', '100-9999', '10000-16383'])
        give(cluster, client, ['100-9999', '10000-16383', '0-99'])
        keys |= set_keys(client, b'b')
        check_equal(keys_after(client, token_at(client, first)), keys)
        for backend in cluster.backends:
            backend.kill9()
        for backend in cluster.backends:
            backend.start()
        check_equal(keys_after(client, token_at(client, first)), keys)

        give(cluster, client, ['0-8191', '8192-16383', ''])
        drained = moment_now(cluster, 3)
        keys = set_keys(client, b'c')
        give(cluster, client, ['0-8191', '8192-16383'])
        text = refusal_at(client, first)
        check(text.startswith("CHANGESLOST shard 'b2p0' is not in the shard map any more, and had slots after this time"), text)
        check_equal(keys_after(client, token_at(client, drained)), keys)

        third = cluster.backends[2]  # comes back empty, as another one of the same name
        third.stop()
        shutil.rmtree(third.data)
        third.start()
        give(cluster, client, ['0-4999', '8192-16383', '5000-8191'])
        keys |= set_keys(client, b'd')
        check_equal(keys_after(client, token_at(client, drained)), keys)
        another = "CHANGESLOST slots have left shard 'b2p0' after this time, and it may have another log now"
        text = refusal_at(client, first)
        check(text.startswith(another), text)
        give(cluster, client, ['0-8191', '8192-16383', ''])
        keys |= set_keys(client, b'e')
        check_equal(keys_after(client, token_at(client, drained)), keys)
        text = refusal_at(client, first)
        check(text.startswith(another), text)
        last = moment_now(cluster, 3)
        check_equal(keys_after(client, token_at(client, last)), set())


@suite.case('a shard that has joined after the time, and whose slots have left again, is read from its first batch on')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, proxies=1, backend_options=ON, slots=['0-8191', '8192-16383']) as cluster, \
            cluster.connect() as client:
        moment = moment_now(cluster)
        keys = set_keys(client, b'a')
        third = cluster.backends[2]
        third.stop()
        shutil.rmtree(third.data)
        third.start()
        give(cluster, client, ['0-4999', '8192-16383', '5000-8191'])
        keys |= set_keys(client, b'b')
        give(cluster, client, ['0-8191', '8192-16383', ''])
        keys |= set_keys(client, b'c')
        for kill in (False, True):
            for backend in cluster.backends if kill else ():
                backend.kill9()
            for backend in cluster.backends if kill else ():
                backend.start()
            check_equal(keys_after(client, token_at(client, moment)), keys)

        third.stop()  # comes back empty: what changed there is gone
        shutil.rmtree(third.data)
        third.start()
        text = refusal_at(client, moment)
        check(text.startswith("CHANGESLOST slots have left shard 'b2p0' after this time, and it may have another log now"), text)


class Writer(threading.Thread):
    """Sets keys of its own, ten in a transaction over all shards, again after an error, until it is over."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.is_over = cluster, False
        self.sent = []  # for each transaction when it was sent first

    def keys_of(self, number):
        return [b'%d:%d' % (number, i) for i in range(10)]

    def has_set(self, client):
        replies = client.pipeline([['MULTI']] + [['SET', key, 1] for key in self.keys_of(len(self.sent) - 1)] + [['EXEC']])
        return isinstance(value(replies[-1]), list)

    def run(self):
        with self.cluster.connect() as client:
            while not self.is_over:
                self.sent.append(time.time())
                wait_for(lambda: self.has_set(client), 'a transaction', pause=0.01)


@suite.case('no later change is missing behind the token, whatever moved or was killed before and after the time')
def _(run):
    rng = run.rng
    with Cluster(backends=3, partitions=1, linked=True, proxies=1, backend_options=SMALL) as cluster, cluster.connect() as client:
        writer, times = Writer(cluster), []
        writer.start()
        for step in range(sized(5, long=40)):
            before = len(writer.sent)
            wait_for(lambda before=before: len(writer.sent) > before + 20, 'transactions')
            times.append(time.time())
            cluster.write_shards(random_slots(rng, 3))
            if step % 2:
                victim = cluster.backends[rng.randrange(3)]
                victim.kill9()
                victim.start()
            times.append(time.time())
        wait_settled(cluster, range(3))
        late = time.time() + 1
        wait_for(lambda: writer.sent[-1] > late, 'transactions after all times')
        writer.is_over = True
        writer.join()
        for at in times:
            found = keys_after(client, token_at(client, int(at * 1000)))
            wanted = [key for number, sent in enumerate(writer.sent) if sent > at + 0.5 for key in writer.keys_of(number)]
            missing = [key for key in wanted if key not in found]
            check(wanted and not missing, '%d of %d keys are missing: %r' % (len(missing), len(wanted), missing[:10]))
        check(b'0:0' not in found, 'the last token has the first transaction')
        run.note('%d transactions, %d times' % (len(writer.sent), len(times)))


@suite.case('where slots came from before an upgrade is not known, so only later times have a token')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster, cluster.connect() as client:
        set_keys(client, b'a')
        early = moment_now(cluster)
        check_equal(keys_after(client, token_at(client, early)), set())
        backend = cluster.backends[0]
        with cluster.partition(0) as partition:  # the start will not replay the row
            check_equal(partition.get('SCREE', 'COMPACT', 'START'), b'OK')
            wait_for(lambda: b'compaction_state:idle' in partition.get('INFO', 'persistence'), 'the rows to be in files')
        backend.stop()
        # an older program has no such row
        subprocess.run(['ldb', '--db=' + os.path.join(backend.data, 'partition-0'), '--hex', 'delete', ORIGINS_ROW], check=True, stdout=subprocess.DEVNULL)
        backend.start()
        text = refusal_at(client, early)
        check(text.startswith("CHANGESLOST shard 'b0p0': from which shards slots have come is known since "), text)
        since = int(re.search(r'is known since (\d+) only', text)[1])
        # the shard says so at once; the batch with the row, by which moment_now counts, is written a little later
        late, = wait_for(lambda: [moment for moment in [moment_now(cluster)] if moment >= since], 'the row to be written')
        keys = set_keys(client, b'b')
        check_equal(keys_after(client, token_at(client, late)), keys)
        backend.kill9()
        backend.start()
        check_equal(keys_after(client, token_at(client, late)), keys)


@suite.case('with copies that vote, the next leader gives the same token')
def _(run):
    with Voters(proxies=1, backend_options={**ON, **UNHURRIED}) as copies, copies.connect() as client:
        set_keys(client, b'a')
        with copies.copy(copies.wait_leader()) as leader:
            moment = moment_of([leader])
        keys = set_keys(client, b'b')
        token = token_at(client, moment)
        check_equal(keys_after(client, token), keys)
        leader = copies.wait_leader()
        copies.backends[leader].kill9()
        copies.wait_leader(leader)
        again = wait_for(lambda: [reply for reply in [client.get('SCREE', 'CHANGES', 'TOKEN', 'AT', moment)] if not isinstance(reply, ReplyError)],
                         'the next leader')[0]
        check_equal(again, token)
        copies.backends[leader].start()
        copies.wait_voters(0, 1, 2)


@suite.case('copies that vote and write nothing may start again and again: times before and after have their tokens')
def _(run):
    with Voters(proxies=1, backend_options={**SMALL, **UNHURRIED}) as copies, copies.connect() as client:
        def moment():
            with copies.copy(copies.wait_leader()) as leader:
                return moment_of([leader])

        early = moment()
        keys = set_keys(client, b'a') | {b'big'}
        wait_for(lambda: client.get('SET', 'big', b'v' * 600000) == b'OK', 'a write')  # the next record begins a segment
        late = [moment()]
        for _ in range(sized(2, long=6)):
            for backend in copies.backends:
                backend.kill9()
            for backend in copies.backends:
                backend.start()
            late.append(moment())
        more = set_keys(client, b'b')
        check_equal(keys_after(client, token_at(client, early)), keys | more)
        for at in late:
            check_equal(keys_after(client, token_at(client, at)), more)
        check_equal(keys_after(client, token_at(client, moment())), set())


suite.main()
