#!/usr/bin/python3
"""The change stream of shards with several copies: a token goes on whichever copy leads, and no event tells of a change that was rolled
back when another copy took over."""

import glob
import os
import random
import shutil
import signal
import tempfile

from support.copies import UNHURRIED, Copies, TwoVoterShards, Voters
from support.cluster import Oracle
from support.followers import Follower, Load, difference, wait_equal
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import ReplyError

suite = Suite(__doc__)
ON = {'store': {'change-log': '1gb'}}


def read_page(client, token, *options):
    """READ, until it is not refused because no copy leads."""
    def page():
        reply = client.get('SCREE', 'CHANGES', 'READ', token, *options)
        if isinstance(reply, ReplyError):
            check(not str(reply).startswith('CHANGES'), 'READ: %r' % reply)
            return None
        return reply
    return wait_for(page, 'the changes to be readable', pause=0.05)


def read_all(client, token, *options):
    """All events up to now, and the next token."""
    events, lag = [], 1
    while lag:
        token, page, lag = read_page(client, token, *options)[:3]  # a copy itself says more
        events += page
    return events, token


def keys_of(events):
    return [event[3] for event in events]


def set_key(client, key, value=1):
    """SET, until it is acknowledged; how often it was sent: a write that was refused when the leader changed may have been executed."""
    sent = []
    wait_for(lambda: sent.append(key) or client.get('SET', key, value) == b'OK', 'a write')
    return len(sent)


def without_repeated(events, sent):
    """The events without those of a write that was sent again."""
    return [event for i, event in enumerate(events) if i == 0 or event[3] != events[i - 1][3] or sent.get(event[3], 1) == 1]


@suite.case('the leader is killed again and again: a token goes on at its successor, each write has one event, and ids are those of one log')
def _(run):
    with Voters(proxies=1, backend_options=ON) as copies, copies.connect() as client:
        token = read_all(client, '$')[1]
        sent, events = {}, []
        for step in range(sized(3, long=20)):
            sent[b'before:%d' % step] = set_key(client, b'before:%d' % step)
            if step % 2:
                page, token = read_all(client, token)
                events += page
            leader = copies.wait_leader()
            copies.backends[leader].kill9()
            copies.wait_leader(leader)
            sent[b'after:%d' % step] = set_key(client, b'after:%d' % step)
            page, token = read_all(client, token)
            events += page
            copies.backends[leader].start()
            copies.wait_voters(0, 1, 2)
        check_equal(keys_of(without_repeated(events, sent)), list(sent))
        ids = [event[0] for event in events]
        check_equal(len(set(ids)), len(ids))
        check_equal(len({name.split(b'.')[0] for name in ids}), 1)


@suite.case('what a leader wrote and could not commit has no event: not at it, nor at its successor, nor when it comes back')
def _(run):
    with Voters(backend_options={**ON, **UNHURRIED}) as copies:  # the leader must not notice that it is alone before it has the write
        leader = copies.wait_leader()
        others = [i for i in range(3) if i != leader]
        with copies.copy(leader) as client, copies.copy(leader) as reader:
            check_equal(client.get('SET', 'acknowledged', 1), b'OK')
            token = client.get('SCREE', 'CHANGES', 'READ', '$')[0]
            for other in others:
                copies.backends[other].kill9()
            client.send('SET', 'rolled back', 1)
            wait_for(lambda: int(copies.replicas(leader)[0]['last']) > int(copies.replicas(leader)[0]['committed']), 'the write to be in the log')
            reply = reader.get('SCREE', 'CHANGES', 'READ', token)
            check(isinstance(reply, ReplyError) and str(reply).startswith('TRYAGAIN') or reply[1] == [], '%r' % (reply,))
        copies.backends[leader].kill9()
        for other in others:
            copies.backends[other].start()
        successor = copies.wait_leader(leader)
        with copies.copy(successor) as client:
            check_equal(client.get('SET', 'later', 1), b'OK')
            check_equal(keys_of(read_all(client, token)[0]), [b'later'])
        copies.backends[leader].start()
        copies.wait_voters(0, 1, 2)
        with copies.copy(copies.wait_leader()) as client:
            check_equal(client.get('EXISTS', 'rolled back'), 0)
            check_equal(keys_of(read_all(client, token)[0]), [b'later'])


@suite.case('a copy that follows gives the changes that it has applied, and says TRYAGAIN for a position behind them')
def _(run):
    with Copies(copies=2, backend_options=ON) as copies, copies.leader() as leader:
        copies.wait_follows(1)
        token = leader.get('SCREE', 'CHANGES', 'READ', '$')[0]
        leader.call('SET', 'a', 1)
        copies.wait_follows(1)
        with copies.reader(1) as reader:
            reply = read_page(reader, token)
            check_equal(keys_of(reply[1]), [b'a'])
            copies.backends[1].pause()
            leader.call('SET', 'b', 1)
            ahead = read_all(leader, token)[1]
            check_equal(ahead == reply[0], False)
            index = int(ahead.split(b'.')[1])
            beyond = ahead.replace(b'.%d.' % index, b'.%d.' % (index + 1000))
            copies.backends[1].resume()
            reply = reader.get('SCREE', 'CHANGES', 'READ', beyond)
            check(isinstance(reply, ReplyError) and str(reply).startswith('TRYAGAIN this copy does not have batch'), '%r' % reply)
        reply = leader.get('SCREE', 'CHANGES', 'READ', beyond)
        check(str(reply).startswith('CHANGESREWOUND'), '%r' % reply)


@suite.case('a copy is forced to lead: its log is another one, so a token is CHANGESREWOUND, and LOST copy lists all keys')
def _(run):
    with Copies(copies=2, proxies=1, backend_options=ON) as copies, copies.connect() as client:
        client.get('SET', 'kept', 1)
        copies.wait_follows(1)
        copies.backends[1].kill9()
        client.get('SET', 'lost', 1)
        token = read_all(client, '$')[1]
        copies.backends[0].kill9()
        copies.backends[1].start()
        copies.force(1)
        reply = wait_for(lambda: [r for r in [client.get('SCREE', 'CHANGES', 'READ', token)] if not str(r).startswith(('TRYAGAIN', 'LOADING', 'SHARDLOST', 'ERR'))],
                         'the forced copy to be found')[0]
        check(str(reply).startswith("CHANGESREWOUND shard 'a'"), '%r' % reply)
        check_equal([event[2:4] for event in read_all(client, token, 'LOST', 'copy')[0]], [[b'again', b''], [b'changed', b'kept']])


SMALL = {'wal-limit': '1mb', 'memtable': '1mb'}


def switch_on(copies):
    """Sets change-log while the backends run, and waits until each keeps its log."""
    for backend in copies.backends:
        backend.options['store']['change-log'] = '1gb'
        backend.write_config()
        backend.signal(signal.SIGHUP)
    for backend in copies.backends:
        wait_for(lambda: glob.glob(os.path.join(backend.data, '*', 'kept')), 'change-log to be read')


def check_joined_copy_has_log(copies, client):
    token = read_all(client, '$')[1]
    expected = {b'key:%d' % i for i in range(400)} | {b'more'}
    for key in sorted(expected):
        set_key(client, key, b'v' * 20000)
    leader = copies.wait_leader()
    data = copies.backends[leader].data
    wait_for(lambda: set_key(client, 'more', b'v' * 20000) and len(glob.glob(os.path.join(data, '*', 'kept', '*'))) >= 20,
             'the leader to need the oldest batches only for readers', pause=0.1)
    other = next(index for index in copies.order if index != leader)
    copies.backends[other].kill9()
    shutil.rmtree(copies.backends[other].data)
    copies.backends[other].start()
    copies.wait_voters(0, 1, 2)
    copies.wait_follows(other)
    wait_for(lambda: client.get('SCREE', 'LEADER', 'TO', '%s:%d' % copies.backends[other].addresses[0][:2]) and copies.serves(other),
             'the new copy to lead')
    events = read_all(client, token)[0]
    check_equal(set(keys_of(events)), expected)


@suite.case('a copy that has joined later has the log of the others, so that it can go on where an old token ended')
def _(run):
    options = {'store': dict(SMALL, **ON['store']), 'backend': {'wal-keep': '1mb'}}
    with Voters(proxies=1, backend_options=options) as copies, copies.connect() as client:
        check_joined_copy_has_log(copies, client)


@suite.case('… also if change-log was set while the others ran')
def _(run):
    options = {'store': dict(SMALL), 'backend': {'wal-keep': '0'}}  # else a directory of kept segments is there before
    with Voters(proxies=1, backend_options=options) as copies, copies.connect() as client:
        switch_on(copies)
        check_joined_copy_has_log(copies, client)


@suite.case('the program of the documentation keeps a redis-server equal while the leaders of two shards are killed, and slots move')
def _(run):
    rng = random.Random(7)
    folder = tempfile.mkdtemp(prefix='scree-follow-')
    options = {'store': {'change-log': '1gb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    try:
        with Oracle() as sink, TwoVoterShards(options, proxies=1) as cluster:
            follower = Follower(folder, cluster.proxies[0].address, sink.address)
            loads = [Load(cluster, seed) for seed in (1, 2)]
            for load in loads:
                load.start()
            kills = 0
            for step in range(sized(6, long=100)):
                follower.keep_alive()
                shard = rng.randrange(2)
                leader = cluster.leader_of(shard)
                if step % 3 == 1:
                    follower.kill()
                if step % 3 == 2:
                    half = rng.randrange(1, 16383)
                    cluster.halves = ['0-%d' % (half - 1), '%d-16383' % half]
                    cluster.reload()
                if leader is not None:
                    cluster.backends[leader].kill9()
                    kills += 1
                    cluster.wait_leader(shard)
                    cluster.backends[leader].start()
                    cluster.wait_votes(shard)
            for load in loads:
                load.is_over.set()
                load.join()
            wait_equal(follower, lambda: difference(cluster, sink))
            follower.kill()
            run.note('%d commands, %d kills of leaders' % (sum(load.count for load in loads), kills))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


suite.main()
