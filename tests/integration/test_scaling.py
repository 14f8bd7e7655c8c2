#!/usr/bin/python3
"""A cluster of three shards grows to five and shrinks to two, by new maps and reloads only, while clients of two proxies use it:
no request fails, and no write is lost or done twice.

    test_scaling.py [--keys N]

docs/slots.md shows how to do the same by hand. The second proxy gets each map only when the slots have moved, so it works with the
map of before all the time.
"""

import os
import subprocess

from support.busy import Busy
from support.cluster import Backend, Cluster, binary, with_option
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.moves import Direct, dumps, fill

IDLE_DATABASE = 5


def options(parser):
    parser.add_argument('--keys', type=int, default=sized(60, long=20000), help='idle keys of each type')


suite = Suite(__doc__, options)


def write(path, text):
    with open(path + '.new', 'w') as file:
        file.write(text)
    os.rename(path + '.new', path)


def read(path):
    with open(path) as file:
        return file.read()


def rebalanced(cluster, *shards):
    """The map that --rebalance makes."""
    done = subprocess.run([binary('scree-proxy'), '--config', cluster.proxies[0].config_path, '--rebalance', 'slots',
                           '--shards=' + ','.join(shards)], capture_output=True, text=True, timeout=2 * patience())
    check_equal((done.returncode, done.stderr), (0, ''))
    return done.stdout


def status(cluster, proxy):
    with cluster.connect(proxy) as client:
        text = client.get('SCREE', 'MAP', 'STATUS').decode()
    return dict(line.split(':', 1) for line in text.splitlines() if ':' in line)


def epoch_of(text):
    return next(line.split('=')[1].strip() for line in text.splitlines() if line.startswith('epoch'))


def bring(cluster, busy, text):
    """Brings a map to all backends and the first proxy, waits until it is true, and then brings it to the second proxy."""
    write(cluster.shards_path, text)
    give(cluster, 0, text)
    wait_until_settled(cluster, busy, 0, text)
    busy.wait_turns()
    give(cluster, 1, text)
    wait_until_settled(cluster, busy, 1, text)
    busy.wait_turns()


def give(cluster, proxy, text):
    write(own_map(cluster, proxy), text)
    cluster.proxies[proxy].reload()


def wait_until_settled(cluster, busy, proxy, text):
    def is_settled():
        busy.check_alive()
        seen = status(cluster, proxy)
        return (seen['settled'], seen['epoch']) == ('1', epoch_of(text))
    wait_for(is_settled, 'proxy %d to say that the map is settled' % proxy, 240, pause=0.1)


def own_map(cluster, proxy):
    return os.path.join(cluster.folder, 'map-%d.ini' % proxy)


def separate_maps(cluster):
    """Each proxy gets a map of its own; all backends have the first one."""
    for index, proxy in enumerate(cluster.proxies):
        write(own_map(cluster, index), read(cluster.shards_path))
        proxy.options = with_option(proxy.options, 'proxy', 'shards', own_map(cluster, index))
        proxy.stop()
        cluster.start_retrying(proxy)


def without(text, names):
    """The map without the sections of these shards, and with the next epoch."""
    head, *sections = text.split('[shard ')
    epoch = epoch_of(head)
    head = head.replace('epoch = ' + epoch, 'epoch = %d' % (int(epoch) + 1))
    return head + ''.join('[shard ' + section for section in sections if section.split(']')[0] not in names)


def with_shards(text, backends):
    """The map with these backends, without slots, and with the next epoch."""
    text = without(text, [])
    for backend in backends:
        text += '\n[shard b%dp0]\nslots =\naddress = 127.0.0.1:%d\n' % (backend.index, backend.port)
    return text


def grow(cluster, busy):
    """Two backends join, and get their share of the slots."""
    new = [Backend(cluster, index, cluster.backends[0].options) for index in (3, 4)]
    text = with_shards(read(cluster.shards_path), new)
    write(cluster.shards_path, text)  # proxies get it when the new backends run
    for backend in new:
        backend.write_config()
        backend.start()
        cluster.backends.append(backend)
    bring(cluster, busy, text)
    bring(cluster, busy, rebalanced(cluster, 'b3p0', 'b4p0'))
    owned = {name: int(dict(field.split('=') for field in line.split(','))['owned'])
             for name, line in status(cluster, 0).items() if name.startswith('shard_')}
    check(len(owned) == 5 and all(abs(count - 16384 / 5) < 2 for count in owned.values()), owned)


def shrink(cluster, busy):
    """All three of the first shards leave."""
    names = ['b0p0', 'b1p0', 'b2p0']
    bring(cluster, busy, rebalanced(cluster, *['-' + name for name in names]))
    for proxy in (0, 1):
        check_equal(sorted(status(cluster, proxy)['drained'].split()), names)
    bring(cluster, busy, without(read(cluster.shards_path), names))
    for backend in cluster.backends[:3]:
        backend.stop()
    busy.wait_turns()


@suite.case('three shards become five and then two under load: no request fails, no write is lost or doubled, every key is the same')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2, linked=True) as cluster:
        separate_maps(cluster)
        with cluster.connect() as client:
            client.get('SELECT', IDLE_DATABASE)
            keys = fill(Direct(client), run.options.keys)
            before = dumps(Direct(client), keys)
            check_equal(client.get('DBSIZE'), len(keys))
        with Busy(cluster, run.rng) as busy:
            busy.wait_turns()
            grow(cluster, busy)
            shrink(cluster, busy)
        turns, count = busy.check()
        run.note('%d turns of clients, %d keys of theirs' % (turns, count))
        for proxy in (0, 1):
            with cluster.connect(proxy) as client:
                check_equal(client.get('DBSIZE'), count, 'keys of the clients')
                client.get('SELECT', IDLE_DATABASE)
                check_equal(client.get('DBSIZE'), len(keys))
                check_equal(dumps(Direct(client), keys), before)
        for backend in cluster.backends[3:]:  # and after a crash
            backend.kill9()
            backend.start()
        with cluster.connect() as client:
            wait_for(lambda: client.get('DBSIZE') == count, 'the shards')
            client.get('SELECT', IDLE_DATABASE)
            check_equal(dumps(Direct(client), keys), before)


suite.main()
