#!/usr/bin/python3
"""rooms.py - which room may include and call which, and where things may lie.

    shared ◄─ command ◄─ acl ◄─ net ◄─ config ◄─┬─ proxy:   core ◄─ upstream ◄─ client ◄─ cluster ◄─ local ◄─ status ◄─ run ◄─ tool ◄─ main.c
                                                └─ backend: format ◄─┬─ wal ◄───┬─ storage ◄─ context ◄─ keyspace ◄─ rank ◄─ peer
                                                                     └─ store ◄─┘  ◄─ replica ◄─ session ◄─ transaction ◄─ dispatch ◄─ slots ◄─ partition
                                                                        ◄─ script ◄─ backup ◄─ archive ◄─ feed ◄─ commands ◄─ tool ◄─ rdb ◄─ copy ◄─ backend/*.c

A file includes and calls its own room and rooms below it; wal and store lie beside each other. A room above is reached only
through a table of functions that it fills (struct client_events, handlers.h). Public functions have different names, so that a
name says which function is called. No more than CIRCLE_MAX files may call each other in a circle, no file may include
more own headers than INCLUDES_MAX, and no folder may have more files than FILES_MAX.
uv.h, rocksdb, microhttpd, inih and lua each have one place.

Prints `file:line: what is wrong`; silent and 0 when all is well. `rooms.py --circles` lists the circles there are.
"""

import collections
import os
import re
import sys

from files import ROOT, read, report, sources, tracked

BELOW_ALL = ['shared', 'shared/command', 'shared/acl', 'shared/net', 'config']
# of one program, lowest first
BACKEND = ['backend/format', 'backend/format/json', 'backend/consensus', 'backend/wal', 'backend/store', 'backend/storage',
           'backend/context', 'backend/keyspace', 'backend/rank', 'backend/peer', 'backend/replica', 'backend/session',
           'backend/transaction', 'backend/dispatch', 'backend/slots', 'backend/partition', 'backend/script', 'backend/backup',
           'backend/archive', 'backend/feed', 'backend/commands', 'backend/tool', 'backend/rdb', 'backend/copy', 'backend/live',
           'backend']
PROXY = ['proxy/core', 'proxy/upstream', 'proxy/client', 'proxy/cluster', 'proxy/local', 'proxy/status', 'proxy/run',
         'proxy/tool', 'proxy']
# Rooms of which neither includes the other.
BESIDE = {'backend/wal', 'backend/store'}
# files that call each other in a circle
CIRCLE_MAX = 8
# in one folder
FILES_MAX = 60
# one file for each kind of commands, and small helpers of both programs
MANY_FILES = {'backend/commands', 'shared'}
# own headers that one file includes
INCLUDES_MAX = 20
# library header → where it may be included
DOORS = [
    (re.compile(r'uv(\.h|/)'), re.compile(r'.*_uv\.[ch]$')),
    (re.compile(r'rocksdb/'), re.compile(r'backend/store/')),
    (re.compile(r'xxhash\.h'), re.compile(r'backend/wal/wal_segment\.c$')),
    (re.compile(r'zstd\.h'), re.compile(r'backend/archive/archive_pack\.c$')),
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
    """The rooms that a file of `room` may include and call, with its own."""
    if room in BELOW_ALL:
        return BELOW_ALL[:BELOW_ALL.index(room) + 1]
    order = PROXY if room in PROXY else BACKEND
    if room not in order:
        return []
    below = BELOW_ALL + order[:order.index(room) + 1]
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


# ---- calls -----------------------------------------------------------------------------------------------------------

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
CALL = re.compile(r'(?<![\w.>])([a-z_]\w*)\s*\(')


class Function:
    """A function's name, whether only its file can call it, its first line, and the names of what it calls."""

    def __init__(self, path, head, line):
        self.path, self.line = path, line
        self.name = re.search(r'(\w+)\s*\(', re.sub(r'__attribute__\s*\(\(.*?\)\)\)?', '', head) or head)
        self.name = self.name.group(1) if self.name else ''
        self.is_private = head.lstrip().startswith('static') and path.endswith('.c')
        self.calls = set()


def functions(path):
    """The functions of a file: text between '{' and '}' in the first column."""
    text = NO_CODE.sub(lambda match: '\n' * match.group().count('\n') or ' ', read(path))
    head, function = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if function:
            if line.startswith('}'):
                yield function
                head, function = [], None
            else:
                function.calls.update(CALL.findall(line))
        elif line.startswith('{'):
            function = Function(path, ' '.join(head), number)
        elif not line.strip() or line.startswith(('#', '}')) or line.rstrip().endswith(';'):
            head = []
        else:
            head.append(line)


def is_call(path, target):
    """Can a function of file `path` call one of `target`, another unit of its program or of both?"""
    return unit_of(path) != unit_of(target) and (target.split('/')[0] in (path.split('/')[0], 'shared', 'config'))


class Calls:
    """What calls what, outside of the tests."""

    def __init__(self):
        self.functions = [function for path in sources('.c', '.h') if not path.startswith('tests/')
                          for function in functions(path)]
        self.public = collections.defaultdict(list)
        private = collections.defaultdict(set)
        for function in self.functions:
            if function.is_private:
                private[function.path].add(function.name)
            else:
                self.public[function.name].append(function)
        self.edges = [(function, other) for function in self.functions
                      for name in sorted(function.calls - private[function.path])
                      for other in self.public.get(name, ()) if is_call(function.path, other.path)]

    def repeated(self):
        for name, found in sorted(self.public.items()):
            if len(found) > 1 and name != 'main':
                yield '%s:%d: %s is also a function of %s' % (found[1].path, found[1].line, name, found[0].path)

    def upward(self):
        for function, other in self.edges:
            room = os.path.dirname(function.path)
            if os.path.dirname(other.path) not in rooms_below(room):
                yield '%s:%d: %s calls %s of %s: that room lies above it' % (
                    function.path, function.line, function.name, other.name, other.path)

    def circles(self):
        """Sets of units that call each other in a cycle (Tarjan's algorithm), the biggest first."""
        edges = collections.defaultdict(set)
        for function, other in self.edges:
            edges[unit_of(function.path)].add(unit_of(other.path))
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


def unit_of(path):
    """A .c file, or a header with its inline functions."""
    return path[:-2] if path.endswith('.c') else path


def check_calls(calls):
    yield from calls.repeated()
    yield from calls.upward()
    for circle in calls.circles():
        if len(circle) > CIRCLE_MAX:
            yield '%s:1: %d files call each other in a circle, at most %d may: %s' % (
                circle[0] if circle[0].endswith('.h') else circle[0] + '.c', len(circle), CIRCLE_MAX, ' '.join(circle))


# ---- files -----------------------------------------------------------------------------------------------------------

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


def check_folders():
    files = collections.Counter(os.path.dirname(path) for path in tracked())
    for folder, count in sorted(files.items()):
        if folder.split('/')[0] in ('shared', 'config', 'proxy', 'backend'):
            if count > FILES_MAX and folder not in MANY_FILES:
                yield '%s/:1: %d files, at most %d may be in a folder' % (folder, count, FILES_MAX)


def check_all():
    for path in tracked():
        top = path.split('/')[0]
        if top not in TOP_LEVEL and not top.startswith('.'):
            yield '%s:1: not part of the top level' % path
    for path in sources('.c', '.h', '.def'):
        yield from check_file(path)
    yield from check_folders()
    yield from check_calls(Calls())


if __name__ == '__main__':
    if sys.argv[1:] == ['--circles']:
        for circle in Calls().circles():
            print('%d: %s' % (len(circle), ' '.join(circle)))
    else:
        report(sorted(set(check_all())))
