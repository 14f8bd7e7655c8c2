"""behaviours_lists: lists, and blocking commands that need not block. (title, script[, only these targets])"""

CASES = [
    ('XREADGROUP that names a stream several times with > gives each naming the next COUNT entries', '''
        XGROUP CREATE x g 0 MKSTREAM
        XADD x 1-0 f v
        XADD x 2-0 f v
        XADD x 3-0 f v
        XADD x 4-0 f v
        XADD x 5-0 f v
        XADD {x}y 1-0 f v
        XGROUP CREATE {x}y g 0
        XREADGROUP GROUP g c COUNT 2 STREAMS x x > >
        XREADGROUP GROUP g c COUNT 1 STREAMS x {x}y x x 0 > > >
        XPENDING x g
        XADD x 6-0 f v
        XREADGROUP GROUP g c STREAMS x x > >
        XADD x 7-0 f v
        XADD x 8-0 f v
        XREADGROUP GROUP g d NOACK COUNT 1 STREAMS x x x > > >
        XREADGROUP GROUP g d COUNT 9223372036854775807 STREAMS x x > >
        XADD x 9-0 f v
        XADD x 10-0 f v
        XREADGROUP GROUP g d COUNT 9223372036854775807 STREAMS x x > >
        XINFO GROUPS x
        XPENDING x g'''),
    ('2 replies for missing lists', '''
        LPOP no
        LPOP no 0
        LPOP no 2
        LPOP no x
        RPOP no -1
        LLEN no
        LRANGE no 0 -1
        LINDEX no 0
        LINDEX no x
        LSET no 0 x
        LSET no x y
        LTRIM no 0 1
        LREM no 0 x
        LINSERT no BEFORE a b
        LPUSHX no a b
        RPUSHX no a
        LPOS no a
        LPOS no a COUNT 0
        RPOPLPUSH no no
        LMOVE no no LEFT RIGHT
        LMPOP 2 no no LEFT
        LMPOP 1 no RIGHT COUNT 3
        EXISTS no'''),
    ('1 WRONGTYPE: which check comes first', '''
        SET s text
        RPUSH l a
        LPUSH s a
        RPUSHX s a
        LPOP s
        LPOP s x
        LPOP s 1 2
        RPOP s 0
        LLEN s
        LRANGE s x 1
        LRANGE s 0 1
        LINDEX s x
        LSET s x y
        LTRIM s x 1
        LTRIM s 0 1
        LREM s x a
        LINSERT s UP a b
        LINSERT s BEFORE a b
        LPOS s a RANK 0
        LPOS s a
        RPOPLPUSH s l
        RPOPLPUSH l s
        RPOPLPUSH no s
        LMOVE l s LEFT LEFT
        LMOVE l s LEFT UP
        LMPOP 2 no s LEFT
        LMPOP 2 l s LEFT
        LMPOP 2 s l LEFT
        BLPOP s 0
        BLPOP s x
        BLPOP no s 0
        BLMPOP 0 1 s LEFT
        BLMPOP x 1 s LEFT
        SET l text
        LRANGE l 0 -1''', ['direct']),
    ('9 removing the last element deletes the key and its TTL', '''
        RPUSH l a b c
        EXPIRE l 1000
        LPOP l 3
        EXISTS l
        RPUSH l a
        TTL l
        EXPIRE l 1000
        RPOPLPUSH l l
        !ttl TTL l
        LREM l 0 a
        EXISTS l
        RPUSH l a a a
        LREM l 0 a
        TYPE l
        RPUSH l a b
        LTRIM l 5 1
        EXISTS l
        RPUSH l a b
        LTRIM l -1 -2
        EXISTS l
        RPUSH l a b
        LMPOP 1 l LEFT COUNT 10
        EXISTS l
        RPUSH l a
        LMOVE l m LEFT LEFT
        EXISTS l
        RENAME m l
        LPUSHX l z
        LRANGE l 0 -1''', ['direct']),
    ('11 LRANGE and LTRIM with any indexes', '''
        RPUSH l a b c d e
        LRANGE l 0 -1
        LRANGE l -100 100
        LRANGE l 1 -2
        LRANGE l 3 1
        LRANGE l -1 -3
        LRANGE l 5 5
        LRANGE l 4 4
        LRANGE l -9223372036854775808 9223372036854775807
        LRANGE l 0 x
        LRANGE l 0 1.5
        LTRIM l -3 100
        LRANGE l 0 -1
        LTRIM l 1 1
        LRANGE l 0 -1
        LTRIM l 0 -9223372036854775808
        EXISTS l'''),
    ('18 LPOS with all its options', '''
        RPUSH l a b c 1 2 3 c c
        LPOS l c
        LPOS l c RANK 2
        LPOS l c RANK -1
        LPOS l c RANK 4
        LPOS l c COUNT 0
        LPOS l c COUNT 2 RANK -1
        LPOS l c RANK 2 COUNT 5
        LPOS l c COUNT 0 MAXLEN 3
        LPOS l c MAXLEN 2
        LPOS l c RANK -1 MAXLEN 1
        LPOS l zz COUNT 3
        LPOS l c RANK 0
        LPOS l c RANK -9223372036854775808
        LPOS l c RANK 9223372036854775807
        LPOS l c COUNT 9223372036854775807
        LPOS l c COUNT -1
        LPOS l c COUNT x
        LPOS l c MAXLEN -1
        LPOS l c RANK x
        LPOS l c RANK
        LPOS l c NOPE 1
        LPOS l c RANK 1 RANK 2'''),
    ('18 LINSERT, LSET and LREM in the middle, at the ends, and nowhere', '''
        RPUSH l a b c
        LINSERT l BEFORE a 0
        LINSERT l AFTER c z
        LINSERT l before b ab
        LINSERT l AFTER b bc
        LINSERT l AFTER zz x
        LINSERT l NEXT a x
        LRANGE l 0 -1
        LSET l 0 first
        LSET l -1 last
        LSET l 7 x
        LSET l -8 x
        LSET l x y
        LINDEX l -1
        LINDEX l 6
        LINDEX l 7
        LINDEX l -9223372036854775808
        LRANGE l 0 -1
        DEL l
        RPUSH l a x a x a x a y
        LREM l 2 a
        LRANGE l 0 -1
        LREM l -1 x
        LRANGE l 0 -1
        LREM l 0 nothing
        LREM l -9223372036854775808 a
        LRANGE l 0 -1
        LPUSH l "" ""
        LREM l 1 ""
        LRANGE l 0 -1'''),
    ('18 LMPOP: invalid arguments', '''
        RPUSH l a b c
        LMPOP 0 l LEFT
        LMPOP -1 l LEFT
        LMPOP x l LEFT
        LMPOP 2 l LEFT
        LMPOP 3 l LEFT
        LMPOP 9223372036854775807 l LEFT
        LMPOP 1 l UP
        LMPOP 1 l LEFT COUNT
        LMPOP 1 l LEFT COUNT 0
        LMPOP 1 l LEFT COUNT x
        LMPOP 1 l LEFT COUNT 1 COUNT 1
        LMPOP 1 l LEFT NOPE 1
        LMPOP 1 l right count 2
        LMPOP 2 l l LEFT
        LRANGE l 0 -1''', ['direct']),
    ('25 blocking commands with elements in a list', '''
        RPUSH l a b c d e
        RPUSH m 1 2 3
        BLPOP l m 0
        BRPOP no m l 0
        BLMOVE l m LEFT RIGHT 0
        BRPOPLPUSH m l 0
        BLMPOP 0 2 no l LEFT COUNT 2
        BLMPOP 0 2 no l LEFT COUNT 20
        BLMOVE m m LEFT RIGHT 0
        BLMOVE m m LEFT LEFT 0
        BLPOP m m 0
        LRANGE l 0 -1
        LRANGE m 0 -1''', ['direct']),
    ('26 timeouts: seconds as floats, and invalid timeouts', '''
        BLPOP no 0.001
        BLPOP no no2 0x0.01p0
        BLPOP no 1e-9
        BRPOP no 0.0000001
        BLMOVE no no LEFT LEFT 0.001
        BRPOPLPUSH no no 0.001
        BLMPOP 0.001 1 no LEFT COUNT 5
        BLPOP no -1
        BLPOP no -0.0015
        BLPOP no x
        BLPOP no ""
        BLPOP no nan
        BLPOP no inf
        BLPOP no -inf
        BLPOP no 1e30
        BLPOP no 9223372036854775807
        BLPOP no 1e5000
        BLMOVE no no LEFT UP x
        BLMOVE no no LEFT LEFT x
        BLMPOP x 0 no LEFT
        BLMPOP x 1 no UP
        BLMPOP x 1 no LEFT COUNT 0
        BLMPOP x 1 no LEFT
        RPUSH l a b
        BLPOP l -0.0001
        BLPOP l 9223372036854775''', ['direct']),
    ('25 inside MULTI no command blocks', '''
        MULTI
        BLPOP l 0
        BRPOP l 0
        BLMOVE l l LEFT RIGHT 0
        BRPOPLPUSH l l 0
        BLMPOP 0 1 l LEFT
        RPUSH l a b
        BLPOP l 0
        BLPOP l x
        BLMPOP 0 1 l RIGHT COUNT 5
        EXEC
        EXISTS l'''),
    ('7 WATCH sees every change of a list', '''
        RPUSH l a b
        WATCH l
        2: LSET l 0 a
        MULTI
        EXEC
        WATCH l
        2: RPOPLPUSH l l
        MULTI
        EXEC
        WATCH l
        2: LREM l 0 nothing
        2: LINSERT l BEFORE nothing x
        2: LPUSHX other x
        2: LPOP l 0
        MULTI
        PING
        EXEC
        WATCH l
        2: LTRIM l 0 -1
        MULTI
        EXEC'''),
    ('a list of many and of big elements goes through DUMP and RESTORE, COPY and RENAME', '''
        RPUSH l <x*9000> 1 -7 "" <ab*5000> 123456789012
        LPUSH l <0..9*300> "\\x00\\r\\n"
        COPY l m
        RENAME m n
        LRANGE n 0 -1
        OBJECT ENCODING n
        RESTORE o 0 "\\x01\\x02\\x01a\\x01b\\x0a\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        LRANGE o 0 -1''', ['direct']),
]
