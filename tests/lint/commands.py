#!/usr/bin/python3
"""commands.py - code uses the properties in a command's row instead of comparing with COMMAND_x.

A property on which checks, routing or logs depend is a column or a trait of the row (shared/command/command.h), so that a new
command is a row and its handler. Remaining comparisons with COMMAND_x are counted here; each has a comment with its
reason. The number may only shrink. Each flag and each trait has a bit of its own.
"""

import re

from files import read, report, sources

COMPARISONS_MAX = 12
COMPARED = re.compile(r'[=!]= COMMAND_[a-z]\w*|\bcase COMMAND_[a-z]\w*')
BIT = re.compile(r'\b((TRAIT|CMD)_\w+)\s*=\s*1u?\s*<<\s*(\d+)')
TABLE = re.compile(r'shared/commands?(_\w+)?\.(def|h)$|shared/command\.c$')


def equal_bits():
    names = {}
    for name, kind, bit in BIT.findall(read('shared/command/command.h')):
        if names.setdefault((kind, bit), name) != name:
            yield 'shared/command/command.h:1: %s and %s have the same bit' % (names[kind, bit], name)


def main():
    problems = list(equal_bits())
    if problems:
        report(problems)
    found = []
    for path in sources('.c', '.h'):
        if path.startswith('tests/') or TABLE.match(path):
            continue
        for number, line in enumerate(read(path).splitlines(), 1):
            found += ['%s:%d: %s' % (path, number, match) for match in COMPARED.findall(line)]
    if len(found) > COMPARISONS_MAX:
        found.append('%d comparisons with a command, at most %d may be: make it a trait or column of the row '
                     '(shared/command/command.h)' % (len(found), COMPARISONS_MAX))
        report(found)
    elif len(found) < COMPARISONS_MAX:
        report(['tests/lint/commands.py:1: %d comparisons are left: set COMPARISONS_MAX to that' % len(found)])


if __name__ == '__main__':
    main()
