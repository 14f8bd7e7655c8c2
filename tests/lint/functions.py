#!/usr/bin/python3
"""functions.py - the length of functions: over 90 lines is an error, over 70 is reported.

A function is the text between a '{' and a '}' in the first column.
"""

from files import read, report, sources

MENTION, REFUSE = 70, 90


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


def main():
    problems = []
    for path in sources('.c'):
        for line, length, name in functions(path):
            if length > REFUSE:
                problems.append('%s:%d: %s has %d lines, expected at most %d' % (path, line, name, length, REFUSE))
            elif length > MENTION:
                print('note: %s:%d: %s has %d lines' % (path, line, name, length))
    report(problems)


if __name__ == '__main__':
    main()
