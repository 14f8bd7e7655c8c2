#!/usr/bin/python3
"""A process that dies says why: a report for each signal that ends it, and the line of an orderly stop."""

import ctypes
import os
import re
import signal
import subprocess

from support.cluster import Cluster, binary, is_sanitized
from support.harness import Suite, check, check_equal

suite = Suite(__doc__)
SIGNALS = ('SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGILL')
SECRET = 'a value that no log may contain'


def build_id(path):
    text = subprocess.run(['readelf', '-n', path], capture_output=True, text=True, check=True).stdout
    return re.search(r'Build ID: ([0-9a-f]+)', text)[1]


def check_report(text, name, program, thread, commands):
    """Checks the lines of one report."""
    head = re.search(r'^\S+Z error crashed (.*)$', text, re.M)
    check(head, 'no report: %s' % text[-2000:])
    fields = dict(word.split('=', 1) for word in head[1].split())
    check_equal((fields['signal'], fields['program'], fields['thread']), (name, program, thread))
    check(re.fullmatch(r'[0-9]+\.[0-9.]+', fields['version']) and re.fullmatch(r'[0-9a-f]{12}\+?|unknown', fields['commit']), head[1])
    check_equal(fields['build_id'], build_id(binary(program)), 'the build id is that of the file')
    check(re.search(r' error crash_registers .*\b(pc|rip)=0x[0-9a-f]+', text), 'registers')
    frames = re.findall(r' error crash_frame (\S+)$', text, re.M)
    check(len(frames) > 3 and any(re.search(program + r'[(\[]', frame) for frame in frames), 'frames: %r' % frames)
    threads = dict(re.findall(r' error crash_thread name=(\S+) state=\w command=(\S+)$', text, re.M))
    check(commands.items() <= threads.items(), 'threads: %r' % threads)
    check(SECRET not in text, 'the log has a value')


def tgkill(pid, tid, number):
    """To this thread. A signal to a process is taken by any of its threads that does not block it, usually but not always by the first one."""
    call = {'x86_64': 234}.get(os.uname().machine, 131)
    check_equal(ctypes.CDLL(None).syscall(call, pid, tid, int(number)), 0, 'tgkill')


def end_by(process, name, program, commands):
    """Sends the signal, and checks what the process writes."""
    number = getattr(signal, name)
    tgkill(process.pid, process.pid, number)
    check_equal(process.child.wait(60), -number, '%s of %s' % (name, program))
    process.child = None
    check_report(process.log().decode(), name, program, 'main', commands)


@suite.case('each signal that ends a program is reported with its threads and their commands, and ends it as before')
def _(run):
    if is_sanitized(binary('scree-backend')):
        return
    for name in SIGNALS:
        with Cluster(backends=1, partitions=2, proxies=1) as cluster, cluster.partition(0) as first, cluster.partition(1) as second:
            backend, proxy = cluster.backends[0], cluster.proxies[0]
            end_by(proxy, name, 'scree-proxy', {'main': 'none'})  # before the backend: its health checks are commands, too
            first.call('SET', cluster.key_on(0), SECRET)
            second.call('HSET', cluster.key_on(1), 'f', SECRET)
            end_by(backend, name, 'scree-backend', {'partition-0': 'set', 'partition-1': 'hset', 'main': 'none'})


@suite.case('a report goes to the log file and to standard error')
def _(run):
    if is_sanitized(binary('scree-backend')):
        return
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        backend.stop()
        path = os.path.join(cluster.folder, 'own.log')
        backend.options.setdefault('backend', {})['log-file'] = path
        backend.write_config()
        backend.start()
        tgkill(backend.pid, backend.pid, signal.SIGSEGV)
        check_equal(backend.child.wait(60), -signal.SIGSEGV)
        backend.child = None
        with open(path) as file:
            for text in (file.read(), backend.log().decode()):
                check_report(text, 'SIGSEGV', 'scree-backend', 'main', {})


@suite.case('the thread that fails is named with the command that it ran')
def _(run):
    if is_sanitized(binary('scree-backend')):
        return
    with Cluster(backends=1, partitions=2, proxies=0) as cluster, cluster.partition(1) as client:
        client.call('SADD', 'k', SECRET)
        backend = cluster.backends[0]
        tid = next(task for task in os.listdir('/proc/%d/task' % backend.pid)
                   if open('/proc/%d/task/%s/comm' % (backend.pid, task)).read().strip() == 'partition-1')
        tgkill(backend.pid, int(tid), signal.SIGSEGV)
        check_equal(backend.child.wait(60), -signal.SIGSEGV)
        backend.child = None
        text = backend.log().decode()
        check_report(text, 'SIGSEGV', 'scree-backend', 'partition-1', {'partition-1': 'sadd'})
        check(' thread=partition-1 command=sadd' in text, text)


@suite.case('SIGTERM ends both programs with a line, and exit status 0')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        for process in (cluster.proxies[0], cluster.backends[0]):
            process.stop()
            check(b' info stopped' in process.log(), process.log_tail())


if __name__ == '__main__':
    suite.main()
