#!/usr/bin/python3
"""rooms.py - who may include whom, and where things may lie.

    shared ◄─ config ◄─ proxy | backend        uv.h, rocksdb, microhttpd, inih and lua each behind one door

Prints `file:line: what is wrong`; silent and 0 when all is well.
"""

import os
import re

from files import ROOT, read, report, sources, tracked

# room of the including file → rooms it may include; the longest matching prefix counts
MAY_INCLUDE = {
    'shared': ['shared'],
    'shared/net': ['shared', 'shared/net'],
    'config': ['shared', 'config'],
    'proxy': ['shared', 'shared/net', 'config', 'proxy', 'proxy/status'],
    'backend': ['shared', 'shared/net', 'config', 'backend', 'backend/store', 'backend/commands', 'backend/script', 'backend/json', 'backend/backup', 'backend/tool'],
    'backend/store': ['shared', 'backend/store'],
    'backend/script': ['shared', 'shared/net', 'config', 'backend', 'backend/store', 'backend/script'],
}
# library header → where it may be included
DOORS = [
    (re.compile(r'uv(\.h|/)'), re.compile(r'.*_uv\.[ch]$')),
    (re.compile(r'rocksdb/'), re.compile(r'backend/store/')),
    (re.compile(r'xxhash\.h'), re.compile(r'backend/store/batch_file\.c$')),
    (re.compile(r'microhttpd\.h'), re.compile(r'shared/net/http_mhd\.c$')),
    (re.compile(r'openssl/'), re.compile(r'shared/(digest\.c|tls(_\w+)?\.[ch])$')),
    (re.compile(r'jansson\.h'), re.compile(r'backend/(json/json_doc|backup/manifest)\.c$')),
    (re.compile(r'seccomp\.h'), re.compile(r'config/harden\.c$')),
    (re.compile(r'ini\.h'), re.compile(r'config/ini_file\.c$')),
    (re.compile(r'(lua|lualib|lauxlib)\.h'), re.compile(r'backend/script/')),
]
TOP_LEVEL = {'CMakeLists.txt', 'CMakePresets.json', 'proxy', 'backend', 'shared', 'config', 'tests', 'k8s', 'docs',
             'README.md', 'LICENSE'}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX)\b')


def room_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in MAY_INCLUDE:
        folder = os.path.dirname(folder)
    return folder


def check_include(path, line, kind, target):
    for header, allowed in DOORS:
        if kind == '<' and header.match(target) and not allowed.match(path):
            yield '%s:%d: <%s> may not be included here' % (path, line, target)
    if kind == '<':
        return
    if not os.path.exists(os.path.join(ROOT, target)):
        yield '%s:%d: "%s": expected a path from the root' % (path, line, target)
    folder = os.path.dirname(target)
    if folder not in MAY_INCLUDE[room_of(path)]:
        yield '%s:%d: "%s" may not be included in %s/' % (path, line, target, room_of(path))


def needs_header_comment(path):
    """A .c file may leave it to its .h."""
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


if __name__ == '__main__':
    report(sorted(set(check_all())))
