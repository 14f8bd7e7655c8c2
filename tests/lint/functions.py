#!/usr/bin/python3
"""functions.py - the length of functions and files. A function of over 90 lines is an error, of over 70 is reported; a .c file of over
700 lines is an error.

A function is the text between a '{' and a '}' in the first column. Tests may have longer files.
"""

from files import read, report, sources

MENTION, REFUSE = 70, 90
FILE_MAX = 700


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
        lines = len(read(path).splitlines())
        if lines > FILE_MAX:
            yield '%s:1: %d lines, expected at most %d' % (path, lines, FILE_MAX)


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
