#!/usr/bin/python3
"""JSON.*: recorded replies of servers with RedisJSON, and random changes compared with a model in Python.

There is no oracle for these commands: json_vectors.json holds replies known from other servers, the other cases compare
with the documents that must result.
"""

import json
import os
import random
import shlex

from support import TESTS
from support.cluster import Cluster
from support.harness import Failure, Suite, check, check_equal
from support.resp import Connection, ReplyError

suite = Suite(__doc__)


def serve():
    return Cluster(backends=1, partitions=1, proxies=0)


def connect(cluster, proto=2):
    return Connection(cluster.backends[0].addresses[0], proto=proto)


def plain(reply):
    if isinstance(reply, bytes):
        return reply.decode('utf-8', 'replace')
    return [plain(item) for item in reply] if isinstance(reply, list) else reply


def shuffled(thing):
    """The value with every list sorted, so that lists compare as multisets."""
    if isinstance(thing, list):
        return sorted((shuffled(item) for item in thing), key=repr)
    if isinstance(thing, dict):
        return {name: shuffled(item) for name, item in thing.items()}
    return thing


def meets(reply, expect, want):
    """expect 'error': an error that contains the text `want`, if any."""
    if expect == 'error':
        return isinstance(reply, ReplyError) and (want or '') in str(reply)
    if isinstance(reply, ReplyError):
        return False
    got = plain(reply)
    if expect in ('ok', 'noerror'):
        return expect == 'noerror' or got == 'OK'
    if expect == 'json':
        return json.loads(got) == want
    if expect == 'json-unordered':
        return shuffled(json.loads(got)) == shuffled(want)
    if expect == 'unordered':
        return shuffled(got) == shuffled(want)
    return got == want


def play(steps):
    """Plays (title of the failure, words, expect, want); expect and want are those of meets()."""
    wrong = []
    with serve() as cluster:
        client = connect(cluster)
        for title, words, expect, want in steps:
            reply = client.get(*words)
            if not meets(reply, expect, want):
                wrong.append('%s: %s\n       want %s %r\n       got %r' % (title, ' '.join(words), expect, want, plain(reply)))
    if wrong:
        raise Failure('%d differ\n     %s' % (len(wrong), '\n     '.join(wrong[:20])))


@suite.case('the recorded replies of other servers')
def _(run):
    with open(os.path.join(TESTS, 'differential/json_vectors.json'), encoding='utf-8') as file:
        groups = json.load(file)['groups']
    steps = []
    for group in groups:
        steps.append((group['group'], ['FLUSHALL'], 'ok', None))
        steps += [(group['group'], step['cmd'], step['expect'], step.get('value')) for step in group['steps']]
    run.note('%d steps' % len(steps))
    play(steps)


# each line: command => expected reply; {"error": "…"}: a part of an error's text
TALK = r'''
JSON.SET d $ {"a":1,"b":[1,2.5,"x",null,true],"c":{"d":"text","e":{}},"n":-0.5} => "OK"
JSON.GET d => "{\"a\":1,\"b\":[1,2.5,\"x\",null,true],\"c\":{\"d\":\"text\",\"e\":{}},\"n\":-0.5}"
JSON.GET d . => "{\"a\":1,\"b\":[1,2.5,\"x\",null,true],\"c\":{\"d\":\"text\",\"e\":{}},\"n\":-0.5}"
JSON.GET d .a => "1"
JSON.GET d a => "1"
JSON.GET d c.d => "\"text\""
JSON.GET d b[1] => "2.5"
JSON.GET d nope => {"error": "Path '$.nope' does not exist"}
JSON.GET d $.nope => "[]"
JSON.GET d .a .b[0] => "{\".a\":1,\".b[0]\":1}"
JSON.GET d .a $.b[0] => "{\".a\":[1],\"$.b[0]\":[1]}"
JSON.GET d INDENT "  " NEWLINE | SPACE _ $.c => "[|  {|    \"d\":_\"text\",|    \"e\":_{}|  }|]"
JSON.GET d $.b[-1] => "[true]"
JSON.GET d $.b[0:2] => "[1,2.5]"
JSON.GET d $.b[-2:] => "[null,true]"
JSON.GET d $.b[::2] => "[1,\"x\",true]"
JSON.GET d $.b[::-1] => "[true,null,\"x\",2.5,1]"
JSON.GET d $.b[0,2] => "[1,\"x\"]"
JSON.GET d $['a','n'] => "[1,-0.5]"
JSON.GET d $.c.* => "[\"text\",{}]"
JSON.GET d $..d => "[\"text\"]"
JSON.GET d $..[0] => "[1]"
JSON.GET d $[ => {"error": "JSON Path error"}
JSON.GET d $.a..  => {"error": "JSON Path error"}
JSON.TYPE d .c => "object"
JSON.TYPE d .nope => null
JSON.SET d $.a 2 NX => null
JSON.SET d $.z 2 XX => null
JSON.SET d $.z 2 NX => "OK"
JSON.SET d $.z 3 XX => "OK"
JSON.GET d $.z => "[3]"
JSON.SET d $.nope.deep 1 => null
JSON.SET new $.a 1 => {"error": "new objects must be created at the root"}
JSON.SET d $.z nonsense => {"error": "ERR"}
JSON.SET d $.z 1e400 => {"error": "ERR"}
JSON.SET d $.z 1 2 => {"error": "syntax"}
JSON.NUMINCRBY d $.a 9223372036854775806 => "[9223372036854775807]"
JSON.NUMINCRBY d $.a 1 => "[9.223372036854776e18]"
JSON.NUMINCRBY d .z 0.5 => "3.5"
JSON.NUMINCRBY d .z 0.5 => "4.0"
JSON.NUMMULTBY d .z 2 => "8.0"
JSON.NUMINCRBY d .c 1 => {"error": "ERR"}
JSON.NUMINCRBY d $.z x => {"error": "ERR"}
JSON.NUMINCRBY d $.z 9223372036854775808 => {"error": "ERR"}
JSON.NUMINCRBY none $.z 1 => {"error": "doesn't exist"}
JSON.STRAPPEND d $.c.d "\" more\"" => [9]
JSON.STRAPPEND d .c.d "\"!\"" => 10
JSON.STRLEN d $.c.d => [10]
JSON.STRLEN d .c => {"error": "not a string"}
JSON.STRLEN none => null
JSON.STRLEN none . => null
JSON.STRLEN none $ => {"error": "a key that doesn't exist"}
JSON.ARRLEN none => null
JSON.ARRLEN none .a => null
JSON.ARRLEN none $..a => {"error": "a key that doesn't exist"}
JSON.OBJLEN none => null
JSON.OBJLEN none ..a => null
JSON.OBJLEN none $..a => {"error": "a key that doesn't exist"}
JSON.OBJKEYS none => null
JSON.OBJKEYS none ..a => null
JSON.OBJKEYS none $..a => {"error": "a key that doesn't exist"}
JSON.ARRINDEX none .a 1 => null
JSON.ARRINDEX none $.a 1 => {"error": "a key that doesn't exist"}
JSON.ARRINDEX d $.b [1] => {"error": "expected a scalar but found an array"}
JSON.ARRINDEX d $.b {} => {"error": "expected a scalar but found an object"}
JSON.ARRINDEX d .b {} => -1
JSON.ARRINDEX d .b 1 5 => -1
JSON.ARRINDEX d .b true 99 => 4
JSON.TYPE none => null
JSON.TYPE none $ => null
JSON.RESP none => null
JSON.RESP none $ => null
JSON.DEBUG MEMORY none => 0
JSON.DEBUG MEMORY none .a => 0
JSON.DEBUG MEMORY none $ => []
JSON.DEBUG MEMORY none $.a => []
JSON.DEBUG MEMORY d .nope => {"error": "does not exist"}
JSON.DEBUG MEMORY d $.nope => []
JSON.OBJLEN d .nope => null
JSON.OBJKEYS d .nope => null
JSON.ARRLEN d .nope => {"error": "does not exist"}
JSON.SET order $ {"nested1":{"a":{"foo":10,"bar":20}},"a":["foo"],"nested2":{"a":{"baz":50}}} => "OK"
JSON.OBJLEN order $..a => [2, null, 1]
JSON.OBJKEYS order $..a => [["foo", "bar"], null, ["baz"]]
JSON.TYPE order $..a => ["object", "array", "object"]
JSON.OBJLEN order ..a => 2
JSON.ARRLEN order ..a => {"error": "not an array"}
JSON.GET order $..* => "[{\"a\":{\"foo\":10,\"bar\":20}},{\"foo\":10,\"bar\":20},10,20,[\"foo\"],\"foo\",{\"a\":{\"baz\":50}},{\"baz\":50},50]"
JSON.SET order $ {"a":[[1,2,3],[4,5,6]]} => "OK"
JSON.ARRPOP order $..* => ["[4,5]", "3", null, null, null, "6", null, null, null]
JSON.GET order => "{\"a\":[[1,2]]}"
JSON.SET order $ [[2,3.0,3],[3.0]] => "OK"
JSON.ARRINDEX order $.* 3 => [2, -1]
JSON.ARRINDEX order $.* 3.0 => [1, 0]
JSON.TOGGLE d $.b[4] => [0]
JSON.TOGGLE d .b[4] => "true"
JSON.ARRLEN d $..b => [5]
JSON.ARRPOP d $.b => ["true"]
JSON.ARRPOP d .b 0 => "1"
JSON.ARRPOP d $.b -100 => ["2.5"]
JSON.GET d $.b => "[[\"x\",null]]"
JSON.ARRPOP d $.c => [null]
JSON.OBJKEYS d $.c => [["d", "e"]]
JSON.OBJKEYS d .c => ["d", "e"]
JSON.OBJLEN d $.* => [null, null, 2, null, null]
JSON.OBJLEN d => 5
JSON.CLEAR d $.c => 1
JSON.CLEAR d $.c => 0
JSON.GET d $.c => "[{}]"
JSON.DEL d $.b[0,0] => 1
JSON.DEL d $..* => 5
JSON.GET d => "{}"
JSON.SET d $ {"p":[{"name":"x","price":5},{"name":"y","price":15},{"name":"z"}],"max":10} => "OK"
JSON.GET d $.p[?(@.price<10)].name => "[\"x\"]"
JSON.GET d "$.p[?(@.price < $.max && @.name == 'x')].name" => "[\"x\"]"
JSON.GET d "$.p[?(@.price >= 15 || @.name==\"z\")].name" => "[\"y\",\"z\"]"
JSON.GET d "$.p[?(!(@.price))].name" => "[\"z\"]"
JSON.GET d "$.p[?@.price != 5].name" => "[\"y\",\"z\"]"
JSON.GET d "$.p[?(@.price < 'a')].name" => "[]"
JSON.SET d $ {"sections":{"A-1":{"stats":{"available":3}}}} => "OK"
JSON.NUMINCRBY d "$.sections['A-1'].stats.available" -1 => "[2]"
JSON.NUMINCRBY d $.sections.A-1.stats.available -1 => "[1]"
JSON.RESP d $.sections => [["{", "A-1", ["{", "stats", ["{", "available", 1]]]]
JSON.DEBUG MEMORY d $.sections => [33]
JSON.SET e $ "\"q\\u0000\\n\\\"é\\/\"" => "OK"
JSON.GET e => "\"q\\u0000\\n\\\"é/\""
JSON.SET e $ {"k":1,"k":2} => "OK"
JSON.GET e => "{\"k\":2}"
JSON.SET e $ [1e5,1e16,1e-5,0.00001234,1.0,-0.0,100000000000000000.0,5e-324] => "OK"
JSON.GET e => "[100000.0,1e16,0.00001,0.00001234,1.0,-0.0,1e17,5e-324]"
JSON.SET w $ [18446744073709551615,-9223372036854775808,9223372036854775807,-9223372036854775809,"\"18446744073709551615"] => "OK"
JSON.GET w => "[1.8446744073709552e19,-9223372036854775808,9223372036854775807,-9.223372036854776e18,\"\\\"18446744073709551615\"]"
JSON.SET w $ {"a":[1,2,[3]],"o":{"x":1}} => "OK"
JSON.CLEAR w $..* => 2
JSON.GET w => "{\"a\":[],\"o\":{}}"
JSON.MGET d e none $.k => ["[]", "[]", null]
JSON.MGET w none w d none w $.o => ["[{}]", null, "[{}]", "[]", null, "[{}]"]
SET s text => "OK"
JSON.MGET s e $ => [null, "[[100000.0,1e16,0.00001,0.00001234,1.0,-0.0,1e17,5e-324]]"]
JSON.GET s => {"error": "WRONGTYPE"}
JSON.SET s $ 1 => {"error": "WRONGTYPE"}
GET e => {"error": "WRONGTYPE"}
EXPIREAT e 9999999999 => 1
JSON.NUMINCRBY e $[0] 1 => "[100001.0]"
EXPIRETIME e => 9999999999
JSON.SET e $ 1 => "OK"
EXPIRETIME e => -1
JSON.MERGE e $ {"a":{"b":1}} => "OK"
JSON.MERGE e $.a {"b":null,"c":2} => "OK"
JSON.GET e => "{\"a\":{\"c\":2}}"
JSON.MERGE e $.x.y 1 => null
JSON.MERGE e $.a.nope null => null
JSON.MERGE e $.a.new 1 => "OK"
JSON.SET e $.arr [0,1,2] => "OK"
JSON.SET e $.arr[3] 1 => {"error": "array index out of range"}
JSON.SET e $.arr[3] 1 XX => null
JSON.SET e $.arr[2] 1 NX => null
JSON.SET e $.arr[1:1] 1 => {"error": "the path matches nothing"}
JSON.SET e $..nope 1 => {"error": "the path matches nothing"}
JSON.GET e => "{\"a\":{\"c\":2,\"new\":1},\"arr\":[0,1,2]}"
JSON.FORGET e => 1
EXISTS e => 0
JSON.MSET m1 $ 1 m2 $.x 1 => {"error": "new objects"}
EXISTS m1 => 0
'''


@suite.case('paths, replies and errors in all their forms')
def _(run):
    steps = []
    for line in TALK.strip().split('\n'):
        command, want = line.rsplit(' => ', 1)
        words = command.split(' ') if '"' not in command or command.split(' ', 3)[-1][0] in '{[' else shlex.split(command)
        want = json.loads(want)
        steps.append(('TALK', words, 'error', want['error']) if isinstance(want, dict) else ('TALK', words, 'exact', want))
    play(steps)


# in RESP3, as bytes on the wire: what typed clients of RedisJSON 2.6 expect
TYPED = [
    (['JSON.SET', 't', '$', '{"a":{"n":1},"b":{"n":2.5},"c":{"n":"x"},"l":[1.5,true,null,{}]}'], b'+OK'),
    (['JSON.NUMINCRBY', 't', '$.a.n', '3'], b'*1 :4'),
    (['JSON.NUMINCRBY', 't', '$..n', '0.5'], b'*3 ,4.5 ,3 _'),
    (['JSON.NUMINCRBY', 't', '$.nope', '1'], b'*0'),
    (['JSON.NUMINCRBY', 't', '.a.n', '1'], b'*1 ,5.5'),
    (['JSON.NUMINCRBY', 't', '.c.n', '1'], b'*1 _'),
    (['JSON.NUMINCRBY', 't', '.nope', '1'], b'*0'),
    (['JSON.NUMMULTBY', 't', '$.b.n', '2'], b'*1 ,6'),
    (['JSON.NUMMULTBY', 't', '$..n', '2'], b'*3 ,11 ,12 _'),
    (['JSON.TYPE', 't'], b'*1 $6 object'),
    (['JSON.TYPE', 't', '.l'], b'*1 $5 array'),
    (['JSON.TYPE', 't', '$.l'], b'*1 *1 $5 array'),
    (['JSON.TYPE', 't', '$..n'], b'*1 *3 $6 number $6 number $6 string'),
    (['JSON.TYPE', 't', '$.nope'], b'*1 *0'),
    (['JSON.TYPE', 't', '.nope'], b'*1 _'),
    (['JSON.TYPE', 'none', '$.a'], b'*1 _'),
    (['JSON.TYPE', 'none'], b'*1 _'),
    (['JSON.RESP', 't', '$.l'], b'*1 *5 +[ ,1.5 +true _ *1 +{'),
    (['JSON.GET', 't', '$.l'], b'$20 [[1.5,true,null,{}]]'),
    (['JSON.GET', 'none', '$'], b'_'),
    (['JSON.MGET', 't', 'none', '$.a'], b'*2 $12 [{"n":11.0}] _'),
    (['JSON.TOGGLE', 't', '$.l[1]'], b'*1 :0'),
    (['JSON.ARRPOP', 't', '$..l'], b'*1 $2 {}'),
    (['JSON.ARRPOP', 't', '$..n'], b'*3 _ _ _'),
    (['JSON.ARRLEN', 't', '$..n'], b'*3 _ _ _'),
    (['JSON.OBJKEYS', 't', '$.*'], b'*4 *1 $1 n *1 $1 n *1 $1 n _'),
    (['JSON.STRLEN', 't', '$..n'], b'*3 _ _ :1'),
    (['JSON.STRAPPEND', 't', '$..n', '"y"'], b'*3 _ _ :2'),
    (['JSON.DEBUG', 'MEMORY', 'none', '$'], b'*0'),
    (['JSON.SET', 't', '$.l', '1', 'NX'], b'_'),
    (['EVAL', "redis.setresp(3) return redis.call('JSON.NUMINCRBY', KEYS[1], '$.a.n', 1)[1].double == 12", 1, 't'], b'#t'),
]


@suite.case('in RESP3 NUMINCRBY, NUMMULTBY and RESP reply numbers, and TYPE is nested one level deeper')
def _(run):
    def flat(reply):
        kind, payload = reply
        if isinstance(payload, list):
            return b' '.join([kind.encode() + b'%d' % len(payload)] + [flat(item) for item in payload])
        return kind.encode() + (b'%d ' % len(payload) if kind == '$' else b'') + payload

    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        key = cluster.key_on(1)
        for address in (cluster.backends[1].addresses[0], cluster.proxies[0].address):
            with Connection(address, proto=3) as client:
                for words, want in TYPED:
                    words = [key if word == 't' else word for word in words]
                    check_equal(flat(client.call(*words)), want, ' '.join(map(str, words)))


@suite.case('deep, huge and damaged documents have a defined result')
def _(run):
    with serve() as cluster:
        client = connect(cluster)
        check(isinstance(client.get('JSON.SET', 'k', '$', '[' * 129 + ']' * 129), ReplyError), 'too deep')
        check_equal(client.get('JSON.SET', 'k', '$', '[' * 128 + ']' * 128), b'OK', 'deep')
        check(isinstance(client.get('JSON.SET', 'k', '$' + '[0]' * 127, 'x'), ReplyError), 'no JSON')
        check(isinstance(client.get('JSON.ARRAPPEND', 'k', '$' + '[0]' * 127, '[[[]]]'), ReplyError), 'too deep by an append')
        check(isinstance(client.get('JSON.SET', 'k', '$' + '[0]' * 127, '[[]]'), ReplyError), 'too deep by a value put in a place')
        check_equal(client.get('JSON.GET', 'k'), b'[' * 128 + b']' * 128, 'and nothing changed')
        check_equal(client.get('JSON.SET', 'k', '$' + '[0]' * 126, '[[]]'), b'OK', 'as deep as before')
        for text in (b'"\xff"', b'{"a":1', b'[1,]', b'', b'nul', b'{"a" 1}', b'"\x01"', b'\xef\xbb\xbf1', b'[1] 2', b'01', b'"\\ud800"'):
            check(isinstance(client.get('JSON.SET', 'bad', '$', text), ReplyError), 'refused: %r' % text)
        client.get('JSON.SET', 'odd', '$', '{"a":1}')
        for path in (b'$.\xff', b'$["a\x00b"]', b"$[?(@.a=='\xff')]", b'\x00', b''):
            check(isinstance(client.get('JSON.SET', 'odd', path, '1'), ReplyError), 'no path: %r' % path)
        check_equal(client.get('JSON.GET', 'odd'), b'{"a":1}', 'and nothing changed')
        for command in (['CLEAR'], ['ARRPOP'], ['ARRTRIM', 1, 0], ['SET', '[5]'], ['MERGE', '{"a":2}'], ['DEL'], ['TOGGLE'],
                        ['NUMINCRBY', 1], ['ARRINSERT', 0, '[1]'], ['ARRAPPEND', '{}'], ['STRAPPEND', '"x"']):
            for path in ('$..*', '$..a', '$..[0,0,-1]'):
                client.get('JSON.SET', 'odd', '$', '{"a":[[1],[true,{"a":[1,"x"]}]],"b":{"a":{"a":null}}}')
                check(not isinstance(client.get('JSON.' + command[0], 'odd', path, *command[1:]), ReplyError), '%s %s' % (command, path))
                json.loads(client.get('JSON.GET', 'odd'))
        big = json.dumps([{'i': i, 'text': 'x' * 20} for i in range(50000)])
        check_equal(client.get('JSON.SET', 'big', '$', big), b'OK', 'big')
        check_equal(client.get('JSON.ARRLEN', 'big', '$'), [50000], 'its length')
        check_equal(client.get('JSON.DEL', 'big', '$..i'), 50000, 'members deleted')
        check_equal(client.get('JSON.DEL', 'big', '$[10000:]'), 40000, 'elements deleted')
        check(isinstance(client.get('JSON.GET', 'big', '$' + '..*' * 6), (bytes, ReplyError)), 'bounded')
        check(isinstance(client.get('JSON.GET', 'big', '$..[*]..[*]..[*]' * 8), (bytes, ReplyError)), 'bounded')
        check(isinstance(client.get('JSON.GET', 'big', '$[?(' + '(' * 100 + '@.a' + ')' * 100 + ')]'), ReplyError), 'a filter too deep')
        check(isinstance(client.get('JSON.GET', 'big', '$' + '.a' * 200), ReplyError), 'a path too long')


class Model:
    """A document in Python that gets the same changes. Paths are lists of names and indexes."""

    def __init__(self, rng):
        self.rng, self.root = rng, {'n': 1, 'a': [1, 2], 'o': {'x': 'text'}}

    def value(self, depth=0):
        dice = self.rng.random()
        if depth < 2 and dice < 0.25:
            return {self.name(): self.value(depth + 1) for _ in range(self.rng.randint(0, 3))}
        if depth < 2 and dice < 0.5:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return self.rng.choice([0, 1, -7, 2 ** 53, 1.5, -0.25, 'é"\\', '', 'text', True, False, None, 10 ** 15])

    def name(self):
        return self.rng.choice(['n', 'a', 'o', 'x', 'y', 'long name', "it's", 'A-1', 'é'])

    def path(self):
        """A random path to an existing value."""
        steps, at = [], self.root
        while isinstance(at, (dict, list)) and at and (not steps or self.rng.random() < 0.7):
            step = self.rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            steps.append(step)
            at = at[step]
        return steps

    def look(self, steps):
        at = self.root
        for step in steps:
            at = at[step]
        return at

    def text(self, steps):
        words = '$'
        for step in steps:
            words += '[%d]' % step if isinstance(step, int) else "['%s']" % step.replace("'", "\\'")
        return words

    def change(self):
        """A random change: a command, and the reply it must get."""
        steps = self.path()
        if not steps:
            self.root = {'n': 1, 'a': [1, 2], 'o': {'x': 'text'}}
            return ['JSON.SET', 'k', '$', json.dumps(self.root)], b'OK'
        parent, last, old, path = self.look(steps[:-1]), steps[-1], self.look(steps), self.text(steps)
        kind = self.rng.choice(['set', 'num', 'append', 'pop', 'del', 'str', 'toggle', 'len', 'insert', 'trim'])
        if kind == 'num':
            good = isinstance(old, (int, float)) and not isinstance(old, bool)
            if good:
                parent[last] = old + 3
            return ['JSON.NUMINCRBY', 'k', path, '3'], json.dumps([parent[last] if good else None]).encode()
        if kind == 'append':
            value = self.value()
            if isinstance(old, list):
                old.append(value)
            return ['JSON.ARRAPPEND', 'k', path, json.dumps(value)], [len(old) if isinstance(old, list) else None]
        if kind == 'insert':
            value, at = self.value(), self.rng.randint(-3, 3)
            good = isinstance(old, list) and -len(old) <= at <= len(old)
            if good:
                old.insert(at if at >= 0 else at + len(old), value)
            return ['JSON.ARRINSERT', 'k', path, at, json.dumps(value)], [len(old) if good else None]
        if kind == 'trim':
            start, stop = self.rng.randint(0, 2), self.rng.randint(0, 3)
            if isinstance(old, list):
                old[:] = old[start:stop + 1]
            return ['JSON.ARRTRIM', 'k', path, start, stop], [len(old) if isinstance(old, list) else None]
        if kind == 'pop':
            good = isinstance(old, list) and len(old) > 0
            answer = old.pop() if good else None
            return ['JSON.ARRPOP', 'k', path], [json.dumps(answer, ensure_ascii=False, separators=(',', ':')).encode() if good else None]
        if kind == 'del':
            del parent[last]
            return ['JSON.DEL', 'k', path], 1
        if kind == 'str':
            if isinstance(old, str):
                parent[last] = old + 'é+'
            return ['JSON.STRAPPEND', 'k', path, '"é+"'], [len(parent[last].encode()) if isinstance(old, str) else None]
        if kind == 'toggle':
            if isinstance(old, bool):
                parent[last] = not old
            return ['JSON.TOGGLE', 'k', path], [int(parent[last]) if isinstance(old, bool) else None]
        if kind == 'len':
            return ['JSON.OBJLEN', 'k', path], [len(old) if isinstance(old, dict) else None]
        value = self.value()
        if self.rng.random() < 0.3 and isinstance(old, dict):
            name = self.name()
            path, parent, last = path + "['%s']" % name.replace("'", "\\'"), old, name
        parent[last] = value
        return ['JSON.SET', 'k', path, json.dumps(value)], b'OK'


@suite.case('random changes: replies and the document are those of the model')
def _(run):
    rng = random.Random(run.seed)
    with serve() as cluster:
        client = connect(cluster)
        for _ in range(40):
            model = Model(rng)
            client.get('JSON.SET', 'k', '$', json.dumps(model.root))
            for _ in range(60):
                before = json.dumps(model.root)
                words, want = model.change()
                got = client.get(*words)
                if isinstance(want, bytes) and want.startswith(b'['):
                    got, want = json.loads(got), json.loads(want)
                check_equal(got, want, '%r on %s' % (words, before))
                check_equal(json.loads(client.get('JSON.GET', 'k')), model.root, 'after %r on %s' % (words, before))


if __name__ == '__main__':
    suite.main()
