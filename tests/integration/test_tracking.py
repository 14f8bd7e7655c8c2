#!/usr/bin/python3
"""CLIENT TRACKING: every connection gets the frames it gets from redis-server, and no copy in a client stays wrong."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Cluster
from duel import Duel
from harness import Suite, check, check_equal, wait_for
from resp import Connection, value

suite = Suite(__doc__)

SCRIPTS = {
    'what was read is told of once': '''
a: HELLO 3
a: CLIENT TRACKING ON
a: GET k
w: SET k v
w: SET k v
a: MGET k l m
a: HGET h f
a: STRLEN k
w: MSET k 1 l 2 n 3
w: HSET h f v
w: HSET h f v
a: GET k
w: DEL k
w: DEL k
a: GET k
a: SET k own
a: GET k
a: GET k
a: INCR n
w: INCR n
a: EXISTS n k
w: EXPIRE n 100
w: PERSIST k
w: RENAME n k
a: GET k
a: GET n
w: COPY k n
w: SELECT 1
a: GET k
w: SET k v
a: TYPE k
a: TTL k
w: APPEND k x
a: MULTI
a: GET k
a: SET k mine
a: GET k
a: SET k mine
a: EXEC
w: SET k v
a: GET k
w: FLUSHALL
w: SET k v
a: GET k
w: FLUSHDB
a: GET k
a: FLUSHALL
a: FLUSHDB
a: CLIENT TRACKING OFF
a: GET k
w: SET k v
a: GET nosuch extra
a: CLIENT TRACKING ON
a: LPUSH k x
a: HGET k f
w: SET k v
a: GET k
a: RESET
w: SET k v
a: GET k
''',
    'a redirection: RESP2 subscribers and RESP3': '''
b: SUBSCRIBE __redis__:invalidate
a: CLIENT TRACKING ON REDIRECT {id:b}
a: CLIENT GETREDIR
a: CLIENT TRACKINGINFO
a: GET k
w: SET k v
a: GET k
w: FLUSHALL
a: GET k
a: SET k v
a: HELLO 3
a: GET k
w: FLUSHALL
a: GET k
b: UNSUBSCRIBE
w: SET k v
a: GET k
b: HELLO 3
w: SET k v
a: GET k
b: SET k v
a: GET k
w: FLUSHALL
a: HELLO 2
a: GET k
w: FLUSHALL
a: GET k
b: QUIT
a: CLIENT TRACKINGINFO
w: SET k v
a: CLIENT TRACKINGINFO
a: HELLO 3
a: GET k
w: SET k v
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING OFF
a: CLIENT TRACKINGINFO
a: CLIENT GETREDIR
''',
    'OPTIN and OPTOUT': '''
a: HELLO 3
a: CLIENT TRACKING ON OPTIN
a: GET k
w: SET k v
a: CLIENT CACHING YES
a: CLIENT TRACKINGINFO
a: GET k
a: CLIENT TRACKINGINFO
w: SET k v
a: CLIENT CACHING YES | GET k | GET l
w: MSET k v l v
a: CLIENT CACHING YES | MULTI | GET k | GET l | EXEC | GET m
w: MSET k v l v m v
a: CLIENT CACHING NO
a: CLIENT TRACKING ON OPTOUT
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON OPTOUT
a: CLIENT CACHING YES
a: CLIENT CACHING NO | GET k
w: SET k v
a: GET k
w: SET k v
a: CLIENT CACHING NO
a: CLIENT TRACKINGINFO
a: CLIENT CACHING maybe
''',
    'NOLOOP': '''
a: HELLO 3
a: CLIENT TRACKING ON NOLOOP
a: GET k
a: SET k v
w: SET k v
a: GET k
w: SET k v
a: FLUSHALL
a: CLIENT TRACKING OFF
a: CLIENT TRACKING ON BCAST NOLOOP
a: SET k v
w: SET k v
w: SET k v | SET l v
a: CLIENT TRACKINGINFO
''',
    'BCAST: prefixes, one message a turn': '''
a: HELLO 3
a: CLIENT TRACKING ON BCAST PREFIX b PREFIX a
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON BCAST PREFIX c
a: CLIENT TRACKING ON BCAST PREFIX ab
a: CLIENT TRACKING ON BCAST PREFIX d PREFIX dd
a: CLIENT TRACKING ON BCAST PREFIX
a: CLIENT TRACKINGINFO
b: HELLO 3
b: CLIENT TRACKING ON BCAST
w: MSET b 1 a2 1 a1 1 z 1
a: MSET b 1 a2 1 a1 1 z 1
a: GET z
w: MULTI
w: SET a1 x
w: SET c1 x
w: DEL a1
w: EXEC
w: SET a x | SET b x | SET a x
w: FLUSHALL
b: CLIENT TRACKING OFF
b: CLIENT TRACKING ON
b: GET a1
w: SET a1 x
a: CLIENT TRACKING OFF
w: SET a1 x
''',
    'BCAST with a redirection': '''
b: SUBSCRIBE __redis__:invalidate other
a: CLIENT TRACKING ON BCAST PREFIX k REDIRECT {id:b}
w: SET k v
w: MSET k2 v k1 v z v
w: PUBLISH __redis__:invalidate hi
w: FLUSHALL
''',
    'what is wrong with the arguments': '''
a: CLIENT TRACKING
a: CLIENT TRACKING MAYBE
a: CLIENT TRACKING ON NOSUCH
a: CLIENT TRACKING ON REDIRECT
a: CLIENT TRACKING ON REDIRECT x
a: CLIENT TRACKING ON REDIRECT 99999
a: CLIENT TRACKING ON REDIRECT 0
a: CLIENT TRACKING ON REDIRECT {id:b} REDIRECT {id:b}
a: CLIENT TRACKING ON PREFIX x
a: CLIENT TRACKING ON BCAST OPTIN
a: CLIENT TRACKING ON BCAST OPTOUT
a: CLIENT TRACKING ON OPTIN OPTOUT
a: CLIENT TRACKING ON BCAST PREFIX a PREFIX a
a: CLIENT TRACKING OFF NOSUCH
a: CLIENT TRACKING OFF
a: CLIENT CACHING
a: CLIENT CACHING YES
a: CLIENT GETREDIR
a: CLIENT TRACKINGINFO
a: CLIENT TRACKING ON
a: CLIENT CACHING YES
a: CLIENT CACHING NO
a: CLIENT CACHING x
a: CLIENT TRACKING ON BCAST
a: CLIENT TRACKING ON OPTIN
a: CLIENT TRACKING ON OPTOUT
a: CLIENT TRACKING ON BCAST OPTIN
''',
}


def add_script(title, text):
    @suite.case(title)
    def _(run):
        with Duel() as duel:
            duel.script(text)


for title, text in SCRIPTS.items():
    add_script(title, text)


if __name__ == '__main__':
    suite.main()
