"""checks.py - when do two replies count as equal?

By default when their bytes are equal. Where Redis does not define the order, the exact time or the member chosen, only
the defined parts of the replies are compared. Errors are always compared byte for byte.
"""

from support import groups

TTL_TOLERANCE_S = 60  # a disk may stand still for seconds between the two servers
STRING_ENCODINGS = {b'int', b'embstr', b'raw'}
HASH_ENCODINGS = {b'listpack', b'listpackex', b'hashtable'}
SET_ENCODINGS = {b'intset', b'listpack', b'hashtable'}
ZSET_ENCODINGS = {b'listpack', b'skiplist'}
ENCODINGS = (STRING_ENCODINGS, HASH_ENCODINGS, SET_ENCODINGS, ZSET_ENCODINGS)


def check_of(args):
    """The name of the check for replies to `args`."""
    name = args[0].upper().decode('latin-1') if args else ''
    if len(args) > 1:
        with_sub = name + ' ' + args[1].upper().decode('latin-1')
        if with_sub in groups.CHECKS:
            return groups.CHECKS[with_sub]
    return groups.CHECKS.get(name, 'exact')


def same(check, ours, theirs):
    """`check`: a name of COMPARE, 'exact', or a function of both replies, which also compares errors."""
    if ours == theirs:
        return True
    if callable(check):
        return check(ours, theirs)
    if '-' in (ours[0], theirs[0]) or check == 'exact':
        return False
    return COMPARE[check](ours, theirs)


class Queue:
    """The commands that MULTI has queued on one connection. Each reply in EXEC's is compared by the check of its step,
    else by `check`, else by the check of its command."""

    def __init__(self):
        self.steps, self.is_open = [], False

    def differences(self, step, ours, theirs, check=None):
        """[(step, our reply, their reply, is in EXEC)] for replies that differ."""
        name, steps = step.words[0].upper() if step.words else b'', self.steps
        if theirs == ('+', b'QUEUED'):
            steps.append(step)
        elif name == b'MULTI' and theirs == ('+', b'OK'):
            self.is_open = True
        elif name in (b'EXEC', b'DISCARD', b'RESET') and len(step.words) == 1:
            self.steps, self.is_open = [], False
        if name == b'EXEC' and theirs[0] == '*' and theirs[1] is not None:
            if ours[0] == '*' and is_list(ours) and len(ours[1]) == len(theirs[1]) == len(steps):
                return [(each, our, their, True) for each, our, their in zip(steps, ours[1], theirs[1])
                        if not same(each.check or check or check_of(each.words), our, their)]
            return [(step, ours, theirs, False)]
        return [] if same(step.check or check or check_of(step.words), ours, theirs) else [(step, ours, theirs, False)]


def is_list(reply):
    return isinstance(reply[1], list)


def unordered(ours, theirs):
    if ours[0] != theirs[0] or not is_list(ours) or not is_list(theirs):
        return False
    return sorted(ours[1], key=repr) == sorted(theirs[1], key=repr)


def pairs(ours, theirs):
    """Fields and values, a flat list in RESP2, a map in RESP3: the pairs may come in any order."""
    if ours[0] != theirs[0] or not is_list(ours) or not is_list(theirs) or len(ours[1]) != len(theirs[1]):
        return False
    return sorted(zip(ours[1][::2], ours[1][1::2])) == sorted(zip(theirs[1][::2], theirs[1][1::2]))


def length(ours, theirs):
    if ours[0] != theirs[0] or is_list(ours) != is_list(theirs):
        return False
    if not is_list(ours):
        return (ours[1] is None) == (theirs[1] is None)
    return len(ours[1]) == len(theirs[1])


def kind(ours, theirs):
    return ours[0] == theirs[0] and (ours[1] is None) == (theirs[1] is None)


def ttl(ours, theirs, unit=1):
    """A TTL or an expiry time in seconds: a difference of some seconds is allowed."""
    if ours[0] != ':' or theirs[0] != ':':
        return False
    a, b = int(ours[1]), int(theirs[1])
    if a < 0 or b < 0:
        return False
    return abs(a - b) <= TTL_TOLERANCE_S * unit


def ttl_ms(ours, theirs):
    return ttl(ours, theirs, 1000)


def encoding(ours, theirs):
    """Names of encodings of one type: the exact one depends on earlier changes."""
    if ours[1] is None or theirs[1] is None:
        return False
    return any({ours[1], theirs[1]} <= family for family in ENCODINGS)


# Fields of Redis 7.2 that redis-server 7.0 does not have.
LATER = {b'inactive', b'active-time'}
TIMES = {b'idle', b'seen-time', b'radix-tree-keys', b'radix-tree-nodes'}


def without_times(reply):
    """A reply about a stream without the values that depend on the clock, or on how Redis stores entries."""
    if not is_list(reply):
        return reply
    items = [without_times(item) for item in reply[1]]
    for at in reversed(range(len(items) - 1)):
        if isinstance(items[at], tuple) and isinstance(items[at][1], bytes) and items[at][1] in LATER:
            del items[at:at + 2]
    for at, item in enumerate(items[:-1]):
        if isinstance(item, tuple) and isinstance(item[1], bytes) and item[1] in TIMES:
            items[at + 1] = None
    kinds = [item[0] if isinstance(item, tuple) else None for item in items]
    if kinds in (['$', '$', ':', ':'], ['$', ':', ':']):  # a pending entry: removes its delivery time
        items[-2] = None
    return (reply[0], items)


def timeless(ours, theirs):
    return without_times(ours) == without_times(theirs)


def hello(ours, theirs):
    """Equal names with values of the same types, and the same protocol version."""
    if ours[0] != theirs[0] or not is_list(ours) or not is_list(theirs):
        return False
    a, b = dict(zip(ours[1][::2], ours[1][1::2].copy())), dict(zip(theirs[1][::2], theirs[1][1::2]))
    same_types = list(a) == list(b) and all(a[key][0] == b[key][0] for key in a)
    return same_types and a.get(('$', b'proto')) == b.get(('$', b'proto'))


def type_tree(reply):
    """The types in a reply: for an array the set of its members' types, for a map its names with the types of their
    values."""
    kind, payload = reply
    if kind == '%':
        return kind, sorted((repr(name), type_tree(item)) for name, item in zip(payload[::2], payload[1::2]))
    if isinstance(payload, list):
        return kind, sorted({repr(type_tree(item)) for item in payload})
    return kind + 'nil' if payload is None else kind


def types(ours, theirs):
    return type_tree(ours) == type_tree(theirs)


def scan_kind(ours, theirs):
    """A page of a scan: cursor and elements may differ (complete walks are compared elsewhere)."""
    return ours[0] == theirs[0] == '*' and len(ours[1]) == len(theirs[1]) == 2 and \
        [item[0] for item in ours[1]] == [item[0] for item in theirs[1]]


COMPARE = {'timeless': timeless, 'unordered': unordered, 'pairs': pairs, 'length': length, 'kind': kind, 'ttl': ttl, 'ttl_ms': ttl_ms, 'encoding': encoding,
           'hello': hello, 'scan_kind': scan_kind, 'types': types}
