#!/usr/bin/python3
"""names.py - a static function's name occurs in one file: it says what the function does there.

A name that occurs in several files is an error, printed with its places, unless it is one idea everywhere (ALLOWED):
mostly what a library or a loop calls back. Tests are left out: their programs are linked apart and share few words.
"""

import collections
import re

from files import read, report, sources

ALLOWED = {
    'is_tenant',  # whether a session is restricted to one namespace
    'lock', 'unlock',  # of the file's own mutex
    'on_data', 'on_drain', 'on_end',  # events of a stream
    'on_handshake', 'on_poll', 'on_request', 'on_signal', 'on_stopped', 'on_thread_end', 'on_timer',
    'on_section', 'on_value',  # what the reader of INI files calls back
    'parse',  # the bytes of the file's format
}
DEFINED = re.compile(r'^static (?:[\w*]+ +\**)+(\w+)\(', re.MULTILINE)


def places():
    """{name: the files that define or declare a static function of this name}"""
    found = collections.defaultdict(set)
    for path in sources('.c', '.h'):
        if not path.startswith('tests/'):
            for name in DEFINED.findall(read(path)):
                found[name].add(path)
    return found


def main():
    problems = []
    recurring = {name: files for name, files in places().items() if len(files) > 1}
    for name, files in sorted(recurring.items()):
        line = '%s is a static function in %d files: %s' % (name, len(files), ' '.join(sorted(files)))
        if name in ALLOWED:
            print('note: ' + line)
        else:
            problems.append(line + '; name what it does in each')
    problems += ['%s: allowed in names.py, but recurs nowhere' % name for name in sorted(ALLOWED - set(recurring))]
    print('%d names recur' % len(recurring))
    report(problems)


if __name__ == '__main__':
    main()
