#!/usr/bin/python3
"""stories.py - the functions that pages of docs/internals name exist, in the file that is named behind them.

`name` (path), `name` → `other` (path), and `name` in `path`: the names since the last path, or since the sentence began, are defined in that
file. A name without a file is defined in some file of the programs. In drawings every word with an underscore is such a name. So a page that
tells a procedure call by call cannot keep a function that was renamed or moved.
"""

import functools
import re

from files import read, report, sources, tracked

PAGES = ('architecture.md', 'get.md', 'durable-set.md', 'slot-move.md', 'exec-over-shards.md', 'turn.md', 'consensus.md')
TOKEN = re.compile(r'`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`'
                   r'|\(?(?:, |in |\()`?((?:shared|config|proxy|backend|tests)/[\w/]+\.[ch])`?'
                   r'|([.;|]\s|:\s)')
DRAWING = re.compile(r'^```.*?^```', re.M | re.S)
WORD = re.compile(r'(?<![\w./-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w./]*\.[chm])')
DEFINED = re.compile(r'^(?:[a-zA-Z_][\w \t*]*[ *])?(\w+)\((?!.*\);$)', re.M)
TEST = re.compile(r'^START_TEST\((\w+)\)', re.M)
ITEM = re.compile(r'\n(?=\s*(?:[-|]|\d+\.) |\s*\n)')


@functools.cache
def defined_in(path):
    """Names of functions and unit tests that have a body in this file."""
    text = read(path)
    return set(DEFINED.findall(text)) | set(TEST.findall(text))


@functools.cache
def known():
    """Names that have a body somewhere, and words that are rows of a table: handlers, files."""
    files = [path for path in sources('.c', '.h') if not path.startswith('tests/')]
    names = {name for path in files for name in defined_in(path)}
    return names | {path.split('/')[-1].rsplit('.')[0] for path in tracked() if path.endswith(('.c', '.h', '.py', '.def'))}


def wrong_names(text):
    """(name, what is wrong) of an item of a page."""
    names = []
    for name, path, end in TOKEN.findall(text):
        if name:
            names.append(name)
        elif path:
            here = [path] if path in tracked_files() else []
            for one in names:
                if not any(one in defined_in(file) for file in here):
                    yield one, 'is not a function of %s' % path
            names = []
        else:
            yield from ((one, 'is no function') for one in names if one not in known())
            names = []
    yield from ((one, 'is no function') for one in names if one not in known())


@functools.cache
def tracked_files():
    return set(tracked())


def main():
    problems = []
    for page in PAGES:
        path = 'docs/internals/' + page
        text = read(path)
        for name in WORD.findall('\n'.join(DRAWING.findall(text))):
            if name not in known():
                problems.append('%s: in a drawing: %s is no function' % (path, name))
        for item in ITEM.split(DRAWING.sub('', text)):
            problems += ['%s: `%s` %s' % (path, *wrong) for wrong in wrong_names(item)]
    report(problems)


if __name__ == '__main__':
    main()
