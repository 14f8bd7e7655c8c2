#!/usr/bin/python3
"""Copies that vote: transactions over shards go on with other leaders; without most copies nothing is served; warm copies become voters."""

import threading

from support.cluster import slot_of
from support.copies import TwoVoterShards, Voters, number_at
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)
GIVER = next('giver%d' % i for i in range(100) if slot_of('giver%d' % i) < 8192)
TAKER = next('taker%d' % i for i in range(100) if slot_of('taker%d' % i) >= 8192)


# ---- several shards ------------------------------------------------------------------------------------------------

def deals_go_on(voters, is_over, done):
    """Moves 1 from a key of shard a to one of shard b, over and over."""
    with voters.connect() as client:
        while not is_over.is_set():
            for words in (('MULTI',), ('INCRBY', GIVER, -1), ('INCRBY', TAKER, 1)):
                client.get(*words)
            if not isinstance(client.get('EXEC'), ReplyError):
                done.append(1)


@suite.case('transactions over shards are whole when leaders that were elected are lost, and go on')
def _(run):
    with TwoVoterShards(orders=([0, 1, 2], [3]), proxy_options={'upstream': {'hold': '1m'}}) as voters, voters.connect() as client:
        is_over, done = threading.Event(), []
        threads = [threading.Thread(target=deals_go_on, args=(voters, is_over, done), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(sized(2, long=50)):
            voters.wait_votes(0)  # a group serves from its second voter on: without the third, nobody is elected when the leader is lost
            leader = voters.wait_leader(0)
            goal = len(done) + 50
            wait_for(lambda: len(done) > goal, 'deals to go on')
            voters.backends[leader].kill9()
            wait_for(lambda: len(done) > goal + 100, 'deals to go on with another leader')
            voters.backends[leader].start()
        is_over.set()
        for thread in threads:
            thread.join()
        taken, = wait_for(lambda: [taken for taken in [number_at(client, TAKER)] if taken is not None and number_at(client, GIVER) == -taken],
                          'both halves of each deal')
        check(taken >= len(done), '%d deals were acknowledged, %d were made' % (len(done), taken))
        run.note('%d deals' % len(done))


# ---- without a majority, and before ------------------------------------------------------------------------------------------

def force(connection):
    return connection.get('SCREE', 'OWNERS', 'FORCE', 'LOSE-KEYS')


def check_cannot_force(connection):
    reply = force(connection)
    check('does not lead its shard' in str(reply), 'FORCE: %r' % reply)


@suite.case('without most of the copies nothing is acknowledged, read or forced; with them the shard goes on')
def _(run):
    with Voters() as voters:
        leader = voters.wait_leader()
        others = [index for index in range(3) if index != leader]
        with voters.leader() as client:
            check_equal(client.get('SET', 'k', 'v'), b'OK')
            with voters.copy(others[0]) as follower:
                check_cannot_force(follower)
            for index in others:
                voters.backends[index].kill9()
            with voters.copy(leader) as reader:  # at the same time: both wait before they are refused
                requests = ((client, ('SET', 'k', 'w')), (reader, ('GET', 'k')))
                for connection, words in requests:
                    connection.send(*words)
                for connection, words in requests:
                    reply = value(connection.read())
                    check(isinstance(reply, ReplyError), '%s without a majority: %r' % (words, reply))
            # on a slow machine the lease may last longer than a request waits
            wait_for(lambda: isinstance(force(client), ReplyError), 'the lease to end', pause=0.05)
            check_cannot_force(client)
        voters.backends[others[0]].start()
        voters.wait_leader()
        with voters.leader() as client:
            check(client.get('GET', 'k') in (b'v', b'w'), 'the write may have been executed')
            check_equal(client.get('SET', 'k', 'y'), b'OK')
        voters.backends[others[1]].start()
        voters.wait_voters(0, 1, 2)
        voters.wait_follows(*voters.order[1:])


@suite.case('warm copies become voters when their backends are restarted, the serving one last')
def _(run):
    with Voters(replicas='yes') as voters:
        with voters.leader() as client:
            check_equal(client.get('SET', 'k', 'v'), b'OK')
        voters.wait_follows(1, 2)
        for index in (1, 2, 0):
            backend = voters.backends[index]
            backend.stop()
            backend.options = {'backend': dict(backend.options['backend'], replicas='voters')}
            backend.write_config()
            backend.start()
        voters.wait_leader()
        voters.wait_voters(0, 1, 2)
        voters.backends[0].kill9()
        voters.wait_leader(0)
        with voters.leader() as client:
            check_equal(client.get('GET', 'k'), b'v')
        voters.backends[0].start()
        voters.wait_follows(0)


if __name__ == '__main__':
    suite.main()
