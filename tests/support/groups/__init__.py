"""The command groups of the random streams: one module each.

A module defines

    COMMANDS   [(weight, maker)]; maker(context) returns the words of a command, a Step, a list of Steps, or None
    WEIGHT     how often this group is drawn, relative to the others (1 when absent)
    CHECKS     {'NAME' or 'NAME SUB': how replies are compared (checks.py)}; absent: byte for byte
    READERS    {type as TYPE says it: (words of a command that reads a whole key; None stands for the key, check)}
    MANY_KEYS  names of commands any argument of which may be taken for a key
    KEYLESS    names of commands without keys that concern all shards: not drawn inside a block through a proxy

A new group is a new module and its name in NAMES.
"""

import importlib

NAMES = [
    'strings',
    'bitmaps',
    'hll',
    'hashes',
    'lists',
    'zsets',
    'geo',
    'keys',
    'pubsub',
    'connection',
    'errors',
    'sets',
    'sorting',
    'streams',
    'scripting',
]

# Commands that redis-server 7.0 does not have: with another one, named in --groups.
LATER = ['hash_ttl', 'later', 'valkey']

# Not allowed inside MULTI: they change the state of the connection that the block depends on.
NOT_IN_BLOCKS = {'RESET', 'HELLO', 'MULTI', 'EXEC', 'DISCARD', 'WATCH', 'UNWATCH', 'QUIT'}

KEYLESS = set()
MANY_KEYS = set()
CHECKS = {}
READERS = {}


def load(name):
    module = importlib.import_module('support.groups.' + name)
    KEYLESS.update(getattr(module, 'KEYLESS', ()))
    MANY_KEYS.update(getattr(module, 'MANY_KEYS', ()))
    CHECKS.update(getattr(module, 'CHECKS', {}))
    READERS.update(getattr(module, 'READERS', {}))
    return module
