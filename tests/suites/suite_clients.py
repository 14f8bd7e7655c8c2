#!/usr/bin/python3
"""The test suites of clients, as their authors wrote them: against redis-server, then through a proxy over three shards.

What a suite starts and where its tests connect is replaced by the address under test; the tests are as they are. Packages of npm
contain no tests; what the suites of those clients need is in tests/integration/test_clients.py. The suites of celery, rq, redis-py,
redis-rb, sidekiq, huey and dramatiq are in no source package. How the ends of tests are compared: tests/support/suites.py.
"""

import glob
import os
import re
import shutil

from support.harness import Suite
from support.suites import compare, fetch, junit_ends, need, need_packages, run

suite = Suite(__doc__)

HERE = os.path.dirname(os.path.realpath(__file__))


@suite.case('php-redis 5.3.7')
def _(_run):
    need('php', 'php-cli', 'php-redis')
    folder = os.path.join(fetch('php-redis', '5.3.7+4.3.0-3', 'php-redis_5.3.7+4.3.0.orig.tar.xz'), 'redis-5.3.7', 'tests')
    def play(address):
        text = run(['php', 'TestRedis.php', '--nocolors', '--class', 'Redis', '--host', address[0], '--port', str(address[1])],
                   folder, may_fail=True)
        return dict(re.findall(r'^(test\w+)[^\[]*\[(PASSED|FAILED|SKIPPED)\]', text, re.M))
    compare('php-redis', play, 150)


@suite.case('hiredis 0.14.1')
def _(_run):
    need('cc', 'gcc', 'libc6-dev')
    folder = os.path.join(fetch('hiredis', '0.14.1-3', 'hiredis_0.14.1.orig.tar.gz'), 'hiredis-0.14.1')
    sources = ['test.c', 'hiredis.c', 'net.c', 'read.c', 'sds.c', 'alloc.c', 'async.c']
    run(['cc', '-w', '-o', 'hiredis-test', *sources], folder)
    def play(address):
        text = run(['./hiredis-test', '-h', address[0], '-p', str(address[1]), '-s', os.path.join(folder, 'none')], folder, may_fail=True)
        return dict(re.findall(r'^#\d+ (.*?): \x1b\[[0-9;]*m(PASSED|FAILED)', text, re.M))
    compare('hiredis', play, 50)


@suite.case('predis 2.4.0')
def _(_run):
    need('phpunit', 'phpunit')
    folder = os.path.join(fetch('php-nrk-predis', '2.4.0-1', 'php-nrk-predis_2.4.0.orig.tar.xz'), 'php-nrk-predis-2.4.0')
    with open(os.path.join(folder, 'phpunit.xml.dist')) as file:
        given = re.sub(r'<(coverage|filter).*?</\1>', '', file.read(), flags=re.S)
    given = given.replace('<!-- <group>slow</group> -->', '<group>slow</group>')  # one of them depends on the machine's routes
    def play(address):
        with open(os.path.join(folder, 'own.xml'), 'w') as file:
            file.write(given.replace('value="127.0.0.1"', 'value="%s"' % address[0]).replace('value="6379"', 'value="%d"' % address[1]))
        # TRAVIS leaves out tests that publish before the subscription is confirmed
        run(['env', 'TRAVIS=1', 'phpunit', '-c', 'own.xml', '--group', 'connected', '--log-junit', 'ends.xml'], folder, may_fail=True)
        return junit_ends(os.path.join(folder, 'ends.xml'))
    compare('predis', play, 750)


@suite.case('nutcracker 0.5.0')
def _(_run):
    need_packages('python3-pytest', 'python3-redis')
    folder = os.path.join(fetch('nutcracker', '0.5.0+dfsg-2', 'nutcracker_0.5.0+dfsg.orig.tar.xz'), 'twemproxy-0.5.0', 'tests')
    def play(address):
        # without `setup` and `teardown`, which start and stop servers; test_auth is about the passwords of nutcracker and its servers
        run(['env', 'T_LOGFILE=-', 'SUITE_ADDRESS=%s:%d' % address, 'PYTHONPATH=' + HERE, '/usr/bin/python3', '-m', 'pytest', 'test_redis',
             '-p', 'no:nose', '-p', 'nutcracker_stand_in', '--ignore', 'test_redis/test_auth.py', '-k', 'not nothrow', '--junit-xml', 'ends.xml'],
            folder, may_fail=True)
        return junit_ends(os.path.join(folder, 'ends.xml'))
    compare('nutcracker', play, 22)


@suite.case('django-redis 5.4.0')
def _(_run):
    need_packages('python3-pytest', 'python3-pytest-django', 'python3-pytest-mock', 'python3-django', 'python3-redis', 'python3-msgpack')
    folder = os.path.join(fetch('django-redis', '5.4.0-1', 'django-redis_5.4.0.orig.tar.gz'), 'django-redis-5.4.0')
    own = os.path.join(folder, 'own')
    def play(address):
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(os.path.join(folder, 'tests'), own)
        for path in glob.glob(os.path.join(own, 'settings', '*.py')):
            with open(path) as file:
                given = file.read()
            with open(path, 'w') as file:
                file.write(given.replace('127.0.0.1:6379', '%s:%d' % address))
        ends = {}
        # the other settings differ in what the client puts into values, or are for Sentinel and a Unix socket
        for name in ('sqlite', 'sqlite_herd', 'sqlite_sharding', 'sqlite_json'):
            # Debian's Django is older than this Python, which warns of it; warnings are errors in this suite
            run(['env', 'PYTHONPATH=%s:%s' % (folder, own), '/usr/bin/python3', '-m', 'pytest', 'own', '-o', 'addopts=',
                 '-o', 'filterwarnings=', '--ds', 'settings.' + name, '--junit-xml', 'ends.xml'], folder, may_fail=True)
            ends.update({'%s %s' % (name, test): end for test, end in junit_ends(os.path.join(folder, 'ends.xml')).items()})
        return ends
    compare('django-redis', play, 450)


@suite.case('libredis-perl 2.000')
def _(_run):
    need_packages('perl', 'libio-socket-timeout-perl', 'libio-string-perl', 'libtest-deep-perl', 'libtest-fatal-perl', 'libtest-sharedfork-perl',
                  'libtest-tcp-perl')
    folder = os.path.join(fetch('libredis-perl', '2:2.000-1', 'libredis-perl_2.000.orig.tar.gz'), 'Redis-2.000')
    def play(address):
        ends = {}
        for path in sorted(glob.glob(os.path.join(folder, 't', '[0-9]*.t'))):
            text = run(['env', 'SUITE_ADDRESS=%s:%d' % address, 'REDIS_SERVER_PATH=' + os.path.join(HERE, 'redis_server_stand_in.py'),
                        'perl', '-Ilib', path], folder, may_fail=True)
            for failed, number, name in re.findall(r'^(not )?ok (\d+)(?: - (.*))?$', text, re.M):
                ends[('%s %s: %s' % (os.path.basename(path), number, name)).strip()] = 'FAILED' if failed else 'PASSED'
        return ends
    compare('libredis-perl', play, 280)


if __name__ == '__main__':
    suite.main()
