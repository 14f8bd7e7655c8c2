"""harness.py - shared by every test script: cases, options, the last line, waiting for conditions.

    suite = Suite(__doc__)

    @suite.case('a sentence that is true when it passes')
    def _(run):
        check_equal(1 + 1, 2)

    suite.main()

prints one line per case and `N passed, M failed` at the end; the exit code is 0 or 1.
"""

import argparse
import os
import random
import signal
import sys
import time
import traceback

from support.machine import slowness

# A shell ignores Ctrl-C for its background processes, and programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

BIG = float(os.environ.get('SCREE_TEST_SLOW', '1'))  # factor of the memory and time that programs under test need
SLOW_MAX = 8.0
SLOW = min(SLOW_MAX, BIG * slowness())  # factor of time limits, and of times configured in the programs
PATIENCE = 60.0  # seconds after which a test gives up: only a program that hangs takes that long
LONG = os.environ.get('SCREE_TEST_LONG') == '1'  # set by tests/run --long


def sized(usual, long):
    """How many rounds, seconds or keys a test takes: `usual`, or `long` in a run of hours (tests/run --long)."""
    return long if LONG else usual


def patience():
    """Seconds after which a test gives up on this machine."""
    return PATIENCE * SLOW


def programs_are_sanitized():
    """Sets the factors of a build with a sanitizer."""
    global BIG, SLOW
    if BIG == 1:
        BIG, SLOW = 4.0, min(SLOW_MAX, SLOW * 4)


class Failure(AssertionError):
    """A case found an error."""


class Skip(Exception):
    """A case cannot run on this machine; the text says why."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def check_equal(got, want, what='value'):
    if got != want:
        raise Failure('%s: got %s, want %s' % (what, brief(got), brief(want)))


def brief(thing, limit=600):
    text = repr(thing)
    return text if len(text) <= limit else '%s… (%d characters)' % (text[:limit], len(text))


def wait_for(condition, what, limit=PATIENCE, pause=0.01):
    """Wait until condition() is true and return what it returned; fails after `limit` seconds."""
    end = time.monotonic() + limit * SLOW
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure('waited %.0f s in vain for: %s' % (limit * SLOW, what))
        time.sleep(pause)


class Run:
    """The argument of a case: its options, its random numbers, and a place for notes."""

    def __init__(self, options, seed, verbose):
        self.options = options
        self.seed = seed
        self.rng = random.Random(seed)
        self.verbose = verbose

    def note(self, text):
        """Prints a measured figure or a remark below the case."""
        print('     %s' % text, flush=True)

    def debug(self, text):
        if self.verbose:
            self.note(text)


class Suite:
    def __init__(self, doc, options=None):
        """`options(parser)` adds the script's own arguments."""
        self.cases = []
        self.parser = argparse.ArgumentParser(description=(doc or '').strip().split('\n')[0])
        self.parser.add_argument('-v', '--verbose', action='store_true')
        self.parser.add_argument('--seed', type=int, default=None)
        self.parser.add_argument('--only', default='', help='run the cases whose title contains this')
        self.parser.add_argument('--list', action='store_true', help='print the titles')
        if options:
            options(self.parser)

    def case(self, title):
        def keep(function):
            self.cases.append((title, function))
            return function
        return keep

    def main(self):
        options = self.parser.parse_args()
        if options.list:
            print('\n'.join(title for title, _ in self.cases))
            sys.exit(0)
        seed = options.seed if options.seed is not None else random.randrange(1 << 31)
        print('seed %d' % seed, flush=True)
        counts = {'ok': 0, 'FAIL': 0, 'skip': 0}
        for title, function in self.cases:
            if options.only in title:
                counts[self._run_case(title, function, options, seed)] += 1
        if counts['skip']:
            print('%d skipped, reasons above' % counts['skip'])
        print('%d passed, %d failed' % (counts['ok'], counts['FAIL']), flush=True)
        sys.exit(1 if counts['FAIL'] else 0)

    def _run_case(self, title, function, options, seed):
        started = time.monotonic()
        verdict, why = 'ok', ''
        try:
            function(Run(options, seed, options.verbose))
        except Skip as skip:
            verdict, why = 'skip', str(skip)
        except Failure as failure:
            verdict, why = 'FAIL', str(failure)
            if options.verbose:
                traceback.print_exc()
        except Exception as error:  # every exception is a failure of the case; the traceback shows its place
            verdict, why = 'FAIL', '%s: %s' % (type(error).__name__, error)
            traceback.print_exc()
        took = time.monotonic() - started
        print('%-4s %s (%.1f s)%s' % (verdict, title, took, ': ' + why if why else ''), flush=True)
        return verdict
