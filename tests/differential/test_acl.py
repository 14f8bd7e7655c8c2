#!/usr/bin/python3
"""ACL: users, their rights, and the log of refusals; the same requests to redis-server and to Scree.

Lists of rules are compared as sets of words: Redis 7.0 lists single commands in the order of a hash table, Scree lists rules in the
order given, as Redis since 7.2. The fields
VOLATILE of a client's description are not compared.
"""

import os
import re
import tempfile

from support import transcript
from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, ReplyError, value

VOLATILE = (rb'(id|addr|laddr|fd|age|idle|flags|qbuf|qbuf-free|argv-mem|multi|multi-mem|rbs|rbp|obl|oll|omem|tot-mem|'
            rb'lib-name|lib-ver)=\S*')

SCRIPT = transcript.parse("""
1: acl list
1: acl setuser bob
1: acl list
1: acl getuser bob
1: acl getuser default
1: acl getuser nobody
1: acl setuser bob on >pw ~a* %R~r:* &ch* +@all -@dangerous "(~x* +get)" "(+@hash %W~w)"
1: acl getuser bob
1: acl list
1: acl setuser bob +foo
1: acl setuser bob +@foo
1: acl setuser bob ~* ~b
1: acl setuser bob foo
1: acl setuser bob <nopw
1: acl setuser bob #abc
1: acl setuser bob +config|nosub
1: acl setuser bob +config|get|x
1: acl setuser bob %X~a
1: acl setuser bob "(~a"
1: acl setuser bob "(foo)"
1: acl setuser bob "(~a" "+get" "+set)" 
1: acl getuser bob
1: acl setuser bob "(~a" "+get" "+set" 
1: acl setuser bob "" 
1: acl cat
1: acl cat foo
1: acl cat a b
1: acl dryrun bob set a 1
1: acl dryrun bob get zz
1: acl dryrun nobody get a
1: acl dryrun bob foo
1: acl dryrun bob get
1: acl dryrun bob publish zz 1
1: acl dryrun bob config get x
1: acl genpass 0
1: acl genpass x
1: acl genpass 1 2
1: acl deluser default
1: acl deluser a b
1: acl whoami
1: acl load
1: acl save
1: acl log 1 2
1: acl log x
1: acl setuser "a b" on
1: acl users
1: acl setuser bob reset on >pw ~a* &ch* +@read +multi +exec +config|get +publish +select|0
2: auth bob pw
2: set a 1
2: get b
2: get a
2: config set acllog-max-len 20
2: config get acllog-max-len
2: config
2: select 0
2: select 1
2: multi
2: set a 1
2: exec
2: mget a1 a2 b
2: acl whoami
2: auth bob bad
2: auth nobody bad
2: auth bad
2: hello 3 auth bob bad
2: multi
2: get a
1: acl setuser bob -@read
2: exec
1: acl setuser bob +@read
2: multi
2: get a
1: acl setuser bob resetkeys ~b*
2: exec
1: acl log 100
1: acl log 1
1: acl log reset
1: acl log
1: acl setuser bob off
3: auth bob pw
2: get b1
1: acl deluser bob
2: get b1
1: acl setuser t reset
1: acl setuser t +@all -@write
1: acl list
1: acl setuser t reset -@all +@read +@write
1: acl list
1: acl setuser t reset +@read +set
1: acl list
1: acl setuser t reset +@all -get -set
1: acl list
1: acl setuser t reset +config -config|set
1: acl list
1: acl setuser t reset +@all -config|set
1: acl list
1: acl setuser t reset +@string +@hash -get
1: acl list
1: acl setuser t reset +select|0 +select|1
1: acl list
1: acl setuser t reset +select|0 +select
1: acl list
1: acl setuser t reset allkeys allchannels nopass
1: acl list
1: acl getuser t
1: acl setuser t skip-sanitize-payload on +@all -@admin
1: acl list
1: acl getuser t
1: acl setuser t clearselectors resetpass ~a %R~b %W~b %RW~c
1: acl list
1: acl setuser t reset %R~a %R~b %W~c on nopass +@all
4: auth t x
4: get a
4: set a 1
4: set c 1
4: get c
4: getset c 1
4: copy a c
4: copy c a
4: object encoding a
4: exists c
4: del a
4: expire c 10
4: ttl c
4: setrange c 0 x
4: append c x
4: set c 1 get
1: acl setuser u on nopass +@all "(~x +set)" "(~y +get)" 
5: auth u ""
5: set x 1
5: get x
5: get y
5: ping
1: config set requirepass foo
6: get a
6: acl whoami
6: hello 2
6: auth default foo
6: acl whoami
6: acl list
6: config set requirepass ""
7: ping
6: acl log reset
6: acl setuser bob reset on >pw ~a* &ch* +@read +multi +exec +eval +config|get
8: auth bob pw
8: eval "return redis.call('set','a','1')" 0
8: eval "return redis.call('get','zz')" 0
8: eval "return redis.call('get','a')" 0
8: eval "return redis.call('publish','zz','a')" 0
8: eval "return redis.pcall('set','a','1')" 0
8: eval "return redis.acl_check_cmd('set','a','1')" 0
8: eval "return redis.acl_check_cmd('get','a')" 0
8: eval "return redis.acl_check_cmd('get','zz')" 0
8: eval "return redis.acl_check_cmd('nosuch','zz')" 0
8: eval "return redis.acl_check_cmd()" 0
8: eval "return redis.acl_check_cmd('publish','zz','1')" 0
8: multi
8: eval "return redis.call('get','zz')" 0
8: exec
6: acl log
6: acl log reset
6: acl setuser bob +publish +sort ~x*
6: rpush alist 3 1 2
6: mset a3 x
8: sort alist
8: sort alist by a* get a*
8: sort alist get #
8: sort alist by nosort
8: sort alist by
6: acl setuser bob %R~*
8: sort alist by a* get a*
8: multi
8: sort alist by a*
6: acl setuser bob resetkeys ~a*
8: exec
8: AUTH bob bad
6: acl log
8: eval "return redis.call('publish','zz','a')" 0
8: publish zz 1
8: subscribe zz
8: psubscribe ch*
6: acl setuser ear reset on nopass +@all ~* &ch* &x
9: auth ear ""
9: subscribe chan
6: acl setuser ear &y
9: ping
6: acl setuser ear resetchannels &chan
9: ping
6: acl setuser ear resetchannels &c*
9: ping
9: psubscribe c*
9: psubscribe ch*
6: acl setuser ear off
9: ping
6: acl setuser ear resetchannels &*ha*
9: ping
6: acl setuser ear on allchannels
10: auth ear ""
10: ssubscribe c
6: acl setuser ear resetchannels &d
10: ping
11: auth ear ""
11: subscribe d
6: acl deluser ear
11: ping
6: acl setuser "" on nopass +ping
12: auth "" x
12: ping
12: acl whoami
12: get a
6: acl setuser empty on nopass
13: auth empty x
13: reset
13: get a
6: acl setuser default -get
13: get a
13: reset
13: get a
6: acl setuser default +get
6: acl log
""")

AGE = b'age-seconds'
suite = Suite(__doc__)


def comparable(reply):
    if isinstance(reply, dict):
        return {'map': comparable([[name, None if name == AGE else text] for name, text in reply.items()])}
    if isinstance(reply, list):
        return sorted((comparable(None if before == AGE else item) for before, item in zip([None] + reply, reply)), key=repr)
    if isinstance(reply, bytes) and (b'cmd=' in reply or b'@' in reply or b'resetchannels' in reply):
        return sorted(re.sub(VOLATILE, b'', reply).split())
    return repr(reply)


def equal(ours, theirs):
    return comparable(value(ours)) == comparable(value(theirs))


def backend(**options):
    return Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': options})


def compare(cluster_of, address_of):
    for proto in (2, 3):
        with Oracle() as oracle, cluster_of() as cluster:
            transcript.compare(SCRIPT, oracle.address, address_of(cluster), proto, equal)


@suite.case('users, rules, refusals and their log are as in redis-server')
def _(run):
    compare(backend, lambda cluster: cluster.backends[0].addresses[0])


@suite.case('users, rules, refusals and their log are as in redis-server through the proxy, which has users of its own')
def _(run):
    compare(lambda: Cluster(backends=1, partitions=1, proxies=1), lambda cluster: cluster.proxies[0].address)


@suite.case('users are loaded from their file and saved to it, and an invalid file changes nothing')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-acl-') as folder:
        path = os.path.join(folder, 'users.acl')
        with open(path, 'w') as file:
            file.write('# who may what\nuser default on nopass ~* &* +@all\n\nuser reader on >pw ~r:* +@read\n')
        with backend(**{'acl-file': path}) as cluster:
            admin = Connection(cluster.backends[0].addresses[0])
            reader = Connection(cluster.backends[0].addresses[0])
            check_equal(reader.get('AUTH', 'reader', 'pw'), b'OK', 'login')
            check_equal(reader.get('GET', 'r:1'), None, 'an allowed read')
            check(isinstance(reader.get('SET', 'r:1', 'x'), ReplyError), 'a write is refused')
            check_equal(admin.get('ACL', 'SETUSER', 'writer', 'on', 'nopass', '~w:*', '+set'), b'OK', 'SETUSER')
            check_equal(admin.get('ACL', 'SAVE'), b'OK', 'SAVE')
            with open(path) as file:
                text = file.read()
            check('user writer on nopass ~w:* resetchannels -@all +set\n' in text, 'the new user is in the file')
            with open(path, 'w') as file:
                file.write('user default on nopass ~* &* +@all\nuser x +nonsense\n')
            error = admin.get('ACL', 'LOAD')
            check(isinstance(error, ReplyError) and 'line 2' in str(error), 'a bad file is refused with its line: %r' % error)
            check_equal(admin.get('ACL', 'USERS'), [b'default', b'reader', b'writer'], 'nothing changed')
            with open(path, 'w') as file:
                file.write('user default on nopass ~* &* +@all\n')
            check_equal(admin.get('ACL', 'LOAD'), b'OK', 'LOAD')
            check_equal(admin.get('ACL', 'USERS'), [b'default'], 'only the file counts')
            wait_for(lambda: b'user=reader' not in admin.get('CLIENT', 'LIST'), 'the removed user to be cut off')


CATEGORIES = ('read', 'write', 'set', 'sortedset', 'list', 'hash', 'string', 'bitmap', 'hyperloglog', 'geo', 'stream', 'pubsub', 'admin',
              'fast', 'slow', 'blocking', 'dangerous', 'connection', 'transaction', 'scripting', 'keyspace')
NAMES = ('get', 'set', 'hset', 'geoadd', 'config', 'config|get', 'client|list', 'acl|cat', 'xadd', 'eval', 'subscribe', 'select')
OTHERS = ('~a*', '%R~b', '%W~c*', 'allkeys', 'resetkeys', '&ch', 'allchannels', 'resetchannels', '%RW~d', 'on', 'off', 'nopass', 'resetpass',
          '>pw', 'reset', 'clearselectors', '(+get ~x)', '(-@all +@set -@geo %R~q)', 'sanitize-payload', '+select|0', '+@all', '-@all')


def random_rule(rng):
    kind = rng.random()
    if kind < 0.8:
        return rng.choice('+-') + ('@' + rng.choice(CATEGORIES) if kind < 0.5 else rng.choice(NAMES))
    return rng.choice(OTHERS)


def rules_of(connection, user):
    """The words after the name in ACL LIST."""
    (line,) = [line for line in connection.get('ACL', 'LIST') if line.startswith(b'user %s ' % user)]
    return line.split(b' ', 2)[2]


def as_words(rules):
    """A selector is one word."""
    return re.findall(rb'\([^)]*\)|[^ ]+', rules)


@suite.case('rules about commands are listed in the order given, and redis-server makes the same user of the list as of the rules')
def _(run):
    with Oracle() as oracle, backend() as cluster:
        theirs, ours = Connection(oracle.address), cluster.partition(0)
        for rules, listed in (('-@all +@set +@hash -@geo', b'-@all +@set +@hash -@geo'), ('+@hash +@set +@hash', b'-@all +@set +@hash'),
                              ('+@all -get +config -config|set', b'+@all -get +config -config|set'),
                              ('+client|list +select|0 +client -client|id +select', b'-@all +client -client|id +select'),
                              ('+get +@all -SET', b'+@all -set'), ('+@all -@all +GET', b'-@all +get')):
            check_equal(ours.get('ACL', 'SETUSER', 'u', 'reset', *rules.split()), b'OK')
            check_equal(rules_of(ours, b'u'), b'off sanitize-payload resetchannels ' + listed, rules)
            check_equal(ours.get('ACL', 'GETUSER', 'u')[5], listed, rules)
        for _ in range(sized(300, long=20000)):
            rules = [random_rule(run.rng) for _ in range(run.rng.randrange(1, 8))]
            replies = [value(connection.call('ACL', 'SETUSER', 'u', 'reset', *rules)) for connection in (theirs, ours)]
            check_equal(str(replies[1]), str(replies[0]), rules)
            if isinstance(replies[0], ReplyError):
                continue
            listed = as_words(rules_of(ours, b'u'))
            check_equal(theirs.get('ACL', 'SETUSER', 'v', 'reset', *listed), b'OK', listed)
            check_equal(rules_of(theirs, b'v'), rules_of(theirs, b'u'), (rules, listed))


if __name__ == '__main__':
    suite.main()
