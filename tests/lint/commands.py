#!/usr/bin/python3
"""commands.py - code uses the properties in a command's row instead of comparing with COMMAND_x.

A property on which checks, routing or logs depend is a column or a trait of the row (shared/command.h), so that a new
command is a row and its handler. Remaining comparisons with COMMAND_x are counted here; each has a comment with its
reason. The number may only shrink.
"""

import re

from files import read, report, sources

COMPARISONS_MAX = 12
COMPARED = re.compile(r'[=!]= COMMAND_[a-z]\w*|\bcase COMMAND_[a-z]\w*')
TABLE = re.compile(r'shared/commands?(_\w+)?\.(def|h)$|shared/command\.c$')


def main():
    found = []
    for path in sources('.c', '.h'):
        if path.startswith('tests/') or TABLE.match(path):
            continue
        for number, line in enumerate(read(path).splitlines(), 1):
            found += ['%s:%d: %s' % (path, number, match) for match in COMPARED.findall(line)]
    if len(found) > COMPARISONS_MAX:
        found.append('%d comparisons with a command, at most %d may be: make it a trait or column of the row '
                     '(shared/command.h)' % (len(found), COMPARISONS_MAX))
        report(found)
    elif len(found) < COMPARISONS_MAX:
        report(['tests/lint/commands.py:1: %d comparisons are left: set COMPARISONS_MAX to that' % len(found)])


if __name__ == '__main__':
    main()
