#!/usr/bin/python3
"""Builds what the tests need and runs them: tests/run [KIND ...] [--sanitize address|thread] [--long]

  lint          rooms, format, cppcheck, function length, generated pages, tests/lint
  unit          programs of tests/unit and tests/fault
  sim           seeded simulations, tests/sim
  differential  the same commands to Scree and to redis-server, tests/differential
  integration   real processes, tests/integration
  fuzz          libFuzzer targets, some seconds each, tests/fuzz
  suites        the test suites of clients, fetched from Debian, tests/suites; only when it is asked for
  bench         measurements, tests/bench; only when it is asked for

Without a kind all but suites and bench. With --long, which takes hours, tests do more rounds, seeds and bigger sizes, and all
scripts run under a sanitizer, not only those that send what no client would.
 One line per test as it ends, one line per kind at the end, then `N passed, M failed`.
Scripts whose last line says `N passed, M failed` are counted by their cases. Builds are in build/, one directory
per way of building; logs are in build/<way>/logs.
"""

import argparse
import concurrent.futures
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ['lint', 'unit', 'sim', 'differential', 'integration', 'fuzz', 'suites', 'bench']  # in this order
ASKED_FOR = ('suites', 'bench')
LIMIT_S = 900
LONG_LIMIT_S = 6 * 3600
BENCH_LIMIT_S = 3 * 3600
FUZZ_S, LONG_FUZZ_S = 10, 600
# A script waits for its programs, and they wait for it: two scripts at a time used a quarter of two cores. Three leave room for bursts.
SCRIPTS_AT_ONCE, SANITIZED_AT_ONCE = 3, 3
# programs that run in parts at the same time (--part I/N), because no other test takes so long
PARTS = {'test_transactions': 2}
# These begin first, the longest first: the last test to begin should not take long.
LONGEST = ['test_transactions', 'test_cluster', 'test_tool_check', 'test_store', 'test_status_page', 'test_backup', 'test_ticket',
           'test_transaction_limits', 'test_random', 'test_bad_input', 'test_slow_scripts', 'test_uncached', 'test_limits',
           'test_io_errors', 'test_metrics', 'test_tls', 'test_moves', 'cppcheck', 'format', 'test_voters', 'test_voter_histories']
# These run under a sanitizer also without --long: they send malformed or excessive requests, or kill and freeze
# programs.
SANITIZED = ['test_attack', 'test_bad_input', 'test_big_replies', 'test_chaos', 'test_fifo', 'test_io_errors',
             'test_kill9', 'test_payloads', 'test_reload', 'test_security', 'test_shutdown', 'test_slow_scripts',
             'test_uncached', 'test_voter_races']
PROGRESS_S = 15
TAIL_LINES = 40
FAIL_LINES = 5  # of a test that has failed, at the end
SLOWEST = 20  # tests that --slowest lists
WAYS = {None: 'test', 'address': 'asan', 'thread': 'tsan'}
# ninja's progress, which would hide the error messages after it
BUILD_STEP = re.compile(r'\[\d+/\d+\] (Building|Linking) ')
# For --quick: the arguments of each measurement.
QUICK = {
    'bench_uncached': '--keys 60000 --repeat 1 --mb 64 --seconds 1 --threads 0 16',
    'bench_capacity': '--quick',
    'bench_commands': '--quick --output {pages}/commands.md',
    'bench_copies': '--quick',
    'bench_compaction': '--mb 60 --seconds 3 --rounds 1',
    'bench_cores': '--repeat 1',
    'bench_curves': '--quick --most-keys 100000 --folder {pages}',
    'bench_flat': '--quick',
    'bench_handshakes': '--rounds 1',
    'bench_job_queues': '--jobs 200 --repeat 1',
    'bench_json': '--count 5000 --runs 1',
    'bench_long': '--elements 50000',
    'bench_proxy': '--rounds 10 --requests 50000 --repeat 1',
    'bench_queues': '--elements 50000',
    'bench_ranks': '--members 50000 --elements 50000',
    'bench_requests': '--quick',
    'bench_sustained': '--minutes 0.5 --every 5',
    'bench_tail': '--quick',
}
NO_LINTS = ('files', 'pages')  # a module shared by the lints, and a lint that requires an argument
COUNTS = re.compile(r'^(\d+) passed, (\d+) failed')


class Test:
    def __init__(self, kind, name, command, env=None, limit=None, cwd=ROOT):
        self.kind, self.name, self.command, self.env, self.limit, self.cwd = kind, name, command, env or {}, limit, cwd
        self.base = name.split('-')[0]


class Runner:
    def __init__(self, options):
        self.options = options
        self.way = WAYS[options.sanitize]
        self.passed = dict.fromkeys(KINDS, 0)
        self.failed = dict.fromkeys(KINDS, 0)
        self.times = []  # (seconds, CPU seconds, name) of tests and builds
        self.failures = []  # (verdict and name of a test, its lines that say FAIL)
        self.left_out = []
        self.only_long = []
        self.end = time.monotonic() + options.minutes * 60 if options.minutes is not None else float('inf')
        self.lock = threading.Lock()
        self.children = set()
        self.is_stopping = False
        self.has_built = {}

    # ---- building ------------------------------------------------------------------------------------------------

    def folder(self, way=None):
        return os.path.join(self.options.build_root, way or self.way)

    def build(self, kind, way, targets):
        """Configures and builds; a failure counts as one failed test of the kind."""
        key = (way, tuple(targets))
        if key in self.has_built:
            return self.has_built[key]
        folder = self.folder(way)
        configure = ['cmake', '--preset', way, '-B', folder]
        if shutil.which('ccache'):
            configure.append('-DCMAKE_C_COMPILER_LAUNCHER=ccache')
        build = ['cmake', '--build', folder, '-j', str(self.options.jobs), '--target'] + targets
        ok = self.run_one(Test(kind, 'configure-' + way, configure)) and \
            self.run_one(Test(kind, 'build-%s-%s' % (way, '+'.join(targets)), build, limit=3600))
        self.has_built[key] = ok
        return ok

    # ---- running -------------------------------------------------------------------------------------------------

    def environment(self, test):
        env = dict(os.environ, SCREE_BIN=self.folder(), SCREE_ROOT=ROOT, PYTHONUNBUFFERED='1')
        env.setdefault('CK_DEFAULT_TIMEOUT', '60')  # seconds for a case of libcheck
        # factor of this and of the tests' own limits: only a program that hangs takes so long
        env.setdefault('CK_TIMEOUT_MULTIPLIER', '5')
        if test.kind != 'bench':  # if page-table walks are slow, Python in huge pages is up to seven times as fast
            env.setdefault('PYTHONMALLOC', 'malloc')
            env.setdefault('GLIBC_TUNABLES', 'glibc.malloc.hugetlb=1')
        env.setdefault('ASAN_OPTIONS', 'detect_leaks=1:allocator_may_return_null=1')
        env.setdefault('UBSAN_OPTIONS', 'print_stacktrace=1')
        env.setdefault('TSAN_OPTIONS', 'suppressions=%s:halt_on_error=1:second_deadlock_stack=1'
                       % os.path.join(ROOT, 'tests/lint/tsan.supp'))
        if self.options.sanitize:
            env.setdefault('SCREE_TEST_SLOW', '4')
        if self.options.long:
            env['SCREE_TEST_LONG'] = '1'
        env.update(test.env)
        return env

    def run_one(self, test):
        """Runs a test, prints its line and counts it. Builds are counted only when they fail."""
        logs = os.path.join(self.options.build_root, self.way, 'logs')
        os.makedirs(logs, exist_ok=True)
        path = os.path.join(logs, '%s-%s.log' % (test.kind, re.sub(r'[^\w.+-]', '_', test.name)[:120]))
        start = time.monotonic()
        with open(path, 'wb') as log:
            try:
                child = subprocess.Popen(test.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                         cwd=test.cwd, env=self.environment(test), start_new_session=True)
            except OSError as error:
                log.write(('%s: %s\n' % (test.command[0], error)).encode())
                child = None
            code, verdict, cpu = self.wait(child, test, path) if child else (1, 'FAIL', 0)
        took = time.monotonic() - start
        self.count(test, code, path)
        with self.lock:
            if self.is_stopping:
                return False
            print('%-5s %s/%s  %.1f s, CPU %.1f s' % (verdict, test.kind, test.name, took, cpu), flush=True)
            self.times.append((took, cpu, '%s/%s' % (test.kind, test.name)))
            if code != 0:
                self.failures.append(('%-5s %s/%s' % (verdict, test.kind, test.name), print_tail(path)))
        return code == 0

    def wait(self, child, test, path):
        """(exit code, verdict, CPU seconds). For a measurement, which takes long, its last output is printed as
        progress."""
        with self.lock:
            self.children.add(child)
        end, shown = time.monotonic() + self.limit(test), ''
        used = exited(child, 0)
        while used is None and time.monotonic() < end:
            used = exited(child, min(PROGRESS_S, max(0.1, end - time.monotonic())))
            if used is None and test.kind == 'bench' and last_line(path) != shown:
                shown = last_line(path)
                print('      %s: %s' % (test.name, shown.strip()[:160]), flush=True)
        code = child.returncode
        verdict = 'LATE' if code is None else 'ok' if code == 0 else 'FAIL'
        if code is None:
            write_states(child.pid, path)
        kill_group(child)
        with self.lock:
            self.children.discard(child)
        return 1 if code is None else code, verdict, used or 0

    def limit(self, test):
        """Seconds after which a running test counts as failed."""
        return test.limit or (BENCH_LIMIT_S if test.kind == 'bench' else LONG_LIMIT_S if self.options.long else LIMIT_S)

    def count(self, test, code, path):
        is_build = test.name.startswith(('configure-', 'build-'))
        passed, failed = (0 if is_build else 1, 0) if code == 0 else (0, 1)
        match = COUNTS.match(last_line(path)) if test.kind in ('integration', 'differential', 'bench') else None
        if match:
            passed, failed = int(match.group(1)), int(match.group(2))
            if code != 0 and failed == 0:
                failed = 1
        with self.lock:
            self.passed[test.kind] += passed
            self.failed[test.kind] += failed

    def run_in_time(self, test):
        return self.has_time('%s/%s' % (test.kind, test.name)) and self.run_one(test)

    def has_time(self, name):
        """Is there time for another test? If not, notes it as left out."""
        if time.monotonic() < self.end:
            return True
        with self.lock:
            self.left_out.append(name)
        return False

    def run_all(self, tests, jobs):
        wanted = [test for test in tests if not self.options.filter or self.options.filter in test.name]
        wanted.sort(key=lambda test: LONGEST.index(test.base) if test.base in LONGEST else len(LONGEST))
        with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
            list(pool.map(self.run_in_time, wanted))

    def print_slowest(self):
        print('---- the slowest')
        for took, cpu, name in sorted(self.times, reverse=True)[:SLOWEST]:
            print('%7.1f s, CPU %6.1f s  %s' % (took, cpu, name))

    def stop(self):
        with self.lock:
            self.is_stopping = True
            children = list(self.children)
        for child in children:
            kill_group(child)

    # ---- kinds ---------------------------------------------------------------------------------------------------

    def programs(self, kind, subfolder):
        """The test_* and control_* programs in a build folder that still have a source file."""
        folder = os.path.join(self.folder(), subfolder)
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [test for name in names
                if name.startswith(('test_', 'control_')) and
                os.path.exists(os.path.join(ROOT, 'tests', source_of_program(subfolder, name)))
                for test in parts_of(kind, name, os.path.join(folder, name))]

    def scripts(self, kind, folder, prefix='test_'):
        path = os.path.join(ROOT, 'tests', folder)
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        return [Test(kind, name[:-3], [sys.executable, os.path.join(path, name)]) for name in names
                if name.startswith(prefix) and name.endswith('.py')]

    def run_unit(self):
        if self.build('unit', self.way, ['unit_tests', 'fault_tests']):
            self.run_all(self.programs('unit', 'unit') + self.programs('unit', 'fault'), self.options.jobs)

    def run_sim(self):
        if self.build('sim', self.way, ['sim_tests']):
            self.run_all(self.programs('sim', 'sim'), self.options.jobs)

    def run_integration(self):
        """The longest first, then tests of durability; the others in random order if not all may be run, so that each is
        run at some time."""
        if self.build('integration', self.way, ['scree-proxy', 'scree-backend', 'scree-copy']):
            others = self.scripts('integration', 'integration')
            if self.options.minutes is not None:
                random.shuffle(others)
            self.run_all(self.short_enough(self.scripts('integration', 'fault') + others), self.at_once())

    def at_once(self):
        return SANITIZED_AT_ONCE if self.options.sanitize else SCRIPTS_AT_ONCE

    def short_enough(self, tests):
        """Under a sanitizer most scripts run only with --long, or by name; the others are noted as left out."""
        if not self.options.sanitize or self.options.long or self.options.filter:
            return tests
        missing = set(SANITIZED) - {test.name for test in tests}
        if missing:
            raise SystemExit('SANITIZED in tests/run.py: there is no %s' % ', '.join(sorted(missing)))
        self.only_long += ['integration/' + test.name for test in tests if test.name not in SANITIZED]
        return [test for test in tests if test.name in SANITIZED]

    def run_differential(self):
        if self.build('differential', self.way, ['scree-proxy', 'scree-backend', 'scree-backend-keys', 'oracle_copies']):
            self.run_all(self.scripts('differential', 'differential'), self.at_once())

    def run_suites(self):
        if self.build('suites', self.way, ['scree-proxy', 'scree-backend']):
            self.run_all(self.scripts('suites', 'suites', 'suite_'), 1)

    def run_bench(self):
        if self.build('bench', self.way, ['scree-proxy', 'scree-backend', 'bench_programs']):
            folder = os.path.join(self.folder(), 'bench')
            micro = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            tests = [Test('bench', name, [os.path.join(folder, name)]) for name in micro if name.startswith('micro_')]
            scripts = self.scripts('bench', 'bench', 'bench_')
            for script in scripts if self.options.quick else ():
                script.command += QUICK.get(script.name, '').format(pages=self.folder()).split()
            self.run_all(tests + scripts, 1)

    def run_fuzz(self):
        if not self.build('fuzz', 'fuzz', ['fuzz_tests']):
            return
        folder = os.path.join(self.folder('fuzz'), 'fuzz')
        seconds = self.options.fuzz_seconds or (LONG_FUZZ_S if self.options.long else FUZZ_S)
        tests = []
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if not os.path.exists(os.path.join(ROOT, 'tests/fuzz', name + '.c')):
                continue
            corpus = os.path.join(self.folder('fuzz'), 'corpus', name)
            os.makedirs(corpus, exist_ok=True)
            command = [os.path.join(folder, name), '-max_total_time=%d' % seconds, '-timeout=30',
                       '-rss_limit_mb=4096', '-print_final_stats=1', '-artifact_prefix=%s/' % corpus, corpus]
            seeds = os.path.join(ROOT, 'tests/fuzz/corpus', name)
            tests.append(Test('fuzz', name, command + ([seeds] if os.path.isdir(seeds) else [])))
        self.run_all(tests, self.options.jobs)

    def run_lint(self):
        lint = os.path.join(ROOT, 'tests/lint')
        tests = [test for test in self.scripts('lint', 'lint', '') if test.name not in NO_LINTS]
        tests.append(Test('lint', 'cppcheck', [os.path.join(lint, 'cppcheck'), os.path.join(self.folder(), 'cppcheck')]))
        if shutil.which('shellcheck'):
            tests.append(Test('lint', 'shell', [os.path.join(lint, 'shell')]))
        self.run_all(tests, self.options.jobs)
        if self.build('lint', self.way, ['scree-proxy', 'scree-backend']):
            self.run_all([Test('lint', page, [sys.executable, os.path.join(lint, 'pages.py'), page])
                          for page in ('configuration', 'commands', 'versions')], 1)


def source_of_program(subfolder, name):
    """Below tests/; of a negative control, the file that breaks the promise."""
    if name.startswith('control_'):
        return 'controls/%s.c' % name[len('control_'):]
    return '%s/%s.c' % (subfolder, name)


def parts_of(kind, name, path):
    """The program as one test, or as several that run at the same time."""
    count = PARTS.get(name, 1)
    if count == 1:
        return [Test(kind, name, [path])]
    return [Test(kind, '%s-%d' % (name, i), [path, '--part', '%d/%d' % (i, count)]) for i in range(1, count + 1)]


def exited(child, seconds):
    """Waits at most so many seconds for a test to end. Returns the CPU seconds of the test and its children, None if it
    still runs."""
    descriptor = os.pidfd_open(child.pid)
    try:
        if not select.select([descriptor], [], [], seconds)[0]:
            return None
    finally:
        os.close(descriptor)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def write_states(group, path):
    """Appends to the log at `path` what each process of the group is doing: a late test often has printed nothing."""
    with open(path, 'a', encoding='utf-8') as log:
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if os.getpgid(int(pid)) == group:
                    log.write('\nlate: %s' % state_of(pid))
            except (OSError, ValueError):
                pass  # it has ended meanwhile


def state_of(pid):
    """Its command, state, CPU seconds, and the system call in which it waits ("running": in none)."""
    with open('/proc/%s/cmdline' % pid, encoding='utf-8', errors='replace') as file:
        command = file.read().replace('\0', ' ')[:120]
    with open('/proc/%s/stat' % pid, encoding='utf-8', errors='replace') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    with open('/proc/%s/syscall' % pid, encoding='utf-8') as file:
        call = file.read().strip()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
    return 'pid %s parent %s state %s CPU %.1f s syscall %s: %s' % (pid, fields[1], fields[0], cpu, call, command)


def kill_group(child):
    """Kills a test and all processes that it has left."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def last_line(path):
    with open(path, 'rb') as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        lines = file.read().decode('utf-8', 'replace').strip().splitlines()
    return lines[-1] if lines else ''


def print_tail(path):
    """Prints the last lines, and those that lead to the first FAIL. Returns the lines that say FAIL."""
    with open(path, 'rb') as file:
        lines = file.read().decode('utf-8', 'replace').splitlines()
    lines = [line for line in lines if not BUILD_STEP.match(line)]
    fails = [i for i, line in enumerate(lines) if line.startswith('FAIL ')]
    tail = max(0, len(lines) - TAIL_LINES)
    first = [line for i, line in enumerate(lines) if fails and fails[0] - TAIL_LINES < i < min(fails[0] + 8, tail)]
    print('      --- %s, the last lines' % path)
    for line in first + ['...'] * bool(first) + lines[tail:]:
        print('      ' + line[:400])
    sys.stdout.flush()
    return [lines[i] for i in fails]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('kinds', nargs='*', metavar='KIND')
    parser.add_argument('--sanitize', choices=['address', 'thread'], help='build and run under ASan and UBSan, or TSan')
    parser.add_argument('--filter', default='', help='only tests whose name contains this')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 2)
    parser.add_argument('--minutes', type=float, help='begin no test after so many, and say which were left out')
    parser.add_argument('--failures', metavar='FILE', help='append the lines about failed tests to this file too')
    parser.add_argument('--slowest', action='store_true', help='list the %d tests that took longest' % SLOWEST)
    parser.add_argument('--long', action='store_true', help='more rounds, seeds and bigger sizes, for hours')
    parser.add_argument('--fuzz-seconds', type=int, help='for each fuzz target (default %d, or %d with --long)'
                        % (FUZZ_S, LONG_FUZZ_S))
    parser.add_argument('--quick', action='store_true', help='bench: a first look at each, pages are written in build/')
    parser.add_argument('--build-root', default=os.path.join(ROOT, 'build'), help='where to build (default build/)')
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error('unknown kind %s: expected %s' % (kind, ', '.join(KINDS)))
    options.build_root = os.path.abspath(options.build_root)
    runner = Runner(options)
    wanted = [kind for kind in KINDS if kind in options.kinds or (not options.kinds and kind not in ASKED_FOR)]
    start = time.monotonic()
    try:
        for kind in wanted:
            print('---- %s' % kind, flush=True)
            if runner.has_time('all of ' + kind):
                getattr(runner, 'run_' + kind)()
    except KeyboardInterrupt:
        runner.stop()
        print('interrupted')
        return 130
    if options.slowest:
        runner.print_slowest()
    print('---- %.0f s' % (time.monotonic() - start))
    for kind in wanted:
        print('%s: %d passed, %d failed' % (kind, runner.passed[kind], runner.failed[kind]))
    if runner.only_long:
        print('ONLY WITH --long under a sanitizer: %s' % ', '.join(runner.only_long))
    if runner.left_out:
        print('LEFT OUT after %g minutes: %s' % (options.minutes, ', '.join(runner.left_out)))
    failures = ['%s  %s\n' % (name, line[:300]) for name, lines in runner.failures for line in lines[:FAIL_LINES] or ['']]
    print(end=''.join(failures))
    if options.failures:
        with open(options.failures, 'a') as file:
            file.writelines(failures)
    failed = sum(runner.failed.values())
    print('%d passed, %d failed' % (sum(runner.passed.values()), failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
