#!/usr/bin/python3
"""structs.py - no struct has more than FIELDS_MAX fields: a bigger one is split into parts with names of their own. A declaration is on one
line: clang-format tears it if the comment behind it is too long.

Fields of an anonymous inner struct or union count as fields of the outer struct. Tests are not checked. `structs.py
--biggest` lists the ten biggest structs.
"""

import re
import sys

from files import read, report, sources

FIELDS_MAX = 25
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|^\s*#(?:[^\n]*\\\n)*[^\n]*', re.DOTALL | re.MULTILINE)
STRUCT = re.compile(r'\bstruct(?: (\w+))?\s*\{')
TORN = re.compile(r'^ +(?!else$|do$|return$)(?:(?:const |_Atomic )*struct \w+|enum \w+|(?:const |_Atomic )*\w+)\n +\*?\w+(?:\[[^\]\n]*\])?; */\*', re.M)
PARENTHESES = re.compile(r'\([^()]*\)')


def blank(match):
    """As many newlines as in the match, without its text."""
    return '\n' * match.group().count('\n')


def end_of_block(text, start):
    """The position after the brace that closes the block whose text begins at `start`."""
    depth = 1
    while depth:
        depth += {'{': 1, '}': -1}.get(text[start], 0)
        start += 1
    return start


def count_fields(body):
    count, declaration, at = 0, '', 0
    while at < len(body):
        if body[at] == '{':
            end = end_of_block(body, at + 1)
            if 'enum' not in declaration and body[end:].lstrip().startswith(';'):
                count += count_fields(body[at + 1:end - 1])
                declaration = ''
            at = end
        elif body[at] == ';':
            while PARENTHESES.search(declaration):
                declaration = PARENTHESES.sub('', declaration)
            count += bool(declaration.strip()) * (1 + declaration.count(','))
            declaration = ''
            at += 1
        else:
            declaration += body[at]
            at += 1
    return count


def structs():
    """(number of fields, name, path, line) of each struct."""
    for path in sources('.c', '.h'):
        if path.startswith('tests/'):
            continue
        text = NOT_CODE.sub(blank, read(path))
        for match in STRUCT.finditer(text):
            end = end_of_block(text, match.end())
            if match.group(1) or text[end:].lstrip()[:1] not in ';':
                fields = count_fields(text[match.end():end - 1])
                yield fields, match.group(1) or 'anonymous', path, text.count('\n', 0, match.start()) + 1


def torn():
    for path in sources('.c', '.h'):
        text = read(path)
        for match in TORN.finditer(text):
            yield '%s:%d: the comment tears the declaration: put it above' % (path, text.count('\n', 0, match.start()) + 1)


def main():
    found = sorted(structs(), reverse=True)
    if sys.argv[1:] == ['--biggest']:
        for fields, name, path, line in found[:10]:
            print('%3d struct %s (%s:%d)' % (fields, name, path, line))
        return
    report(['%s:%d: struct %s has %d fields, at most %d may be' % (path, line, name, fields, FIELDS_MAX)
            for fields, name, path, line in found if fields > FIELDS_MAX] + list(torn()))


if __name__ == '__main__':
    main()
