#!/usr/bin/python3
"""words.py - words that docs/internals/glossary.md replaced do not come back: in names of files, in code, in comments, in documents.

WORDS lists each with the term to use instead. A word that is banned only in some places names them. PLAIN lists
words of comments and documents that are not understood at first reading; their number in the whole tree only shrinks.

Prints `file:line: what is wrong`; silent and 0 when all is well. `words.py --count` prints how often each of PLAIN occurs.
"""

import re
import sys

from files import read, report, tracked

EVERYWHERE = ''
# pattern, term to use, folders or files in which it is banned
WORDS = [
    (r'batch_log|batch logs?\b', 'WAL', EVERYWHERE),
    (r'batch_file|batch file', 'WAL segment', EVERYWHERE),
    (r'layers?_|_layers?\b|\b[Ll]ayers?\b', 'write buffer', 'backend/storage backend/store backend/wal docs/internals/architecture.md'),
    (r'(?i)settl(e|es|ing)\b', 'apply', EVERYWHERE),
    (r'(?i)settled\b', 'applied', 'backend/storage backend/store backend/wal'),  # a shard map may be settled
    (r'\b(un|re)?seal(ed|s|ing)?\b|overlay_retire|_renew\b', 'close (a batch), committed, rotate', 'backend/storage backend/wal backend/store'),
    (r'(?i)\bcold\b|_cold\b|\bcold_|ERR_COLD', 'uncached, suspend', 'backend shared proxy config tests/integration tests/unit'),
    (r'overlay_unwind|may_unwind', 'non-blocking read', EVERYWHERE),
    (r'overlay_ask\b|look_ahead', 'prefetch', EVERYWHERE),
    (r'row_feed', 'read_ahead', EVERYWHERE),
    (r'\bwalk_(rows|run|wake|search|free)\b|stored_walk|text_walk|zset_walk|KEYS_WALK', 'reply_stream, iterator', EVERYWHERE),
    (r'\baccounts?(_\w+)?\b', 'command statistics', 'backend/partition backend/context'),
    (r'\bmeasures\b|proxy_measures', 'metrics', 'backend/context backend/partition proxy'),
    (r'\bsettings\b|settings_(?!of)', 'configuration snapshot', 'backend/context backend/partition backend/commands'),
    (r'\bguests?\b|\bguest_', 'impersonated user', 'backend'),
    (r'(?i)\bstrangers?\b|is_stranger', 'untrusted peer', 'backend proxy shared docs'),
    (r'\bedges?_', 'range bound', 'backend/keyspace backend/commands'),
    (r'\binterest(s|_\w+)?\b|\baudiences?(_\w+)?\b|\bfeeds?\b', 'subscription table, subscription connection', 'proxy shared/acl/channel.h shared/subscription_table.h'),
    (r'\bqueued_walk\b|struct journal\b', 'transaction queue, slow log', 'proxy'),
    (r'struct places?\b|->place\b|\bplaces?_(un)?ref\b', 'keyspace', 'proxy'),
    (r'\bmeters?(_\w+)?\b', 'rate limiter', 'proxy'),
    (r'\berrands?\b|is_leased|\bears?\b', 'dedicated connection, invalidation connection', 'proxy'),
    (r'(?i)\btak(en|es|e) back\b|take_back', 'roll back', 'backend docs'),
    (r'\bupkeep|UPKEEP|\bshelf', 'maintenance, backup catalog', EVERYWHERE),
    (r'\bdrafts?\b|draft_', 'request generator', 'tests/sim'),
    (r'\bERR_UNCACHED\b', 'ERR_RETRY (storage/retry.h): above storage a command waits, whatever it waits for',
     'backend/context backend/keyspace backend/rank backend/session backend/transaction backend/dispatch backend/slots backend/partition backend/commands backend/script'),
    (r'reader_wait|\brow_wait\b', 'struct retry', EVERYWHERE),
    (r'[=!]= ERR_STORE', 'is_read_failure(): the command may also wait', 'backend/keyspace backend/commands backend/partition backend/script'),
]
# This file, generated or foreign texts, and examples of bad sentences.
NOT_OURS = ('tests/lint/words.py', 'docs/benchmarks/', 'docs/images/', 'docs/commands.md', 'shared/command/commands_server.def', 'docs/internals/glossary.md', 'docs/CONTRIBUTING.md')
PLAIN = {r'\b[Nn]obody\b': 0, r'\b[Ss]omebody\b': 0, r'\b[Mm]eanwhile\b': 0, r'\bof it\b': 11, r'\b[Ww]ho asks\b': 0}
TEXTS = ('.c', '.h', '.def', '.md', '.py')


def texts():
    for path in tracked():
        if not path.startswith(NOT_OURS) and path.endswith(TEXTS):
            yield path, read(path)


def is_in(path, places):
    return not places or any(path == place or path.startswith(place + '/') for place in places.split())


def banned():
    rules = [(re.compile(pattern), term, places) for pattern, term, places in WORDS]
    for path, text in texts():
        here = [(pattern, term) for pattern, term, places in rules if is_in(path, places)]
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, term in here:
                found = pattern.search(line)
                if found:
                    yield '%s:%d: "%s": the term is %s (docs/internals/glossary.md)' % (path, number, found.group(0), term)
        for pattern, term in here:
            if pattern.search(path.split('/')[-1]):
                yield '%s:1: name of the file: the term is %s (docs/internals/glossary.md)' % (path, term)


def counts():
    everything = [text for path, text in texts() if not path.startswith('tests/')]
    return {word: sum(len(re.findall(word, text)) for text in everything) for word in PLAIN}


def plain():
    for word, have in counts().items():
        if have > PLAIN[word]:
            yield 'tests/lint/words.py:1: "%s" occurs %d times, at most %d may: write who does what' % (word, have, PLAIN[word])


if __name__ == '__main__':
    if sys.argv[1:] == ['--count']:
        for word, have in counts().items():
            print('%4d  %s' % (have, word))
    else:
        report(sorted(set(banned())) + list(plain()))
