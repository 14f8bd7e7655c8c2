#!/usr/bin/python3
"""WAIT and WAITAOF count the copies that have a client's writes."""

import contextlib

from support.cluster import slot_of
from support.copies import UNHURRIED, Copies, TwoShards, Voters
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError

suite = Suite(__doc__)


def blocked(client):
    return b'blocked_clients:1\r\n' in client.get('INFO', 'clients')


@contextlib.contextmanager
def asleep(*backends):
    """These processes do nothing."""
    for backend in backends:
        backend.pause()
    try:
        yield
    finally:
        for backend in backends:
            backend.resume()


@suite.case('copies that are away are not counted; WAIT 0 0 waits for nothing, and a wait ends when enough copies have the write')
def _(run):
    for kind in (Voters, Copies):
        with kind(backend_options=UNHURRIED) as copies, copies.leader() as client, copies.leader() as waiter:
            copies.wait_follows(*copies.order[1:])
            check_equal(client.get('SET', 'k', 'v'), b'OK')
            check_equal([client.get('WAIT', 2, 0), client.get('WAITAOF', 1, 2, 0)], [2, [1, 2]])
            with asleep(copies.backends[copies.order[1]]):
                check_equal(client.get('SET', 'k', 'w'), b'OK')
                check_equal([client.get('WAIT', 0, 0), client.get('WAIT', 1, 0)][1], 1)
                check_equal([client.get('WAIT', 2, 50), client.get('WAITAOF', 0, 2, 50)], [1, [1, 1]])
                waiter.send('WAIT', 2, 0)
                wait_for(lambda: blocked(client), 'the client to wait')
            check_equal(waiter.read(), (':', b'2'))
            check(not blocked(client), 'a client waits')


@suite.case('warm copies: a write that is on no copy yet is acknowledged, and WAIT says that none has it')
def _(run):
    with Copies() as copies, copies.leader() as client:
        copies.wait_follows(1, 2)
        with asleep(copies.backends[1], copies.backends[2]):
            check_equal([client.get('SET', 'k', 'v'), client.get('WAIT', 1, 50), client.get('WAITAOF', 1, 0, 0)], [b'OK', 0, [1, 0]])
        check_equal(client.get('WAIT', 2, 0), 2)


@suite.case('requests that come at once are answered in order, each WAIT for the writes before it')
def _(run):
    with Voters(backend_options=UNHURRIED) as copies, copies.leader() as client:
        copies.wait_follows(*copies.order[1:])
        replies = client.pipeline([['SET', 'k', i] if i % 2 else ['WAIT', 2, 0] for i in range(100)])
        check_equal(replies, [('+', b'OK') if i % 2 else (':', b'2') for i in range(100)])


@suite.case('CLIENT UNBLOCK ends a wait with the number of copies, or an error; a client that leaves ends it, too')
def _(run):
    with Voters(backend_options=UNHURRIED) as copies, copies.leader() as client:
        check_equal([client.get('SET', 'k', 'v'), client.get('WAIT', 2, 0)], [b'OK', 2])
        for how, expected in (('TIMEOUT', (':', b'2')), ('ERROR', ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))):
            with copies.leader() as waiter:
                number = waiter.get('CLIENT', 'ID')
                waiter.send('WAIT', 3, 0)
                wait_for(lambda: blocked(client), 'the client to wait')
                check_equal(client.get('CLIENT', 'UNBLOCK', number, how), 1)
                check_equal(waiter.read(), expected)
                waiter.send('WAIT', 3, 0)
                wait_for(lambda: blocked(client), 'the client to wait again')
            wait_for(lambda: not blocked(client), 'the wait to end')


@suite.case('in MULTI nothing waits, and what the transaction has written is on no copy yet; scripts may not wait')
def _(run):
    with Voters(backend_options=UNHURRIED) as copies, copies.leader() as client:
        check_equal([client.get('SET', 'k', 'v'), client.get('WAIT', 2, 0)], [b'OK', 2])
        for words, expected in ((['GET', 'k'], [b'v', 2, [1, 2]]), (['SET', 'k', 'w'], [b'OK', 0, [1, 0]])):
            for each in (['MULTI'], words, ['WAIT', 3, 0], ['WAITAOF', 1, 3, 0]):
                client.get(*each)
            check_equal(client.get('EXEC'), expected)
        for words in ("'wait', 0, 0", "'waitaof', 0, 0, 0"):
            reply = client.get('EVAL', 'return redis.call(%s)' % words, 0)
            check(isinstance(reply, ReplyError) and 'not allowed from script' in str(reply), reply)


@suite.case('a leader that hands over ends the waits of its clients')
def _(run):
    with Voters(backend_options=UNHURRIED) as copies, copies.leader() as client:
        copies.wait_follows(*copies.order[1:])
        client.send('WAIT', 3, 0)
        with copies.leader() as operator:
            wait_for(lambda: blocked(operator), 'the client to wait')
            target = '%s:%d' % copies.backends[copies.order[1]].addresses[0][:2]
            wait_for(lambda: operator.get('SCREE', 'LEADER', 'TO', target) == b'OK', 'the hand-over to begin')
        kind, text = client.read()
        check(kind == '-' and text.startswith(b'UNBLOCKED '), text)


@suite.case('through a proxy the smallest number of all shards counts, and a wait goes on until each shard has enough')
def _(run):
    with TwoShards(orders=([0, 1, 2], [3, 4, 5])) as shards, shards.connect() as client, shards.connect() as waiter:
        keys = [next(key for key in map(str, range(100)) if slot_of(key) // 8192 == half) for half in range(2)]

        def write():
            check_equal([client.get('SET', key, 'v') for key in keys], [b'OK', b'OK'])
        write()
        check_equal([client.get('WAIT', 2, 0), client.get('WAITAOF', 1, 2, 0)], [2, [1, 2]])
        with asleep(shards.backends[5]), shards.copy(3) as leader:
            write()
            check_equal(client.get('WAIT', 1, 0), 1)
            check_equal([client.get('WAIT', 2, 50), client.get('WAITAOF', 1, 2, 50)], [1, [1, 1]])
            waiter.send('WAIT', 2, 0)
            wait_for(lambda: blocked(leader), 'the client to wait at this shard')
            with shards.connect() as other:
                number = other.get('CLIENT', 'ID')
                other.send('WAITAOF', 1, 2, 0)
                wait_for(lambda: b'blocked_clients:2\r\n' in leader.get('INFO', 'clients'), 'both clients to wait')
                check_equal([client.get('CLIENT', 'UNBLOCK', number), other.read()], [1, ('*', [(':', b'1'), (':', b'1')])])
                other.send('WAIT', 2, 0)
                wait_for(lambda: b'blocked_clients:2\r\n' in leader.get('INFO', 'clients'), 'the client to wait again')
            wait_for(lambda: blocked(leader), 'the wait of a client that has left to end')
        check_equal(waiter.read(), (':', b'2'))


if __name__ == '__main__':
    suite.main()
