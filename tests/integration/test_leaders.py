#!/usr/bin/python3
"""Which copy of a shard gets a proxy's requests: the one that leads, as soon as it says so."""

import threading

from support.harness import Suite, check, check_equal, wait_for
from support.played_copies import PlayedShard
from support.resp import value

suite = Suite(__doc__)


def answers(client, name):
    return client.get('GET', 'k') == name


@suite.case('requests go to the copy that says that it leads, without a new map')
def _(run):
    with PlayedShard(copies=3) as shard, shard.connect() as client:
        check_equal(client.get('GET', 'k'), b'copy 0')
        shard.copies[2].says('leader', term=2)
        wait_for(lambda: answers(client, b'copy 2'), 'the proxy to follow')
        shard.copies[1].says('leader', generation=2, term=1)
        wait_for(lambda: answers(client, b'copy 1'), 'the proxy to follow the higher generation')
        log = shard.proxies[0].log()
        check(b'leader_found shard=a address=%s generation=2 term=1' % shard.copies[1].text().encode() in log, log)


@suite.case('a copy of a lower generation or term gets no requests, whatever it says')
def _(run):
    with PlayedShard() as shard, shard.connect() as client:
        shard.copies[1].says('leader', generation=2, term=7)
        wait_for(lambda: answers(client, b'copy 1'), 'the proxy to follow')
        before = len(shard.copies[0].requests)
        for generation, term in ((1, 1), (1, 99), (2, 6), (2, 7)):
            shard.copies[0].says('leader', generation=generation, term=term)
            shard.proxies[0].reload()
            for _ in range(20):
                check_equal(client.get('GET', 'k'), b'copy 1')
        check_equal(len(shard.copies[0].requests), before, 'requests at the old leader')


@suite.case('the proxy asks again by itself, if no message says that another copy leads')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'health-interval': '100ms'}}) as shard, shard.connect() as client:
        shard.copies[1].pushes = False
        shard.copies[1].says('leader', term=2)
        wait_for(lambda: answers(client, b'copy 1'), 'the proxy to follow')


@suite.case('a proxy that starts when the first address of the map is dead finds the leader; requests wait for it')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'hold': '1m'}}) as shard:
        shard.copies[0].kill()
        shard.copies[1].says('leader', term=2)
        shard.proxies[0].stop()
        shard.proxies[0].start()
        with shard.connect() as client:
            check_equal(client.get('GET', 'k'), b'copy 1')


@suite.case('the leader dies: requests that were not sent wait for its successor; what is in flight fails and says so')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'hold': '1m'}}) as shard, shard.connect() as first, shard.connect() as second:
        for client in (first, second):  # so that there are connections
            check_equal(client.get('GET', 'k'), b'copy 0')
        shard.copies[0].is_deaf = True
        first.send('SET', 'k', 'v')
        wait_for(lambda: [b'SET', b'k', b'v'] in shard.copies[0].requests, 'the request to be in flight')
        shard.copies[0].kill()
        check('connection lost before the reply' in str(value(first.read())), 'the request in flight')
        second.send('GET', 'waits')
        wait_for(lambda: b'upstream_down' in shard.proxies[0].log(), 'the loss')
        shard.copies[1].says('leader', term=2)
        check_equal(value(second.read()), b'copy 1')
        check_equal(shard.copies[1].requests, [[b'GET', b'waits']])


@suite.case('a leader whose machine hangs: what is in flight there fails as soon as another copy leads')
def _(run):
    with PlayedShard() as shard, shard.connect() as first, shard.connect() as second:
        check_equal(first.get('GET', 'k'), b'copy 0')  # so that there is a connection
        shard.copies[0].is_deaf = True
        first.send('SET', 'k', 'v')
        wait_for(lambda: [b'SET', b'k', b'v'] in shard.copies[0].requests, 'the request to be in flight')
        shard.copies[1].says('leader', term=2)
        check('connection lost before the reply: another copy of the shard leads now' in str(value(first.read())), 'the request in flight')
        wait_for(lambda: answers(second, b'copy 1'), 'the worker of the other client to follow')
        check_equal(first.get('GET', 'k'), b'copy 1')


@suite.case('a copy that does not lead gets no requests: they wait until a copy leads')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'hold': '1m'}}) as shard, shard.connect() as client:
        first, second = shard.copies
        for leader in (second, None):
            first.says('replica', term=2, leader=leader)
            first.kill()
            first.start()
            before = shard.proxies[0].log().count(b'reason="this copy does not lead')
            client.send('GET', 'waits')
            wait_for(lambda: shard.proxies[0].log().count(b'reason="this copy does not lead') > before, 'the reason in the log')
            first.says('leader', term=3)
            check_equal(value(client.read()), b'copy 0')
        check_equal(first.requests, [[b'GET', b'waits']] * 2, 'requests')
        check_equal(second.requests, [])


@suite.case('if no copy leads for long, requests fail and say why; hold = 0: at once')
def _(run):
    for hold in ('0', '10ms'):
        with PlayedShard(proxy_options={'upstream': {'hold': hold, 'backoff-min': '10ms', 'backoff-max': '20ms'}}) as shard, shard.connect() as client:
            shard.copies[0].says('replica', term=2)
            shard.copies[0].kill()
            shard.copies[0].start()
            replies = []

            def is_told():
                """At first the reason is the lost connection, or the attempt to connect before the copy listened again."""
                replies.append(str(client.get('GET', 'k')))
                return replies[-1].endswith('this copy does not lead, and has heard of no other that does')
            wait_for(is_told, 'the reason')
            check_equal([reply for reply in replies if not reply.startswith("TRYAGAIN shard 'a'")], [], 'other replies')
            check_equal(shard.copies[0].requests, [], 'requests at a copy that does not lead')


def wait_found(shard, copy):
    """Waits until the proxy knows that this copy leads: one that the map has first gets requests before."""
    wait_for(lambda: b'leader_found shard=a address=%s ' % copy.text().encode() in shard.proxies[0].log(), 'the proxy to know who leads')


def drops(shard, copy):
    """The proxy reads a map without this copy."""
    shard.dropped.append(copy)
    shard.write_shards()
    with shard.connect() as client:
        check(client.get('SCREE', 'RELOAD').startswith(b'OK'), 'the map is refused')


@suite.case('a map that drops the leader: requests in flight and new ones stay with it until another copy leads; also if one address is left')
def _(run):
    for copies in (2, 3):
        with PlayedShard(copies=copies, proxy_options={'upstream': {'hold': '1m'}}) as shard, shard.connect() as first, shard.connect() as second:
            old, new = shard.copies[0], shard.copies[-1]
            check_equal([client.get('GET', 'k') for client in (first, second)], [b'copy 0'] * 2)
            wait_found(shard, old)
            old.is_late = True
            first.send('SET', 'k', 'v')
            wait_for(lambda: old.late, 'the request to be in flight')
            drops(shard, old)
            old.answer_late()
            check_equal(value(first.read()), b'copy 0')
            check_equal([client.get('GET', 'k') for client in (first, second)], [b'copy 0'] * 2)
            old.says('replica', term=1)
            old.stops_leading()
            second.send('GET', 'waits')
            new.says('leader', term=2)
            check_equal(value(second.read()), new.name.encode())
            check_equal(first.get('GET', 'k'), new.name.encode())


@suite.case('a map that drops a leader which is dead: requests go to the first address of the map')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'hold': '1m'}}) as shard, shard.connect() as client:
        old, new = shard.copies
        check_equal(client.get('GET', 'k'), b'copy 0')
        old.kill()
        new.fields = {}  # a shard with one copy, which says nothing of leaders
        drops(shard, old)
        check_equal(client.get('GET', 'k'), b'copy 1')


@suite.case('a leader that the map has dropped, and that a copy names: it gets the requests again after a break, and of a proxy that starts; also if one '
            'address is left')
def _(run):
    for copies in (2, 3):
        with PlayedShard(copies=copies, proxy_options={'upstream': {'health-interval': '100ms', 'hold': '1m'}}) as shard, shard.connect() as client:
            old, other_copy = shard.copies[:2]
            check_equal(client.get('GET', 'k'), b'copy 0')
            wait_found(shard, old)
            drops(shard, old)
            old.kill()
            wait_for(lambda: b'leader_forgotten' in shard.proxies[0].log(), 'the leader to be lost')
            before = len(other_copy.hearers)
            client.send('GET', 'waits')
            wait_for(lambda: len(other_copy.hearers) > before, 'the worker to have taken the map without it: the line of the log comes before')
            old.start()
            check_equal(value(client.read()), b'copy 0')
            shard.proxies[0].stop()
            shard.proxies[0].start()
            with shard.connect() as other:
                check_equal(other.get('GET', 'k'), b'copy 0')
                shard.copies[1].says('leader', term=2)
                wait_for(lambda: answers(other, b'copy 1'), 'the proxy to follow')
            check_equal([words for copy in shard.copies[1:] for words in copy.requests if words != [b'GET', b'k']], [], 'requests before it led')


@suite.case('a copy that the map does not have is left when no copy names it, and what copies name is no file')
def _(run):
    with PlayedShard(copies=3, proxy_options={'upstream': {'health-interval': '100ms'}}) as shard, shard.connect() as client:
        first, second, outside = shard.copies
        outside.says('leader', term=9)
        wait_for(lambda: answers(client, b'copy 2'), 'the proxy to follow')
        drops(shard, outside)
        for named in ('unix:/etc/passwd', 'nowhere', ':0', 'x' * 80 + ':1', first, second, outside):
            second.says('replica', term=9, leader=named)
            check_equal(client.get('GET', 'k'), b'copy 2')
        first.says('leader', term=10)
        wait_for(lambda: answers(client, b'copy 0'), 'the proxy to follow')
        wait_for(lambda: outside.connections, 'the proxy to watch the copy that is named')
        second.says('replica', term=10, leader=first)
        wait_for(lambda: not outside.connections, 'the proxy to leave the copy that is not named')


@suite.case('a leader that hands over: what is in flight is answered there, what is new waits for the next leader, and no client sees an error')
def _(run):
    with PlayedShard(proxy_options={'upstream': {'hold': '1m'}}) as shard, shard.connect() as first, shard.connect() as second:
        old, new = shard.copies
        check_equal([client.get('GET', 'k') for client in (first, second)], [b'copy 0'] * 2)
        old.is_late = True
        first.send('SET', 'k', 'v')
        wait_for(lambda: old.late, 'the request to be in flight')
        old.says('replica', term=1)
        old.stops_leading()
        second.send('GET', 'waits')
        new.says('leader', term=2)
        check_equal(value(second.read()), b'copy 1')
        old.answer_late()
        check_equal(value(first.read()), b'copy 0')
        check_equal(first.get('GET', 'k'), b'copy 1')


@suite.case('many clients go on when leaders change under them; no reply is lost or comes twice')
def _(run):
    with PlayedShard(copies=3, proxy_options={'upstream': {'hold': '1m'}}) as shard:
        is_over, wrong = threading.Event(), []

        def ask():
            with shard.connect() as client:
                while not is_over.is_set():
                    for reply in map(value, client.pipeline([['GET', 'k']] * 10)):
                        if not str(reply).startswith("b'copy ") and 'connection lost before the reply' not in str(reply):
                            wrong.append(str(reply))
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        with shard.connect() as client:
            for term in range(2, 30):
                shard.copies[term % 3].says('leader', term=term)
                wait_for(lambda: answers(client, b'copy %d' % (term % 3)), 'the proxy to follow')
        is_over.set()
        for thread in threads:
            thread.join()
        check_equal(wrong, [])


if __name__ == '__main__':
    suite.main()
