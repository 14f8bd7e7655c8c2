#!/usr/bin/python3
"""documents.py - pages are short, and say what is, not what was.

No page has more than LINES_MAX lines, and architecture.md no more than WORDS_MAX words: a longer one is two pages. DIARY counts dates
and words such as "now" and "before" that tell how something came about; their numbers only shrink (documents.py --count prints
them, --list where they are). What was measured when belongs to docs/benchmarks, where each page names the commit of the programs that were
measured; pages that are older than COMMITS_MAX commits are listed. Printed pages and the changelog are not checked for these words.
"""

import collections
import re
import subprocess
import sys

from files import ROOT, read, report, tracked

LINES_MAX = 600
WORDS_MAX = 2500
COMMITS_MAX = 300
PRINTED = ('docs/commands.md', 'docs/configuration.md', 'docs/versions.md')
DIARY = {
    r'\b20\d\d-\d\d-\d\d(?!T)\b': 6,  # long runs in guarantees.md
    r'(?:^|[.;:|] )Now\b|\| now \|': 0,
    r'(?:^|[.;:|] )Before,|\| before \|': 0,
    r'\b(?:[Ff]ormerly|[Pp]reviously|[Tt]ried and left out|[Ii]n the first design)\b': 0,
}
BUILD = re.compile(r'\bcommit ([0-9a-f]{7,40})\b')


def pages():
    return [path for path in tracked() if path.startswith('docs/') and path.endswith('.md')]


def plain(text):
    """Without blocks of code, lines kept."""
    return re.sub(r'^ *```.*?^ *```', lambda found: '\n' * found[0].count('\n'), text, flags=re.M | re.S)


def diary():
    """(word, path, line number) for each of DIARY."""
    for path in pages():
        if path.startswith('docs/benchmarks/') or path in PRINTED + ('docs/changelog.md',):
            continue
        for number, line in enumerate(plain(read(path)).splitlines(), 1):
            for word in DIARY:
                for _ in re.finditer(word, line):
                    yield word, path, number


def too_long():
    for path in pages():
        lines, words = read(path).count('\n'), len(read(path).split())
        if lines > LINES_MAX and path not in PRINTED:
            yield '%s:1: %d lines, expected %d at most' % (path, lines, LINES_MAX)
        if path.endswith('/architecture.md') and words > WORDS_MAX:
            yield '%s:1: %d words, expected %d at most' % (path, words, WORDS_MAX)


def age(commit):
    """The number of commits since; None: it is not in this clone."""
    done = subprocess.run(['git', 'rev-list', '--count', commit + '..HEAD'], cwd=ROOT, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else None


def builds():
    for path in pages():
        if not path.startswith('docs/benchmarks/'):
            continue
        found = BUILD.search(read(path))
        if not found:
            yield '%s:1: expected the commit of the programs that were measured' % path
        elif (age(found[1]) or 0) > COMMITS_MAX:
            print('note: %s is of a build %d commits ago: measure it again' % (path, age(found[1])))


def main():
    found = list(diary())
    counts = collections.Counter(word for word, _, _ in found)
    if '--list' in sys.argv:
        for word, path, number in found:
            print('%s:%d: %s' % (path, number, word))
    if '--count' in sys.argv:
        for word, most in DIARY.items():
            print('%4d of %d  %s' % (counts[word], most, word))
    if len(sys.argv) > 1:
        return
    problems = list(too_long()) + list(builds())
    for word, most in DIARY.items():
        if counts[word] > most:
            problems.append('tests/lint/documents.py:1: "%s" occurs %d times in documents, at most %d may (documents.py --list): say what is; '
                            'what was measured when belongs to docs/benchmarks' % (word, counts[word], most))
    report(problems)


if __name__ == '__main__':
    main()
