#!/usr/bin/python3
"""bench.py - each command that redis-server 7.0 does not have is measured beside the nearest one that it has.

The commands are those of docs/commands.md, which the program prints: of later versions of Redis, of Valkey and Kvrocks, and of
RedisBloom, without the commands of administrators. The measured ones are in LATER of tests/bench/bench_commands.py.
"""

import ast
import re

from files import read, report

BENCH = 'tests/bench/bench_commands.py'
PAGE = 'docs/commands.md'
GROUPS = {'connection', 'server', 'scripting', 'cluster', 'scree'}  # no commands of hot paths
MODULES = ('BF.', 'CMS.', 'TDIGEST.', 'TOPK.')
# (command, why it has no row)
EXEMPT = {
    'WAITAOF': 'waits for the disk',
    'BF.LOADCHUNK': 'load.c sends words without binary data',
}


def later_commands():
    """Names of the commands that redis-server 7.0 does not have."""
    group, found = '', []
    for line in read(PAGE).splitlines():
        if line.startswith('## '):
            group = line[3:].strip()
        if not line.startswith('| `') or group in GROUPS:
            continue
        cells = [cell.strip() for cell in line.strip('|').split(' | ')]
        name, since = cells[0].strip('` '), cells[5]
        version = re.fullmatch(r'(\d+)\.(\d+)\.\d+', since)
        is_module = name.startswith(MODULES)
        if is_module or since.startswith(('Valkey', 'Kvrocks')) or (
                version and '.' not in name and not name.startswith('SI') and (int(version[1]), int(version[2])) > (7, 0)):
            found.append(name)
    return found


def measured():
    """The first word of each command in LATER."""
    for node in ast.parse(read(BENCH)).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == 'LATER':
            for row in node.value.elts:
                words = row.elts[1]
                while isinstance(words, ast.BinOp):
                    words = words.left
                yield words.value.split()[0]


def main():
    later, have = later_commands(), set(measured())
    if len(later) < 50 or not have:
        report(['%s:1: only %d commands, %d rows of %s were understood' % (PAGE, len(later), len(have), BENCH)])
    problems = ['%s:1: %s has no row in LATER' % (BENCH, name) for name in later if name not in have and name not in EXEMPT]
    problems += ['tests/lint/bench.py:1: %s is exempt, but has a row or does not exist' % name
                 for name in EXEMPT if name in have or name not in later]
    report(problems)


if __name__ == '__main__':
    main()
