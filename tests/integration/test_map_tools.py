#!/usr/bin/python3
"""What the operator sees of the shard map: --plan, --rebalance, --check, SCREE MAP STATUS, and keys and bytes of slots."""

import json
import os
import re
import subprocess

from support.cluster import Cluster, binary, http_get, metric, slot_of
from support.harness import Suite, check, check_equal, patience, wait_for
from support.moves import wait_settled
from support.resp import Connection, ReplyError

suite = Suite(__doc__)


def tool(cluster, *arguments):
    """(exit code, standard output, standard error) of scree-proxy with these arguments."""
    done = subprocess.run([binary('scree-proxy'), '--config', cluster.proxies[0].config_path, *arguments],
                          capture_output=True, text=True, timeout=2 * patience())
    return done.returncode, done.stdout, done.stderr


def put_map(cluster, name, slots, epoch, addresses=None):
    """Writes a map beside the cluster's; `slots`: {shard: ranges}."""
    known = {shard: '%s:%d' % address for shard, address, _ in cluster.shard_addresses()}
    path = os.path.join(cluster.folder, name)
    with open(path, 'w') as file:
        file.write('[map]\nepoch = %d\n' % epoch)
        for shard, ranges in slots.items():
            file.write('[shard %s]\nslots = %s\naddress = %s\n' % (shard, ranges, (addresses or known)[shard]))
    return path


def fields(text):
    """{name: value} of lines "name:value"."""
    return dict(line.split(':', 1) for line in text.splitlines() if ':' in line)


def status(client):
    return fields(client.get('SCREE', 'MAP', 'STATUS').decode())


def internal(cluster, shard):
    """A connection as a proxy's, which may use internal commands."""
    _, address, _ = cluster.shard_addresses()[shard]
    connection = Connection(address)
    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
    return connection


def weights(connection):
    """{slot: (keys, bytes)} of all pages, and the number of pages."""
    found, first, pages = {}, 0, 0
    while first < 16384:
        lines = connection.get('SCREE', 'WEIGHTS', str(first))
        pages += 1
        low, high = map(int, re.fullmatch(rb'slots=(\d+)-(\d+)', lines[0]).groups())
        check(low == first and high >= low, lines[0])
        for line in lines[1:]:
            slot, keys, size = map(int, re.fullmatch(rb'slot=(\d+) keys=(\d+) bytes=(\d+) load=\d+', line).groups())
            check(low <= slot <= high and slot not in found, line)
            found[slot] = (keys, size)
        first = high + 1
    return found, pages


@suite.case('SCREE WEIGHTS counts the keys of each slot exactly, in all databases, page by page')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        expected = {}
        for i in range(1500):
            key = 'key:%d' % i
            client.get('SELECT', str(i % 3))
            client.get('SET', key, 'v' * 100)
            expected[slot_of(key)] = expected.get(slot_of(key), 0) + 1
        found, pages = {}, 0
        for shard in range(2):
            with internal(cluster, shard) as connection:
                part, count = weights(connection)
                pages = max(pages, count)
                check(not set(part) & set(found), 'a slot at both shards')
                found.update(part)
                check(all(size > 0 for _, size in part.values()), 'slots without bytes')
                check(isinstance(connection.get('SCREE', 'WEIGHTS', '16384'), ReplyError), 'slot 16384')
                check(isinstance(connection.get('SCREE', 'WEIGHTS', 'x'), ReplyError), 'slot x')
        check_equal({slot: keys for slot, (keys, _) in found.items()}, expected)
        check(pages > 4, 'only %d pages' % pages)
        with cluster.partition(0) as ordinary:
            check(isinstance(ordinary.get('SCREE', 'WEIGHTS', '0'), ReplyError), 'it is internal')
            ordinary_error = str(client.get('SCREE', 'WEIGHTS', '0'))
            check('ERR' in ordinary_error, ordinary_error)


@suite.case('--plan prints slots, keys and bytes that a reload would move, as text and as JSON')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        for i in range(300):
            client.get('SET', 'key:%d' % i, 'v' * 100)
        moved = [i for i in range(300) if 4096 <= slot_of('key:%d' % i) < 8192]
        path = put_map(cluster, 'next.ini', {'b0p0': '0-4095', 'b1p0': '4096-16383'}, cluster.epoch + 1)
        code, text, error = tool(cluster, '--plan', path, '--json')
        check_equal((code, error), (0, ''))
        plan = json.loads(text)
        check_equal([(row['from'], row['to'], row['slots'], row['keys']) for row in plan['moves']],
                    [('b0p0', 'b1p0', 4096, len(moved))])
        check(plan['moves'][0]['bytes'] > 100 * len(moved) / 2, plan)
        check_equal((plan['migration_rate'], plan['seconds']), (10 << 20, 1))
        check_equal((plan['epoch'], plan['total']['keys'], plan['is_complete'], plan['shards_silent'], plan['notes']),
                    (cluster.epoch + 1, len(moved), True, 0, []))
        code, text, error = tool(cluster, '--plan', path)
        check_equal((code, error), (0, ''))
        check(re.search(r'^b0p0 +b1p0 +4096 +%d +\d+$' % len(moved), text, re.M), text)
        check('At the lowest migration-rate, 10485760 bytes per second' in text, text)
        same = put_map(cluster, 'same.ini', {'b0p0': '0-8191', 'b1p0': '8192-16383'}, cluster.epoch + 1)
        code, text, error = tool(cluster, '--plan', same)
        check(code == 0 and 'nothing moves' in text, text)


@suite.case('--plan names new shards, removed ones that own slots, and shards that do not reply')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster:
        path = put_map(cluster, 'next.ini', {'b0p0': '0-8191', 'fresh': '8192-16383'}, cluster.epoch + 1,
                       {'b0p0': '%s:%d' % cluster.shard_addresses()[0][1], 'fresh': '127.0.0.1:1'})
        code, text, _ = tool(cluster, '--plan', path)
        check_equal(code, 0)
        check('note: shard b1p0 is not in the new map, but owns 8192 slots' in text, text)
        check('note: shard fresh (127.0.0.1:1) is new' in text, text)
        cluster.backends[1].stop()
        code, text, _ = tool(cluster, '--plan', path)
        check_equal(code, 3)
        check('note: shard b1p0 has not replied: ' in text, text)
        check(re.search(r'^b1p0 +fresh +8192 ', text, re.M), 'the other shard knows the owner: ' + text)
        cluster.backends[1].start()


@suite.case('--plan refuses an impossible map with file and line')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster:
        for slots, epoch, reason in (
                ({'b0p0': '0-8191', 'b1p0': '8192-16382'}, 9, 'next.ini:7: expected every slot once'),
                ({'b0p0': '0-8192', 'b1p0': '8192-16383'}, 9, 'next.ini:7: shard b1p0.slots: expected slots without'),
                ({'b0p0': '0-9000', 'b1p0': '9001-16383'}, cluster.epoch, 'next.ini:2: map.epoch: expected more than'),
                ({'b0p0': '0-8191', 'b1p0': '8192-16383'}, cluster.epoch - 1 or 0, 'next.ini:2: map.epoch: expected')):
            code, text, error = tool(cluster, '--plan', put_map(cluster, 'next.ini', slots, epoch))
            check_equal((code, text), (1, ''))
            check(reason in error, error)
        code, text, error = tool(cluster, '--plan', '/nowhere.ini')
        check(code == 1 and '/nowhere.ini' in error, error)


@suite.case('tools refuse arguments that do not fit together')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        for words, reason in ((['--json'], 'only together with --plan'), (['--shards', '-a'], 'only together'),
                              (['--rebalance', 'colour'], 'expected slots, keys, bytes or load'),
                              (['--rebalance', '--shards', '-b0p0'], 'at least one shard keeps slots'),
                              (['--rebalance', '--shards', '-nobody'], 'expected a shard of the map'),
                              (['--rebalance', '--shards', 'a=b'], 'expected an address'),
                              (['--rebalance', '--shards', 'b0p0=h:1'], 'expected a new name'),
                              (['--plan', 'a', '--rebalance'], 'not together')):
            code, text, error = tool(cluster, *words)
            check_equal((code, text), (2, ''), words)
            check(reason in error, error)


@suite.case('--rebalance prints a map that the proxy accepts: added shards get slots, removed ones give theirs')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster:
        code, text, error = tool(cluster, '--rebalance', '--shards', 'x=127.0.0.1:1,y=127.0.0.1:2')
        check_equal((code, error), (0, ''))
        path = os.path.join(cluster.folder, 'grown.ini')
        with open(path, 'w') as file:
            file.write(text)
        code, text, _ = tool(cluster, '--plan', path, '--json')
        plan = json.loads(text)
        check_equal((code, plan['epoch'], plan['total']['slots']), (0, cluster.epoch + 1, 6553))
        check_equal({row['to'] for row in plan['moves']}, {'x', 'y'})
        code, text, error = tool(cluster, '--rebalance', 'slots', '--shards', '-b1p0,-b2p0')
        check_equal((code, error), (0, ''))
        check('[shard b1p0]\nslots =\n' in text and '[shard b0p0]\nslots = 0-16383\n' in text, text)
        check('; b1p0 has no slots: remove its section' in text, text)


@suite.case('--rebalance keys and bytes split a hot range')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        keys = [key for key in ('key:%d' % i for i in range(20000)) if slot_of(key) < 2000]
        for key in keys:
            client.get('SET', key, 'v' * 200)
        for measure in ('keys', 'bytes'):
            code, text, error = tool(cluster, '--rebalance', measure)
            check_equal((code, error), (0, ''))
            path = os.path.join(cluster.folder, 'even.ini')
            with open(path, 'w') as file:
                file.write(text)
            code, text, _ = tool(cluster, '--plan', path, '--json')
            plan = json.loads(text)
            check_equal((code, [(row['from'], row['to']) for row in plan['moves']][:1]), (0, [('b0p0', 'b1p0')]))
            check(len(keys) / 4 < plan['total']['keys'] < len(keys) * 2 / 3, plan)
        cluster.backends[1].stop()
        code, text, error = tool(cluster, '--rebalance', 'keys')
        check_equal((code, text), (3, ''))
        check('shard b1p0 has not said its keys' in error, error)
        cluster.backends[1].start()


def slot_stats(client, *words):
    """{slot: {metric: figure}}, in the order of the reply."""
    reply = client.get('CLUSTER', 'SLOT-STATS', *words)
    check(isinstance(reply, list), reply)
    return {slot: stats if isinstance(stats, dict) else dict(zip(stats[::2], stats[1::2])) for slot, stats in reply}


@suite.case('CLUSTER SLOT-STATS counts keys and costs by slot, and --rebalance load splits the range of busy slots')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client, cluster.partition(0) as direct:
        busy = [key for key in ('key:%d' % i for i in range(2000)) if slot_of(key) < 2000][:40]
        idle = cluster.key_on(0, 'idle')
        client.pipeline([['SET', key, 'v' * 500] for key in busy + [idle]])
        reads = [['GET', key] for key in busy for _ in range(50)]
        client.pipeline(reads)  # also if a machine that stops has added so much time to one slot that the loop ends at once
        while slot_stats(client, 'ORDERBY', 'cpu-usec', 'LIMIT', 1).popitem()[1][b'cpu-usec'] < 2000:
            client.pipeline(reads)
        whole = slot_stats(client, 'SLOTSRANGE', 0, 16383)
        check_equal(list(whole), list(range(16384)))
        for client_of in (client, direct):
            owned = range(16384 if client_of is client else 8192)
            check_equal(list(slot_stats(client_of, 'SLOTSRANGE', 0, 16383)), list(owned))
            top = slot_stats(client_of, 'ORDERBY', 'network-bytes-out', 'LIMIT', 20)
            check(len(top) == 20 and {slot_of(key) for key in busy} >= set(top), top)
            for metric in (b'key-count', b'cpu-usec', b'network-bytes-in', b'network-bytes-out'):
                for direction in ('ASC', 'DESC'):
                    stats = slot_stats(client_of, 'ORDERBY', metric, direction)
                    figures = [figure[metric] for figure in stats.values()]
                    check_equal(figures, sorted(figures, reverse=direction == 'DESC'), metric)
                    check_equal(sorted(stats), list(owned))
            check_equal(sum(stats[b'key-count'] for stats in slot_stats(client_of, 'SLOTSRANGE', 0, 8191).values()), len(busy) + 1)
        check(whole[slot_of(busy[0])][b'network-bytes-out'] > whole[slot_of(busy[0])][b'network-bytes-in'] > 0, 'bytes')
        for words, error in ((['SLOTSRANGE', 5, 2], 'Start slot number 5 is greater than end slot number 2'),
                             (['SLOTSRANGE', 5, 16384], 'Invalid or out of range slot'),
                             (['ORDERBY', 'x'], 'Unrecognized sort metric for ORDERBY.'),
                             (['ORDERBY', 'key-count', 'LIMIT', 0], 'Limit has to lie in between 1 and 16384 (maximum number of slots).'),
                             (['ORDERBY', 'key-count', 'LIMIT'], 'syntax error'),
                             (['ORDERBY', 'key-count', 'ASC', 'DESC'], 'Multiple filters of the same type are disallowed.'),
                             (['SLOTSRANGE', 5], "unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.")):
            for connection in (client, direct):
                check_equal(str(connection.get('CLUSTER', 'SLOT-STATS', *words)), 'ERR ' + error)
        path = os.path.join(cluster.folder, 'even.ini')

        def splits_busy_range():
            """A machine that stops a thread adds this time to one slot, so more requests may be needed until the busy slots cost about the same."""
            client.pipeline(reads)
            code, text, error = tool(cluster, '--rebalance', 'load')
            check_equal((code, error), (0, ''))
            with open(path, 'w') as file:
                file.write(text)
            code, text, _ = tool(cluster, '--plan', path, '--json')
            plan = json.loads(text)
            check(code == 0, text)
            return plan['moves'] and plan['moves'][0]['from'] == 'b0p0' and 5 < plan['total']['keys'] < len(busy) - 5
        wait_for(splits_busy_range, 'the range of busy slots to be split')
        for connection in (client, direct):  # the proxy sends RESETSTAT to no shard
            check_equal(connection.get('CONFIG', 'RESETSTAT'), b'OK')
        check_equal(max(figure[b'network-bytes-out'] for figure in slot_stats(direct, 'SLOTSRANGE', 0, 8191).values()), 0)


@suite.case('--check and the log of a reload say what the new map moves')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        code, text, _ = tool(cluster, '--check')
        check(code == 0 and text.endswith('good\nthis map moves nothing\n'), text)
        check_equal(client.get('SCREE', 'MAP', 'PAUSE'), b'OK')  # backends notice the new map, and would move the slots before the check
        epoch = cluster.epoch + 1
        os.replace(put_map(cluster, 'next.ini', {'b0p0': '0-8181', 'b1p0': '8182-16383'}, epoch), cluster.shards_path)
        code, text, _ = tool(cluster, '--check')
        check(code == 0 and text.endswith('good\nthis map moves 10 slots from b0p0 to b1p0\n'), text)
        reply = client.get('SCREE', 'RELOAD')
        wait_for(lambda: b'moves="10 slots from b0p0 to b1p0"' in cluster.proxies[0].log(), 'the log of the reload')
        check(b'OK' in reply, reply)
        cluster.backends[0].signal(1)
        wait_for(lambda: b'moves="10 slots from b0p0 to b1p0"' in cluster.backends[0].log(), 'the log of the backend')
        cluster.epoch = epoch


@suite.case('a shard whose slots have moved away says that it is drained, in its log, in the status and in metrics')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        for i in range(200):
            check_equal(client.get('SET', 'key:%d' % i, 'v' * 1000), b'OK')
        wait_for(lambda: status(client)['settled'] == '1', 'a settled map')
        code, text, error = tool(cluster, '--rebalance', '--shards=-b1p0')
        check_equal((code, error), (0, ''))
        with open(cluster.shards_path + '.new', 'w') as file:
            file.write(text)
        os.rename(cluster.shards_path + '.new', cluster.shards_path)
        for process in cluster.backends + cluster.proxies:
            process.signal(1)
        wait_for(lambda: status(client)['settled'] == '1' and status(client)['drained'] == 'b1p0', 'b1p0 to be drained')
        wait_for(lambda: b' shard_drained partition=0 shard=b1p0 ' in cluster.backends[1].log(), 'the log')
        sent = metric(http_get(cluster.backends[1].admin, '/metrics')[1], 'scree_backend_slots_sent_total')
        received = metric(http_get(cluster.backends[0].admin, '/metrics')[1], 'scree_backend_slots_received_total')
        check_equal((sent, received), (8192, 8192))
        cluster.backends[1].stop()
        for i in range(200):
            check_equal(client.get('GET', 'key:%d' % i), b'v' * 1000)
        cluster.backends[1].start()


@suite.case('metrics show what each partition owns and what the map gives it, and the hash of the map everywhere')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster:
        def figures(index):
            text = http_get(cluster.backends[index].admin, '/metrics')[1]
            return [metric(text, 'scree_backend_slots_' + name) for name in ('owned', 'wanted', 'to_send', 'to_get', 'moving')]

        def hashes():
            texts = [http_get(process.admin, '/metrics')[1] for process in cluster.backends + cluster.proxies]
            return {metric(text, 'scree_backend_map_hash') or metric(text, 'scree_proxy_map_hash') for text in texts}
        for index in (0, 1):
            wait_for(lambda: figures(index) == [8192, 8192, 0, 0, 0], 'the slots of backend %d' % index)
        check_equal(len(hashes()), 1)
        cluster.backends[1].stop()  # so that nothing can move
        cluster.write_shards(['0-8181', '8182-16383'])
        cluster.backends[0].signal(1)
        wait_for(lambda: figures(0)[:3] == [8192, 8182, 10], 'the slots to send')
        check_equal(metric(http_get(cluster.backends[0].admin, '/metrics')[1], 'scree_backend_map_epoch'), cluster.epoch)
        cluster.backends[1].start()


@suite.case('a proxy that has learned owners which are not true any more shows a settled map, and makes backups')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        wait_for(lambda: status(client)['settled'] == '1', 'a settled map')
        key = cluster.key_on(0)
        check_equal(client.get('SET', key, 'v'), b'OK')
        check_equal(client.get('SCREE', 'MAP', 'PAUSE'), b'OK')
        cluster.write_shards(['8192-16383', '0-8191'])
        for process in cluster.backends + cluster.proxies:
            process.signal(1)
        wait_for(lambda: status(client)['epoch'] == str(cluster.epoch), 'the new map')
        # it goes to the shard that the map names, which sends it to the owner; no other request comes for these slots
        wait_for(lambda: client.get('GET', key) == b'v' and b'routes_learned' in cluster.proxies[0].log(), 'a bounce')
        check_equal(client.get('SCREE', 'MAP', 'RESUME'), b'OK')
        wait_settled(cluster)
        wait_for(lambda: status(client)['settled'] == '1', 'the proxy to say so')

        def shown():
            document = json.loads(http_get(cluster.proxies[0].admin, '/status.json')[1])
            return [shard['slots'] for shard in document['map']['shards']]
        wait_for(lambda: shown() == [[[8192, 16383]], [[0, 8191]]], 'the status page')  # which is made anew from time to time
        check_equal(client.get('SCREE', 'MAP')[3][1][3], b'8192-16383', 'SCREE MAP')
        hashes = {metric(http_get(process.admin, '/metrics')[1], 'scree_%s_map_hash' % process.name.split('-')[0])
                  for process in cluster.backends + cluster.proxies}
        check_equal(len(hashes), 1, 'hashes of the map')
        check_equal(client.get('SCREE', 'BACKUP', 'START', 'NAME', 'one', 'WAIT', 'LEASE', '15000'), b'one')
        check_equal(client.get('GET', key), b'v')


@suite.case('SCREE MAP STATUS shows wish, owners and difference, and names shards that do not reply')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        seen = status(client)
        check_equal([seen[name] for name in ('epoch', 'shards', 'shards_silent', 'slots_to_move', 'slots_unknown',
                                             'slots_owned_twice')], [str(cluster.epoch), '2', '0', '0', '0', '0'])
        check('owned=8192,wanted=8192,' in seen['shard_b0p0'], seen)
        cluster.backends[1].stop()
        wait_for(lambda: status(client)['shards_silent'] == '1', 'the shard that is down')
        seen = status(client)
        check_equal((seen['settled'], seen['slots_unknown']), ('0', '0'))
        check(seen['shard_b1p0'].startswith('address=') and 'state=silent' in seen['shard_b1p0'], seen)
        check(seen['reason'].startswith('shard '), seen)
        cluster.backends[1].start()
        wait_for(lambda: status(client)['shards_silent'] == '0', 'the shard that is back')
        code, text, error = tool(cluster, '--map-status')
        same = fields(text)
        check_equal((code, error, same['epoch'], same['shard_b0p0']),
                    (0 if same['settled'] == '1' else 4, '', str(cluster.epoch), status(client)['shard_b0p0']))
        for words in (['STATE'], ['STATUS', 'x'], ['PAUSE', 'x']):
            check(isinstance(client.get('SCREE', 'MAP', *words), ReplyError), words)


suite.main()
