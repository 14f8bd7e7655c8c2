"""rig.py - the systems that a bench script measures, and the load on them.

    Farm      starts processes in a folder of its own, stops them all
    System    the address for the load, and the processes whose CPU is counted
    load()    one run of tests/bench/load.c ─► a Sample
    in_turn() medians of several runs; systems alternate, so that changes of the machine's load affect all alike

CPU is that of all threads of all processes of a system, from schedstat before and after. Before each run the system
must be idle, so that a compaction caused by an earlier run is not counted.
"""

import json
import os
import statistics
import subprocess
import time

from support.cluster import Oracle, Process, binary, even_slots, free_ports, write_ini
from support.harness import wait_for

CLIENTS = 50
SECRET = 'bench-secret'


class System:
    """An address for clients, and the processes behind it; `words`: options of redis-benchmark."""

    def __init__(self, process, also=(), words=()):
        self.process, self.port, self.processes, self.words = process, process.port, [process] + list(also), list(words)


class Farm:
    """Processes by name, started on first use, stopped at the end."""

    def __init__(self, folder):
        self.folder, self.started = folder, []

    def start(self, process):
        self.started.append(process)
        process.start()
        return process

    def stop(self):
        for process in reversed(self.started):
            if process.alive():
                process.child.terminate()
                process.wait_exit(60)
        self.started = []

    def redis(self, name, options=()):
        return self.start(Oracle(self.folder, name, options))

    def redis_log(self, fsync):
        """A redis-server with an append-only file; `fsync` is everysec or always."""
        name = 'redis-' + fsync
        return self.redis(name, ['--appendonly', 'yes', '--appendfsync', fsync, '--appenddirname', name + '-log'])

    def backend(self, name, durability='always', store=(), partitions=1, secret=SECRET, tls=None):
        """With `tls`, a Kit, it listens only to TLS."""
        port, path = free_ports(partitions), os.path.join(self.folder, name + '.ini')
        options = {'bind': '127.0.0.1', 'port': port, 'partitions': partitions, 'durability': durability, 'secret': secret,
                   'data': os.path.join(self.folder, name + '-data')}
        if tls:
            options.update(tls.listening(), port=-1, **{'tls-port': port})
        write_ini(path, [('backend', options), ('store', dict(store))])
        process = Process(name, [binary('scree-backend'), '--config', path], self.folder, range(port, port + partitions))
        process.port, process.addresses = port, [('127.0.0.1', port + i) for i in range(partitions)]
        return self.start(process)

    def proxy(self, name, addresses, secret=SECRET, workers=1, tls=None, upstream=()):
        """A proxy with a shard for each address. With `tls` it listens only to TLS; `upstream`: options of its section
        [upstream]."""
        port, path = free_ports(), os.path.join(self.folder, name + '.ini')
        shards = os.path.join(self.folder, name + '-shards.ini')
        write_ini(shards, [('map', {'epoch': 1})] + [
            ('shard s%d' % i, {'slots': slots, 'address': '%s:%d' % address})
            for i, (slots, address) in enumerate(zip(even_slots(len(addresses)), addresses))])
        listen = '127.0.0.1:%d' % port
        options = {'listen': listen, 'admin': '', 'workers': workers, 'shards': shards}
        if tls:
            options.update(tls.listening(), listen='', **{'tls-listen': listen})
        write_ini(path, [('proxy', options), ('upstream', dict(upstream, secret=secret))])
        process = Process(name, [binary('scree-proxy'), '--config', path], self.folder, [port])
        process.port = port
        return self.start(process)


# ---- measuring ---------------------------------------------------------------------------------------------------

class Sample:
    def __init__(self, figures, cpu_us):
        self.rate, self.cpu_us = figures['units'] / figures['seconds'], cpu_us
        self.p50, self.p99, self.p999, self.longest, self.errors = (figures[name] for name in ('p50', 'p99', 'p999', 'max', 'errors'))
        self.histogram = figures['histogram']


def info(client, name):
    """A field of INFO, as text."""
    for line in client.get('INFO', 'all').decode().splitlines():
        if line.startswith(name + ':'):
            return line.split(':', 1)[1]
    return '0'


def wait_until_quiet(system):
    """Waits until background work of earlier commands, such as a compaction, has ended."""
    def is_quiet():
        before = sum(process.cpu_seconds() for process in system.processes)
        time.sleep(0.1)
        return sum(process.cpu_seconds() for process in system.processes) - before < 0.01
    wait_for(is_quiet, 'background work to end', 300)


def load(system, words, depth=16, clients=CLIENTS, seconds=1.0, count=0, first=0, rate=0, waits=True, is_readonly=False):
    """A Sample. waits=False: background work may run when it begins. is_readonly: each connection sends READONLY first."""
    command = [os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load'), '--port', system.port, '--clients',
               clients, '--depth', depth, '--seconds', seconds, '--count', count, '--first', first, '--rate', rate, '--readonly', int(is_readonly),
               '--'] + words.split()
    if waits:
        wait_until_quiet(system)
    before = sum(process.cpu_seconds() for process in system.processes)
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=1800)
    after = sum(process.cpu_seconds() for process in system.processes)
    if done.returncode:
        raise RuntimeError('load: %s' % done.stderr.decode())
    figures = json.loads(done.stdout)
    if figures['errors']:
        print('  %d errors: %s' % (figures['errors'], done.stderr.decode().strip()[:200]))
    return Sample(figures, (after - before) * 1e6 / max(1, figures['units']))


def median(samples):
    """The sample with the median CPU, and the median rate."""
    samples.sort(key=lambda sample: sample.cpu_us)
    middle = samples[len(samples) // 2]
    middle.rate = statistics.median(sample.rate for sample in samples)
    return middle


def in_turn(systems, words, repeat, **how):
    """{name: Sample}; the systems alternate."""
    samples = {name: [] for name in systems}
    for _ in range(repeat):
        for name, system in systems.items():
            samples[name].append(load(system, words, **how))
    return {name: median(found) for name, found in samples.items()}
