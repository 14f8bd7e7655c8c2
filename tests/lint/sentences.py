#!/usr/bin/python3
"""sentences.py - no program decides by what a sentence says.

Errors, refusals and reasons are written for people, and are improved. A program compares codes: the first word of an error
(shared/error_code.h), or enum refusal_code between shards. So no function that compares or searches bytes gets a literal of two words.
Prints `file:line: what is wrong`.
"""

import re

from files import read, report, sources

COMPARES = re.compile(r'\b(?:strn?cmp|strn?casecmp|strstr|strcasestr|memcmp|memmem|bytes_equal|bytes_is|bytes_compare)\(')
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
SENTENCE = re.compile(r'[A-Za-z:,.\']\s+\S|^-?[A-Z]{2,}\s')
# file → literals of libraries and protocols that have no codes
ALLOWED = {
    'backend/store/store_rocksdb.c': {'No such file or directory', 'lock file', 'Result incomplete'},
    'backend/store/store_rocksdb_error.c': {'No space left on device', 'Disk quota exceeded'},
}


def arguments(text, start):
    """The text up to the parenthesis that closes the one before `start`."""
    depth = 1
    for at in range(start, min(len(text), start + 400)):
        depth += {'(': 1, ')': -1}.get(text[at], 0)
        if not depth:
            return text[start:at]
    return text[start:start + 400]


def problems(path, text):
    for call in COMPARES.finditer(text):
        for literal in LITERAL.findall(arguments(text, call.end())):
            if SENTENCE.search(literal) and literal not in ALLOWED.get(path, ()):
                yield '%s:%d: compares with the sentence "%s": give it a code (shared/error_code.h, backend/context/refusal.h)' % (
                    path, text.count('\n', 0, call.start()) + 1, literal)


if __name__ == '__main__':
    report([line for path in sources('.c', '.h') if not path.startswith('tests/') for line in problems(path, read(path))])
