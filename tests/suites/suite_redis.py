#!/usr/bin/python3
"""Redis' own suite, 7.0.15: its units one after the other, as an external server, at redis-server and through a proxy over three shards.

UNITS are those that need no server of their own and end within LIMIT_S. The tags leave out what needs DEBUG, replicas, files, other
databases or encodings; redis_skipped.txt names the single tests that are not played, with the reason.
"""

import os
import re

from support.cluster import free_ports
from support.harness import Suite
from support.suites import compare, fetch, need, run

suite = Suite(__doc__)

HERE = os.path.dirname(os.path.realpath(__file__))
UNITS = {  # and how many tests pass at least
    'type/string': 70, 'type/incr': 23, 'type/hash': 68, 'type/set': 90, 'type/zset': 250, 'type/list': 210, 'type/list-2': 1, 'type/list-3': 10,
    'type/stream': 60, 'type/stream-cgroups': 45, 'keyspace': 40, 'scan': 17, 'sort': 47, 'expire': 54, 'multi': 28, 'quit': 4,
    'bitops': 44, 'bitfield': 16, 'geo': 58, 'hyperloglog': 16, 'slowlog': 8, 'scripting': 95,
    'functions': 80, 'pubsub': 28, 'dump': 9, 'lazyfree': 4, 'protocol': 18, 'info-command': 4, 'introspection': 20, 'introspection-2': 42,
    'latency-monitor': 11, 'other': 11, 'pause': 12, 'tracking': 30,
}
TAGS = '-needs:debug -needs:repl -needs:save -needs:config-maxmemory -needs:pfdebug -slow -large-memory'
LIMIT_S = 300
CLIENT_PORTS = 32  # the suite's own processes connect to one of so many ports below --baseport

# The encodings of lists are fixed, and other values are refused: their CONFIG SET is passed over.
OPTIONS = '    if {[string match {config set list-*} $args]} {return OK}\n'
# A test sends XREADGROUP BLOCK on one connection and, without waiting, DEL on another: through a proxy either could be first. So could the reply of
# PING and an invalidation that an earlier write of another connection caused.
ARRIVAL = """rename ::redis::__dispatch__ ::redis::dispatch_at_once
proc ::redis::__dispatch__ {id method args} {
    if {[string equal -nocase $method ping]} {after 100}
    set code [catch {::redis::dispatch_at_once $id $method {*}$args} reply]
    if {[lsearch -nocase $args block] >= 0 && [info exists ::redis::deferred($id)] && $::redis::deferred($id)} {after 200}
    return -code $code $reply
}
"""


def skipped():
    with open(os.path.join(HERE, 'redis_skipped.txt')) as file:
        return [line.rpartition(' | ')[0] for line in file if not line.startswith('#')]


def write(path, text):
    new = '%s.%d' % (path, os.getpid())  # two runs may play at the same time
    with open(new, 'w') as file:
        file.write(text)
    os.rename(new, path)


def write_helper(folder):
    """The suite's own program with OPTIONS and ARRIVAL."""
    with open(os.path.join(folder, 'tests', 'test_helper.tcl')) as file:
        given = file.read()
    write(os.path.join(folder, 'tests', 'own_helper.tcl'),
          given.replace('proc r {args} {\n', 'proc r {args} {\n' + OPTIONS)
          .replace('source tests/support/redis.tcl\n', 'source tests/support/redis.tcl\n' + ARRIVAL))


def play(folder, unit, address):
    skipped_path = os.path.join(folder, 'skipped.txt')
    write(skipped_path, '\n'.join(skipped()))
    write_helper(folder)
    text = run(['timeout', '--kill-after', '5', str(LIMIT_S), 'tclsh', 'tests/own_helper.tcl', '--host', address[0], '--port', str(address[1]),
                '--baseport', str(free_ports(CLIENT_PORTS) + CLIENT_PORTS), '--singledb', '--ignore-encoding', '--ignore-digest', '--durable',
                '--clients', '1', '--skipfile', skipped_path, '--tags', TAGS, '--single', 'unit/' + unit],
               folder, may_fail=True)
    text = re.sub(r'\x1b\[[0-9;]*m', '', text)
    ends = {'its end': 'PASSED' if '[1/1 done]' in text else 'FAILED'}
    for word, name in re.findall(r'^\[(ok|err)\]: (.*?)(?: \(\d+ ms\)| in tests/.*)?$', text, re.M):
        if ends.get(name) != 'FAILED':  # some names come more than once
            ends[name] = 'PASSED' if word == 'ok' else 'FAILED'
    return ends


def add(unit, tests_min):
    @suite.case('unit ' + unit)
    def _(_run):
        need('tclsh', 'tcl')
        folder = os.path.join(fetch('redis', '5:7.0.15-1~deb12u10', 'redis_7.0.15.orig.tar.gz'), 'redis-7.0.15')
        compare('redis ' + unit, lambda address: play(folder, unit, address), tests_min)


for _unit, _tests_min in UNITS.items():
    add(_unit, _tests_min)

if __name__ == '__main__':
    suite.main()
