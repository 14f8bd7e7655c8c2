#!/usr/bin/python3
"""functions.py - the length of functions and files. A function of over 90 lines is an error, of over 70 is reported; a .c file of over
700 lines is an error.

A function is the text between a '{' and a '}' in the first column. Files that are longer are in LONG_FILES with the lines that they may
have. They are to be cut: the list may only shrink.
"""

import os

from files import ROOT, read, report, sources

MENTION, REFUSE = 70, 90
FILE_MAX = 700
LONG_FILES = {
}


def functions(path):
    start = 0
    name = ''
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.startswith('{'):
            start = number
        elif line.startswith('}') and start:
            yield start, number - start + 1, name
            start = 0
        elif not start and line and line[0].isalpha() and '(' in line:
            name = line.split('(')[0].split()[-1].lstrip('*')


def check_files():
    for path in sources('.c'):
        if path.startswith('tests/'):
            continue
        lines, most = len(read(path).splitlines()), LONG_FILES.get(path, FILE_MAX)
        if lines > most:
            yield '%s:1: %d lines, expected at most %d' % (path, lines, most)
        elif lines <= FILE_MAX < most:
            yield '%s:1: %d lines: take it out of LONG_FILES in tests/lint/functions.py' % (path, lines)
    for path in LONG_FILES:
        if not os.path.exists(os.path.join(ROOT, path)):
            yield 'tests/lint/functions.py:1: there is no %s' % path


def main():
    problems = list(check_files())
    for path in sources('.c'):
        for line, length, name in functions(path):
            if length > REFUSE:
                problems.append('%s:%d: %s has %d lines, expected at most %d' % (path, line, name, length, REFUSE))
            elif length > MENTION:
                print('note: %s:%d: %s has %d lines' % (path, line, name, length))
    report(problems)


if __name__ == '__main__':
    main()
