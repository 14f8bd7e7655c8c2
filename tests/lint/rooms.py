#!/usr/bin/python3
"""rooms.py - which room may include which, and where things may lie.

    shared ◄─ shared/net ◄─ config ◄─┬─ proxy
                                     └─ backend: format ◄─ consensus ◄─┬─ wal ◄───┬─ storage ◄─ context ◄─ keyspace ◄─ partition
                                                                       └─ store ◄─┘  ◄─ script ◄─ backup ◄─ commands ◄─ tool ◄─ backend/*.c

A file includes its own room and rooms below it; wal and store lie beside each other. No circle of includes may hold more units (X.c with X.h) than CIRCLE_MAX says, and no file
may include more own headers than INCLUDES_MAX.
uv.h, rocksdb, microhttpd, inih and lua each have one place.

Prints `file:line: what is wrong`; silent and 0 when all is well. `rooms.py --circles` lists the circles there are.
"""

import os
import re
import sys

from files import ROOT, read, report, sources, tracked

BELOW_ALL = ['shared', 'shared/net', 'config']
# of one program, lowest first
BACKEND = ['backend/format', 'backend/format/json', 'backend/consensus', 'backend/wal', 'backend/store', 'backend/storage',
           'backend/context', 'backend/keyspace', 'backend/peer', 'backend/partition', 'backend/script', 'backend/backup',
           'backend/commands', 'backend/tool', 'backend']
# Rooms of which neither includes the other.
BESIDE = {'backend/wal', 'backend/store'}
# The proxy is one room in several folders: clients lie below upstreams, and their features above.
PROXY = ['proxy', 'proxy/local', 'proxy/status', 'proxy/upstream']
# units in one circle
CIRCLE_MAX = 5
# own headers that one file includes
INCLUDES_MAX = 20
# library header → where it may be included
DOORS = [
    (re.compile(r'uv(\.h|/)'), re.compile(r'.*_uv\.[ch]$')),
    (re.compile(r'rocksdb/'), re.compile(r'backend/store/')),
    (re.compile(r'xxhash\.h'), re.compile(r'backend/wal/wal_segment\.c$')),
    (re.compile(r'microhttpd\.h'), re.compile(r'shared/net/http_mhd\.c$')),
    (re.compile(r'openssl/'), re.compile(r'shared/(digest\.c|tls(_\w+)?\.[ch])$')),
    (re.compile(r'jansson\.h'), re.compile(r'backend/(format/json/json_doc|backup/manifest)\.c$')),
    (re.compile(r'seccomp\.h'), re.compile(r'config/harden\.c$')),
    (re.compile(r'ini\.h'), re.compile(r'config/ini_file\.c$')),
    (re.compile(r'(lua|lualib|lauxlib)\.h'), re.compile(r'backend/script/')),
]
TOP_LEVEL = {'CMakeLists.txt', 'CMakePresets.json', 'proxy', 'backend', 'shared', 'config', 'tests', 'k8s', 'docs',
             'README.md', 'LICENSE'}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX)\b')


def rooms_below(room):
    """The rooms that a file of `room` may include, with its own."""
    if room == 'shared':
        return ['shared']
    if room in BELOW_ALL:
        return BELOW_ALL[:BELOW_ALL.index(room) + 1]
    if room in PROXY:
        return BELOW_ALL + PROXY
    below = BELOW_ALL + BACKEND[:BACKEND.index(room) + 1]
    return [other for other in below if other == room or not {other, room} <= BESIDE]


def check_include(path, line, kind, target):
    for header, allowed in DOORS:
        if kind == '<' and header.match(target) and not allowed.match(path):
            yield '%s:%d: <%s> may not be included here' % (path, line, target)
    if kind == '<':
        return
    if not os.path.exists(os.path.join(ROOT, target)):
        yield '%s:%d: "%s": expected a path from the root' % (path, line, target)
    room = os.path.dirname(path)
    if os.path.dirname(target) not in rooms_below(room):
        yield '%s:%d: "%s" may not be included in %s/: that room lies above it' % (path, line, target, room)


def unit_of(path):
    return os.path.splitext(path)[0]


def circles():
    """Sets of units that include each other in a cycle (Tarjan's algorithm), the biggest first."""
    edges = {}
    for path in sources('.c', '.h'):
        if not path.startswith('tests/'):
            needs = {unit_of(target) for kind, target in INCLUDE.findall(read(path)) if kind == '"'}
            edges.setdefault(unit_of(path), set()).update(needs - {unit_of(path)})
    index, low, stack, found = {}, {}, [], []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in sorted(edges.get(unit, ())):
            if other not in index:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], index[other])
        if low[unit] == index[unit]:
            at = stack.index(unit)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for unit in sorted(edges):
        if unit not in index:
            visit(unit)
    return sorted(found, key=len, reverse=True)


def needs_header_comment(path):
    """Must the file have a header comment? A .c file with a .h of its own need not."""
    return not path.endswith('.c') or not (path.startswith('tests/') or os.path.exists(os.path.join(ROOT, path[:-1] + 'h')))


def check_file(path):
    text = read(path)
    if path.endswith('.h') and '#pragma once' not in text:
        yield '%s:1: expected #pragma once' % path
    if needs_header_comment(path) and not text.startswith('/*'):
        yield '%s:1: expected a comment that says what this file is' % path
    includes = [(text.count('\n', 0, match.start()) + 1, match.group(1), match.group(2))
                for match in INCLUDE.finditer(text)]
    if not path.startswith('tests/'):
        for line, kind, target in includes:
            yield from check_include(path, line, kind, target)
        own_headers = sum(kind == '"' for _, kind, _ in includes)
        if own_headers > INCLUDES_MAX:
            yield '%s:1: %d own headers are included, at most %d may be' % (path, own_headers, INCLUDES_MAX)
        own = path[:-1] + 'h'
        if path.endswith('.c') and os.path.exists(os.path.join(ROOT, own)) and includes and includes[0][2] != own:
            yield '%s:%d: expected its own header first' % (path, includes[0][0])
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield '%s:%d: unfinished: %s' % (path, number, line.strip())


def check_all():
    for path in tracked():
        top = path.split('/')[0]
        if top not in TOP_LEVEL and not top.startswith('.'):
            yield '%s:1: not part of the top level' % path
    for path in sources('.c', '.h', '.def'):
        yield from check_file(path)
    for circle in circles():
        if len(circle) > CIRCLE_MAX:
            yield '%s.c:1: %d units include each other in a circle, at most %d may: %s' % (
                circle[0], len(circle), CIRCLE_MAX, ' '.join(circle))


if __name__ == '__main__':
    if sys.argv[1:] == ['--circles']:
        for circle in circles():
            print('%d: %s' % (len(circle), ' '.join(circle)))
    else:
        report(sorted(set(check_all())))
