#!/usr/bin/python3
"""What clients ask the server about itself: INFO, LATENCY, COMMAND; the same questions to redis-server and to Scree."""

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection

suite = Suite(__doc__)


def info(connection, *sections):
    """{section: {field: value}}"""
    document, section = {}, None
    for line in connection.get('INFO', *sections).decode().split('\r\n'):
        if line.startswith('# '):
            section = document.setdefault(line[2:], {})
        elif ':' in line:
            name, _, text = line.partition(':')
            section[name] = text
    return document


def with_both(body):
    """Runs the body with the connection to redis-server, one to Scree, and its cluster: a partition, then a proxy over three shards."""
    for options in ({'backends': 1, 'proxies': 0}, {'backends': 3, 'proxies': 1, 'linked': True}):
        with Oracle() as oracle, Cluster(partitions=1, **options) as cluster:
            with Connection(oracle.address) as theirs, \
                    Connection(cluster.proxies[0].address if cluster.proxies else cluster.backends[0].addresses[0]) as ours:
                body(theirs, ours, cluster)


@suite.case('INFO has each section and field of redis-server, also about scripts and functions')
def _(run):
    def body(theirs, ours, cluster):
        for connection in (theirs, ours):
            connection.call('SET', 'k', 'v')
            connection.call('EVAL', 'return 1', '0')
            connection.call('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        there, here = info(theirs, 'everything'), info(ours, 'everything')
        for section, fields in there.items():
            check(section in here, 'section %s' % section)
            if section not in ('Commandstats', 'Latencystats', 'Errorstats'):
                check_equal([field for field in fields if field not in here[section]], [], section)
        memory = here['Memory']
        check_equal(int(memory['used_memory_scripts']), int(memory['used_memory_scripts_eval']) + int(memory['used_memory_functions']))
        check(int(memory['used_memory_scripts_eval']) >= 8 and int(memory['used_memory_functions']) >= 70, memory)
        check_equal(memory['used_memory_vm_total_human'][-1], 'K')
    with_both(body)


@suite.case('INFO clients: keys that clients wait for, and those whose deletion ends a wait')
def _(run):
    def body(theirs, ours, cluster):
        del theirs
        address = (ours.socket if hasattr(ours, 'socket') else ours.sock).getpeername()
        with Connection(address) as popper, Connection(address) as reader:
            ours.call('XGROUP', 'CREATE', 's', 'g', '$', 'MKSTREAM')
            popper.send('BLPOP', 'a', 'b', 'c', '0')
            reader.send('XREADGROUP', 'GROUP', 'g', 'c', 'BLOCK', '0', 'STREAMS', 's', '>')
            def shown():
                clients = info(ours, 'clients')['Clients']
                return int(clients['total_blocking_keys']), int(clients['total_blocking_keys_on_nokey'])
            wait_for(lambda: shown() == (4, 1), 'four keys')
    with_both(body)


@suite.case('statistics of commands have none that proxies and shards send each other')
def _(run):
    def body(theirs, ours, cluster):
        del theirs
        ours.call('SET', 'k', 'v')
        connections = [ours] + [cluster.partition(shard) for shard in range(len(cluster.backends))]
        for connection in connections:
            shown = info(connection, 'commandstats', 'latencystats')
            names = [name for fields in shown.values() for name in fields] + [name.decode() for name in connection.get('LATENCY', 'HISTOGRAM')[::2]]
            # SCREE OWNERS is a command of operators, too
            check_equal([name for name in names if 'scree|' in name and not name.endswith('scree|owners')], [], connection.address)
        check('cmdstat_set' in info(ours, 'commandstats')['Commandstats'], 'what clients send is shown')
    with_both(body)


if __name__ == '__main__':
    suite.main()
