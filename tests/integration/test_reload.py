#!/usr/bin/python3
"""New maps and namespaces under load: no request fails, is lost or answered out of order; invalid files change nothing."""

import contextlib
import os
import random
import re
import signal

from support.aio import BackgroundCrowd
from support.cluster import Cluster, metric, slot_of, write_ini
from support.harness import Suite, check, check_equal, sized, wait_for
from support.model import OwnKeys
from support.resp import Closed, ReplyError


def options(parser):
    parser.add_argument('--rounds', type=int, default=sized(6, long=100), help='reloads of each kind')


suite = Suite(__doc__, options)


def epoch_of(proxy):
    return metric(proxy.http('/metrics')[1], 'scree_proxy_map_epoch')


def wait_epoch(proxy, epoch):
    wait_for(lambda: epoch_of(proxy) == epoch, '%s to use the map of epoch %d' % (proxy.name, epoch))


def models(run, count=30):
    return [OwnKeys('c%d' % i, random.Random(run.seed * 100 + i)) for i in range(count)]


def same_places_text(cluster, variant):
    """The map with equal slots at equal places, but other shard names and another spelling of the host."""
    text = cluster.shards_text()
    if variant % 2:
        text = text.replace('address = 127.0.0.1:', 'address = localhost:')
    if variant % 3 == 1:
        text = text.replace('[shard ', '[shard other-')
    return text


def replace_file(path, text):
    with open(path + '.new', 'w') as file:
        file.write(text)
    os.rename(path + '.new', path)


def let_play(crowd):
    """Lets the clients run several hundred commands on the current map."""
    wanted = crowd.commands + 400
    wait_for(lambda: crowd.commands >= wanted or crowd.failures, 'the load to go on')


def check_crowd(run, crowd):
    run.note('%d commands, slowest pipeline %.2f s' % (crowd.commands, crowd.slowest))
    check(not crowd.failures, '%d clients failed, the first: %s' % (len(crowd.failures), (crowd.failures or [''])[0]))
    check(crowd.commands > 100, 'the load did not run')


@suite.case('SIGHUP under load: every request is answered, in order')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with BackgroundCrowd([proxy.address], models(run)) as crowd:
            for i in range(run.options.rounds):
                replace_file(cluster.shards_path, same_places_text(cluster, i))
                proxy.reload()
                wait_epoch(proxy, cluster.epoch)
                let_play(crowd)
        check_crowd(run, crowd)


@suite.case('a changed file is noticed without a signal')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with BackgroundCrowd([proxy.address], models(run)) as crowd:
            for i in range(run.options.rounds):
                replace_file(cluster.shards_path, same_places_text(cluster, i))
                wait_epoch(proxy, cluster.epoch)
                let_play(crowd)
            with open(cluster.shards_path, 'w') as file:  # now written in place
                file.write(same_places_text(cluster, 1))
            wait_epoch(proxy, cluster.epoch)
        check_crowd(run, crowd)


@suite.case('a directory swapped by a symlink is noticed, as Kubernetes mounts ConfigMaps')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        mount = os.path.join(cluster.folder, 'mount')
        os.mkdir(mount)

        def publish(text):
            version = os.path.join(mount, '..version-%d' % cluster.epoch)
            os.mkdir(version)
            replace_file(os.path.join(version, 'shards.ini'), text)
            os.symlink(os.path.basename(version), os.path.join(mount, '..data.new'))
            os.rename(os.path.join(mount, '..data.new'), os.path.join(mount, '..data'))
        publish(cluster.shards_text())
        os.symlink(os.path.join('..data', 'shards.ini'), os.path.join(mount, 'shards.ini'))
        proxy.stop()
        cluster.shards_path = os.path.join(mount, 'shards.ini')
        proxy.write_config()
        proxy.start()
        wait_epoch(proxy, cluster.epoch)
        with BackgroundCrowd([proxy.address], models(run)) as crowd:
            for i in range(run.options.rounds):
                publish(same_places_text(cluster, i))
                wait_epoch(proxy, cluster.epoch)
                let_play(crowd)
        check_crowd(run, crowd)


@suite.case('secrets in an included file are read at the start, and again when it changes')
def _(run):
    cluster = Cluster(backends=1, partitions=2, proxies=1, namespaces={'shop': {'ephemeral': 'no'}},
                      proxy_options={'proxy': {'include': 'secrets.ini'}})
    secrets = os.path.join(cluster.folder, 'secrets.ini')
    replace_file(secrets, '[namespace shop]\ntoken = zeroth\n')
    with cluster:
        proxy = cluster.proxies[0]

        def login(token):
            with cluster.connect() as client:
                return client.get('AUTH', 'shop', token)
        check_equal(login('zeroth'), b'OK')
        check(isinstance(login('first'), ReplyError), 'a token that is not there yet')
        replace_file(secrets, '[namespace shop]\ntoken = first\n')
        wait_for(lambda: login('first') == b'OK', 'the first token to be taken')
        replace_file(secrets, '[namespace shop]\ntoken = second\n')
        # connections are at one worker or the other, which may take the file later
        wait_for(lambda: all(login('second') == b'OK' for _ in range(10)), 'the second token to be taken')
        wait_for(lambda: all(isinstance(login('first'), ReplyError) for _ in range(10)), 'the first token to be refused')
        replace_file(secrets, '[namespace shop\ntoken = third\n')
        wait_for(lambda: b'reload_refused' in proxy.log(), 'the broken file to be refused')
        check_equal(login('second'), b'OK')


@suite.case('SCREE RELOAD, SCREE SHARDS and SCREE MAP reload and show the map')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with BackgroundCrowd([proxy.address], models(run)) as crowd, cluster.connect() as admin:
            for i in range(run.options.rounds):
                replace_file(cluster.shards_path, same_places_text(cluster, i))
                reply = admin.get('SCREE', 'RELOAD')
                check(not isinstance(reply, ReplyError), 'SCREE RELOAD: %r' % reply)
                check_equal(epoch_of(proxy), cluster.epoch, 'epoch right after SCREE RELOAD')
                let_play(crowd)
            shards, text = repr(admin.get('SCREE', 'SHARDS')), repr(admin.get('SCREE', 'MAP'))
            for _, address, _ in cluster.shard_addresses():
                check(str(address[1]) in shards, 'SCREE SHARDS lacks port %d: %s' % (address[1], shards))
            check('epoch' in text and str(cluster.epoch) in text, 'SCREE MAP: %s' % text)
        check_crowd(run, crowd)


@suite.case('when SCREE RELOAD replies, every worker has the new configuration, however busy it is')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, namespaces={'shop': {'token': 'token-0'}},
                 proxy_options={'proxy': {'requirepass': 'operator', 'workers': 4}}) as cluster:
        proxy = cluster.proxies[0]
        with cluster.connect() as admin, contextlib.ExitStack() as stack:
            busy = [stack.enter_context(cluster.connect()) for _ in range(8)]
            clients = [stack.enter_context(cluster.connect()) for _ in range(8)]
            check_equal(admin.get('AUTH', 'operator'), b'OK')
            for turn in range(1, 4 * run.options.rounds):
                proxy.namespaces = {'shop': {'token': 'token-%d' % turn}}
                proxy.write_config()
                for client in busy:
                    client.send_many([['AUTH', 'shop', 'wrong']] * 1000)
                check(str(admin.get('SCREE', 'RELOAD')).startswith("b'OK"), 'the reload')
                said = [client.get('AUTH', 'shop', 'token-%d' % turn) for client in clients]
                check_equal(said, [b'OK'] * len(clients), 'round %d: AUTH with the new token' % turn)
                for client in busy:
                    for _ in range(1000):
                        client.read()


@suite.case('moved slots are served by their new shard at once, the others stay')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        with cluster.connect() as client:
            keys = ['key:%d' % i for i in range(300)]
            for key in keys:
                check_equal(client.get('SET', key, 'old'), b'OK')
            moved = [key for key in keys if slot_of(key) < 4000]
            cluster.write_shards(['4000-8191', '0-3999 8192-16383'])
            check(not isinstance(client.get('SCREE', 'RELOAD'), ReplyError), 'the reload')
            for key in keys:
                want = None if key in moved else b'old'
                check_equal(client.get('GET', key), want, key)
            for key in moved:
                check_equal(client.get('SET', key, 'new'), b'OK')
            with cluster.partition(1) as partition:
                check_equal({partition.get('GET', key) for key in moved}, {b'new'})
            with cluster.partition(0) as partition:
                check_equal({partition.get('GET', key) for key in moved}, {b'old'})


@suite.case('shards are added and removed under load without failed requests')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        owners = models(run)
        replace_file(cluster.shards_path, slots_text(cluster, set()))
        proxy.reload()
        wait_epoch(proxy, cluster.epoch)
        used = {slot_of(key) for own in owners for keys in (own.strings, own.counters, own.hashes, own.tagged)
                for key in keys}
        spare = [slot for slot in range(16384) if slot not in used][:300]
        with BackgroundCrowd([proxy.address], owners) as crowd:
            for i in range(run.options.rounds):
                give = set(spare) if i % 2 else set()
                text = slots_text(cluster, give)
                replace_file(cluster.shards_path, text)
                proxy.reload()
                wait_epoch(proxy, cluster.epoch)
                let_play(crowd)
        check_crowd(run, crowd)


def slots_text(cluster, to_third):
    """Shards 0 and 1 have half of the slots each, without those in `to_third`, which shard 2 has; without slots it does
    not exist."""
    cluster.epoch += 1
    lines = ['[map]', 'epoch = %d' % cluster.epoch]
    wanted = [[slot for slot in range(0, 8192) if slot not in to_third],
              [slot for slot in range(8192, 16384) if slot not in to_third], sorted(to_third)]
    for (name, (host, port), _), slots in zip(cluster.shard_addresses(), wanted):
        if not slots:
            continue
        lines += ['[shard %s]' % name, 'address = %s:%d' % (host, port)]
        lines += ['slots = %s' % part for part in ranges(slots)]
    return '\n'.join(lines) + '\n'


def ranges(slots):
    """The slots as lines of up to 20 ranges."""
    parts, start, last = [], slots[0], slots[0]
    for slot in slots[1:] + [None]:
        if slot is None or slot != last + 1:
            parts.append('%d-%d' % (start, last) if last > start else '%d' % start)
            start = slot
        last = slot
    return [' '.join(parts[i:i + 20]) for i in range(0, len(parts), 20)]


def swap_owners(text):
    """The first two shards exchange their slots, and the epoch is the one in force."""
    slots = re.findall('^slots = .*$', text, re.M)
    text = text.replace(slots[0], '@').replace(slots[1], slots[0]).replace('@', slots[1])
    return re.sub(r'epoch = (\d+)', lambda match: 'epoch = %d' % (int(match[1]) - 1), text)


BAD_MAPS = [
    ('a slot twice', lambda text: text.replace('slots = 0-4095', 'slots = 0-4096')),
    ('a slot missing', lambda text: text.replace('slots = 0-4095', 'slots = 0-4094')),
    ('a slot too high', lambda text: text.replace('-16383', '-16384')),
    ('not a slot', lambda text: text.replace('slots = 0-4095', 'slots = zero-4095')),
    ('no address', lambda text: text.replace('address =', 'addres =', 1)),
    ('a bad port', lambda text: text.replace('address = 127.0.0.1:', 'address = 127.0.0.1:9', 1)),
    ('the same epoch with other slots', swap_owners),
    ('an older epoch', lambda text: text.replace('epoch = ', 'epoch = 0\n; ', 1)),
    ('an empty file', lambda text: ''),
    ('not an ini file', lambda text: '\x00\xff garbage\n' + text),
    ('a shard twice', lambda text: text + '\n' + text[text.index('[shard'):]),
]


@suite.case('an invalid map is refused with a reason, and the old one stays')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with cluster.connect() as admin, BackgroundCrowd([proxy.address], models(run, 10)) as crowd:
            good = cluster.epoch
            for title, spoil in BAD_MAPS:
                cluster.epoch = good
                text = cluster.shards_text()
                check(spoil(text) != text, 'the case "%s" changes nothing' % title)
                replace_file(cluster.shards_path, spoil(text))
                reply = admin.get('SCREE', 'RELOAD')
                check(isinstance(reply, ReplyError), '%s was accepted: %r' % (title, reply))
                run.debug('%s: %s' % (title, reply))
                if title != 'an empty file':
                    check('shards.ini:' in str(reply), '%s: the reason names no line: %s' % (title, reply))
                check_equal(epoch_of(proxy), good, 'epoch after ' + title)
            check(b'shards.ini' in proxy.log(), 'the log does not say why')
            failures = metric(proxy.http('/metrics')[1], 'scree_proxy_reload_failures_total')
            check(failures >= len(BAD_MAPS), 'only %s failures counted' % failures)
            cluster.epoch = max(cluster.epoch, good)
            replace_file(cluster.shards_path, cluster.shards_text())
            check(not isinstance(admin.get('SCREE', 'RELOAD'), ReplyError), 'the good map again')
            os.unlink(cluster.shards_path)
            check(isinstance(admin.get('SCREE', 'RELOAD'), ReplyError), 'a missing file was accepted')
            let_play(crowd)
        check_crowd(run, crowd)


@suite.case('namespaces and limits of proxy.ini are reloaded too; options that need a restart are named')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1, namespaces={'one': {'token': 'token-one'}},
                 proxy_options={'proxy': {'requirepass': 'operator'}}) as cluster:
        proxy = cluster.proxies[0]
        with cluster.connect() as client, cluster.connect() as admin:
            for connection, secret in ((client, 'token-one'), (admin, 'operator')):
                check_equal(connection.get('AUTH', secret), b'OK')
            client.call('SET', 'k', 'in one')
            proxy.namespaces = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}
            proxy.options = {'proxy': {'requirepass': 'operator', 'maxclients': 3, 'workers': 5}}
            proxy.write_config()
            reply = admin.get('SCREE', 'RELOAD')
            check('workers' in repr(reply), 'the reload does not say that workers needs a restart: %r' % reply)
            with cluster.connect() as newcomer:
                check_equal(newcomer.get('AUTH', 'token-two'), b'OK')
                check_equal(newcomer.get('GET', 'k'), None)
                with cluster.connect() as refused:
                    check_equal(refused.read(), ('-', b'ERR max number of clients reached'))
            check_equal(client.get('GET', 'k'), b'in one', 'the client that was there')
            write_ini(proxy.config_path, [('proxy', {'listen': 'nonsense'})])
            check(isinstance(admin.get('SCREE', 'RELOAD'), ReplyError), 'a bad proxy.ini was accepted')
            check_equal(client.get('GET', 'k'), b'in one', 'after the bad file')


@suite.case('a backend reloads its own options with SIGHUP')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.call('SET', 'k', 'v')
            backend.options = {'backend': {'maxclients': 1, 'requirepass': 'pw'}}
            backend.write_config()
            backend.signal(signal.SIGHUP)

            def refused():
                with cluster.partition(0) as other:
                    try:
                        return other.call('PING')[1].startswith(b'ERR max number of clients')
                    except (Closed, OSError):  # closed before PING came
                        return False
            wait_for(refused, 'maxclients to be in force')
            check_equal(client.get('GET', 'k'), b'v')


if __name__ == '__main__':
    suite.main()
