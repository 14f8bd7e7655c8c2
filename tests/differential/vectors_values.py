"""vectors_values: strings, bitmaps, hashes, sets, sorted sets and streams. (title, text[, 'alone'])"""

CASES = [
    ('ZRANK and ZREVRANK WITHSCORE', '''
        ZADD z 1 a 2.5 b inf c                  => :3
        ZRANK z a WITHSCORE                     => [:0 ,1]
        ZRANK z b withscore                     => [:1 ,2.5]
        ZRANK z c WITHSCORE                     => [:2 ,inf]
        ZREVRANK z a WITHSCORE                  => [:2 ,1]
        ZREVRANK z b WITHSCORE                  => [:1 ,2.5]
        ZRANK z none WITHSCORE                  => nil*
        ZREVRANK none a WITHSCORE               => nil*
        ZRANK z a                               => :0
        ZREVRANK z none                         => nil
        ZRANK z a WITHSCORES                    => -ERR syntax error
        ZREVRANK z a x                          => -ERR syntax error
        ZRANK z a WITHSCORE x                   => -ERR wrong number of arguments for 'zrank' command
        SET s v                                 => OK
        ZRANK s a WITHSCORE                     => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANK s a x                             => -ERR syntax error
    '''),
    ('HSCAN NOVALUES and ZSCAN NOSCORES', '''
        HSET h a 1 b 2                          => :2
        HSCAN h 0 NOVALUES                      => ["0" [a b]]
        HSCAN h 0 NOVALUES MATCH b COUNT 5      => ["0" [b]]
        HSCAN h 0 COUNT 5 novalues MATCH a*     => ["0" [a]]
        HSCAN h 0                               => ["0" [a "1" b "2"]]
        HSCAN none 0 NOVALUES                   => ["0" []]
        HSCAN h 0 NOVALUES x                    => -ERR syntax error
        HSCAN h 0 NOVALUES COUNT 0              => -ERR syntax error
        HSCAN h 0 NOSCORES                      => -ERR NOSCORES option can only be used in ZSCAN
        ZADD z 1 a 2 b                          => :2
        ZSCAN z 0 NOSCORES                      => ["0" [a b]]
        ZSCAN z 0 MATCH a NOSCORES              => ["0" [a]]
        ZSCAN z 0                               => ["0" [a "1" b "2"]]
        ZSCAN z 0 NOVALUES                      => -ERR NOVALUES option can only be used in HSCAN
        SADD s m                                => :1
        SSCAN s 0 NOVALUES                      => -ERR NOVALUES option can only be used in HSCAN
        SSCAN s 0 NOSCORES                      => -ERR NOSCORES option can only be used in ZSCAN
        HSCAN z 0 NOVALUES                      => -WRONGTYPE Operation against a key holding the wrong kind of value
    '''),
    ('SCAN has no NOVALUES and no NOSCORES', '''
        SCAN 0 NOVALUES                         => -ERR NOVALUES option can only be used in HSCAN
        SCAN 0 COUNT 5 NOSCORES                 => -ERR NOSCORES option can only be used in ZSCAN
    ''', 'alone'),
    ('XREAD with the id +', '''
        XADD x 1-1 a 1                          => "1-1"
        XADD x 1-2 b 2                          => "1-2"
        XADD y 5-0 c 3                          => "5-0"
        XREAD STREAMS x +                       => (x [["1-2" [b "2"]]])
        XREAD COUNT 9 STREAMS x +               => (x [["1-2" [b "2"]]])
        XDEL x 1-2                              => :1
        XREAD STREAMS x +                       => (x [["1-1" [a "1"]]])
        XREAD STREAMS x y + 0                   => (x [["1-1" [a "1"]]] y [["5-0" [c "3"]]])
        XREAD STREAMS none +                    => nil*
        XDEL x 1-1                              => :1
        XREAD STREAMS x +                       => nil*
        XGROUP CREATE x g 0                     => OK
        XREADGROUP GROUP g c STREAMS x +        => -ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.
        XREAD STREAMS x ++                      => -ERR Invalid stream ID specified as stream command argument
    '''),
    ('XREAD with BLOCK and the id +', '''
        XADD x 1-2 b 2                          => "1-2"
        XREAD BLOCK 1 STREAMS x +               => (x [["1-2" [b "2"]]])
        XDEL x 1-2                              => :1
        XREAD BLOCK 1 STREAMS x +               => nil*
    ''', 'alone'),
    ('BITOP DIFF, DIFF1, ANDOR and ONE', r'''
        SET x "\xf0\xff\x01"                    => OK
        SET y "\x3c\x0f"                        => OK
        SET z "\x81"                            => OK
        BITOP DIFF d x y z                      => :3
        GET d                                   => "\x40\xf0\x01"
        BITOP DIFF1 d x y z                     => :3
        GET d                                   => "\x0d\x00\x00"
        BITOP ANDOR d x y z                     => :3
        GET d                                   => "\xb0\x0f\x00"
        BITOP ONE d x y z                       => :3
        GET d                                   => "\x4d\xf0\x01"
        BITOP ONE d x x                         => :3
        GET d                                   => "\x00\x00\x00"
        BITOP ONE d x                           => :3
        GET d                                   => "\xf0\xff\x01"
        BITOP one d x y y                       => :3
        GET d                                   => "\xc0\xf0\x01"
        BITOP DIFF d none x                     => :3
        GET d                                   => "\x00\x00\x00"
        BITOP DIFF1 x x y                       => :3
        GET x                                   => "\x0c\x00\x00"
        BITOP ANDOR d none other                => :0
        EXISTS d                                => :0
        BITOP DIFF d x                          => -ERR BITOP DIFF must be called with at least two source keys.
        BITOP diff1 d x                         => -ERR BITOP DIFF1 must be called with at least two source keys.
        BITOP ANDOR d x                         => -ERR BITOP ANDOR must be called with at least two source keys.
        BITOP NOT d x y                         => -ERR BITOP NOT must be called with a single source key.
        BITOP DIFF2 d x y                       => -ERR syntax error
        BITOP ONE d                             => -ERR wrong number of arguments for 'bitop' command
        RPUSH l 1                               => :1
        BITOP DIFF d x l                        => -WRONGTYPE Operation against a key holding the wrong kind of value
        BITOP ONE l x y                         => :3
        TYPE l                                  => ?+
    '''),
    ('BITOP DIFF, DIFF1, ANDOR and ONE of sparse strings', r'''
        SETBIT x 0 1                            => :0
        SETBIT x 4000000 1                      => :0
        SETBIT x 9000000 1                      => :0
        SETBIT y 4000000 1                      => :0
        SETBIT y 20000000 1                     => :0
        SETBIT z 20000001 1                     => :0
        SETBIT z 9000000 1                      => :0
        BITOP DIFF d x y z                      => :2500001
        BITCOUNT d                              => :1
        GETBIT d 0                              => :1
        BITOP DIFF1 d x y z                     => :2500001
        BITCOUNT d                              => :2
        BITPOS d 1                              => :20000000
        BITOP ANDOR d x y z                     => :2500001
        BITCOUNT d                              => :2
        BITPOS d 1                              => :4000000
        GETBIT d 9000000                        => :1
        BITOP ONE d x y z                       => :2500001
        BITCOUNT d                              => :3
        GETBIT d 0                              => :1
        GETBIT d 20000000                       => :1
        GETBIT d 20000001                       => :1
    '''),
    ('SET with IFEQ and IFNE', '''
        SET k a                                 => OK
        (events)                                => [set:k]
        SET k b IFEQ x                          => nil
        SET k b IFNE a                          => nil
        GET k                                   => a
        (events)                                => []
        SET k b IFEQ a                          => OK
        SET k c ifne x                          => OK
        GET k                                   => c
        (events)                                => [set:k set:k]
        SET none v IFEQ v                       => nil
        EXISTS none                             => :0
        SET new v IFNE v                        => OK
        SET k d IFEQ x GET                      => c
        SET k d GET IFEQ c                      => c
        SET k e IFEQ d EX 100                   => OK
        TTL k                                   => :100
        SET k f IFEQ e KEEPTTL                  => OK
        TTL k                                   => :100
        SET k g IFEQ f                          => OK
        TTL k                                   => :-1
        SET none v IFEQ v GET                   => nil
        SET k h EXAT 9999999999 IFNE x          => OK
        EXPIRETIME k                            => :9999999999
        SET k v IFEQ                            => -ERR syntax error
        SET k v IFEQ a NX                       => -ERR syntax error
        SET k v XX IFNE a                       => -ERR syntax error
        SET k v IFEQ a IFEQ a                   => -ERR syntax error
        SET k v IFEQ a IFDNE 0000000000000000   => -ERR syntax error
        SET k v IFEQ h EX 0                     => -ERR invalid expire time in 'set' command
        GET k                                   => h
        RPUSH l x                               => :1
        SET l v IFEQ x                          => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET l v IFNE x                          => -WRONGTYPE Operation against a key holding the wrong kind of value
        GETEX k IFEQ h                          => -ERR syntax error
    '''),
    ('DIGEST, and SET with IFDEQ and IFDNE', r'''
        SET k "Hello world"                     => OK
        DIGEST k                                => "b6acb9d84a38ff74"
        DIGEST none                             => nil
        SET e ""                                => OK
        DIGEST e                                => "2d06800538d394c2"
        SET k v IFDEQ b6acb9d84a38ff75          => nil
        SET k v IFDNE b6acb9d84a38ff74          => nil
        SET k v IFDEQ B6ACB9D84A38FF74          => OK
        SET k w IFDNE b6acb9d84a38ff74 GET      => v
        SET none v IFDEQ 0000000000000000       => nil
        SET new v IFDNE 0000000000000000        => OK
        SET k v IFDEQ b6acb9d84a38ff7           => -ERR The digest must have exactly 16 hexadecimal digits, as DIGEST replies it
        SET k v IFDNE b6acb9d84a38ff7g          => -ERR The digest must have exactly 16 hexadecimal digits, as DIGEST replies it
        SET k v IFDEQ                           => -ERR syntax error
        SETRANGE z 3000 x                       => :3001
        SETRANGE z 1000000 x                    => :1000001
        DIGEST z                                => "d9b051c51553d52b"
        RPUSH l x                               => :1
        DIGEST l                                => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET l v IFDEQ 0000000000000000          => -WRONGTYPE Operation against a key holding the wrong kind of value
        DIGEST                                  => -ERR wrong number of arguments for 'digest' command
    '''),
    ('DELEX and DELIFEQ', '''
        SET k a                                 => OK
        DELEX k IFEQ b                          => :0
        DELEX k IFNE a                          => :0
        DELEX k IFDEQ 0000000000000000          => :0
        DELEX none IFEQ a                       => :0
        DELEX none IFNE a                       => :0
        (events)                                => [set:k]
        DELEX k IFEQ a                          => :1
        EXISTS k                                => :0
        (events)                                => [del:k]
        SET k "Hello world"                     => OK
        DELEX k ifdne b6acb9d84a38ff74          => :0
        DELEX k ifdeq b6acb9d84a38ff74          => :1
        RPUSH l x                               => :1
        DELEX l IFEQ x                          => -WRONGTYPE Operation against a key holding the wrong kind of value
        DELEX l                                 => :1
        DELEX l                                 => :0
        DELEX k IFEQ                            => -ERR wrong number of arguments for 'delex' command
        DELEX k IFEQ a b                        => -ERR wrong number of arguments for 'delex' command
        DELEX k NX a                            => -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX k IFDEQ a                         => -ERR The digest must have exactly 16 hexadecimal digits, as DIGEST replies it
        SET k a                                 => OK
        DELIFEQ k b                             => :0
        DELIFEQ none b                          => :0
        DELIFEQ k a                             => :1
        EXISTS k                                => :0
        SADD s a                                => :1
        DELIFEQ s a                             => -WRONGTYPE Operation against a key holding the wrong kind of value
        DELIFEQ k                               => -ERR wrong number of arguments for 'delifeq' command
    '''),
    ('CAS and CAD', '''
        CAS k a b                               => :-1
        CAD k a                                 => :-1
        SET k a EX 100                          => OK
        CAS k x b                               => :0
        GET k                                   => a
        CAS k a b                               => :1
        GET k                                   => b
        TTL k                                   => :-1
        CAS k b c EX 50                         => :1
        TTL k                                   => :50
        CAS k c d PX 50000                      => :1
        TTL k                                   => :50
        CAS k d e PXAT 9999999999999            => :1
        PEXPIRETIME k                           => :9999999999999
        CAD k x                                 => :0
        CAD k e                                 => :1
        EXISTS k                                => :0
        SET k a                                 => OK
        CAS k a b EX                            => -ERR syntax error
        CAS k a b EX x                          => -ERR value is not an integer or out of range
        CAS k a b EX 0                          => -ERR invalid expire time in 'cas' command
        CAS k a b KEEPTTL                       => -ERR syntax error
        CAS k a b EX 1 PX 1                     => -ERR syntax error
        CAS k a                                 => -ERR wrong number of arguments for 'cas' command
        CAD k                                   => -ERR wrong number of arguments for 'cad' command
        GET k                                   => a
        RPUSH l x                               => :1
        CAS l x y                               => -WRONGTYPE Operation against a key holding the wrong kind of value
        CAD l x                                 => -WRONGTYPE Operation against a key holding the wrong kind of value
    '''),
    ('MSETEX', '''
        MSETEX 2 a 1 b 2                        => :1
        MGET a b                                => ["1" "2"]
        TTL a                                   => :-1
        MSETEX 2 a 3 c 4 NX                     => :0
        EXISTS c                                => :0
        MSETEX 2 a 3 c 4 XX                     => :0
        GET a                                   => "1"
        MSETEX 2 a 5 b 6 XX EX 100              => :1
        MGET a b                                => ["5" "6"]
        TTL a                                   => :100
        TTL b                                   => :100
        MSETEX 1 a 7 KEEPTTL                    => :1
        TTL a                                   => :100
        MSETEX 3 c 1 d 2 e 3 PX 100000 nx       => :1
        TTL e                                   => :100
        MSETEX 1 a 8                            => :1
        TTL a                                   => :-1
        MSETEX 2 x 1 x 2                        => :1
        GET x                                   => "2"
        MSETEX 1 f NX                           => :1
        GET f                                   => NX
        MSETEX 1 a 1 EXAT 9999999999            => :1
        EXPIRETIME a                            => :9999999999
        RPUSH l x                               => :1
        MSETEX 1 l v                            => :1
        GET l                                   => v
        MSETEX 0 a 1                            => -ERR invalid numkeys value
        MSETEX -1 a 1                           => -ERR invalid numkeys value
        MSETEX x a 1                            => -ERR invalid numkeys value
        MSETEX 9999999999999999 a 1             => -ERR invalid numkeys value
        MSETEX 2 a 1                            => -ERR wrong number of key-value pairs
        MSETEX 2 a 1 b                          => -ERR wrong number of key-value pairs
        MSETEX 2147483647 a 1                   => -ERR wrong number of key-value pairs
        MSETEX 1 a 1 NX XX                      => -ERR syntax error
        MSETEX 1 a 1 EX 1 KEEPTTL               => -ERR syntax error
        MSETEX 1 a 1 EX                         => -ERR syntax error
        MSETEX 1 a 1 EX 0                       => -ERR invalid expire time in 'msetex' command
        MSETEX 1 a 1 EX x                       => -ERR value is not an integer or out of range
        MSETEX 1 a 1 GET                        => -ERR syntax error
        MSETEX 1 a                              => -ERR wrong number of arguments for 'msetex' command
        GET a                                   => "1"
    '''),
    ('MSETEX: events', '''
        MSETEX 2 a 1 b 2 EX 100                 => :1
        MSETEX 2 a 1 c 2 NX                     => :0
        MSETEX 1 a 1                            => :1
        (events)                                => [set:a expire:a set:b expire:b set:a]
    '''),
    ('INCREX with integers', '''
        INCREX k                                => [:1 :1]
        INCREX k                                => [:2 :1]
        SET k 100                               => OK
        INCREX k BYINT 5                        => [:105 :5]
        INCREX k byint -10                      => [:95 :-10]
        SET k 99                                => OK
        INCREX k BYINT 5 UBOUND 100             => [:99 :0]
        INCREX k UBOUND 100                     => [:100 :1]
        INCREX k UBOUND 100                     => [:100 :0]
        SET k 99                                => OK
        INCREX k BYINT 5 UBOUND 100 SATURATE    => [:100 :1]
        INCREX k BYINT -500 LBOUND -5 SATURATE  => [:-5 :-105]
        INCREX k BYINT -1 LBOUND -5             => [:-5 :0]
        GET k                                   => "-5"
        INCREX none BYINT 5 UBOUND 3            => [:0 :0]
        EXISTS none                             => :0
        INCREX new BYINT 5 UBOUND 3 SATURATE    => [:3 :3]
        SET k 500                               => OK
        INCREX k UBOUND 100                     => [:500 :0]
        INCREX k UBOUND 100 SATURATE            => [:100 :-400]
    '''),
    # Lua has no such integers.
    ('INCREX at the limits of integers', '''
        SET k 9223372036854775800               => OK
        INCREX k BYINT 10                       => [:9223372036854775800 :0]
        INCREX k BYINT 10 SATURATE              => [:9223372036854775807 :7]
        SET k -9223372036854775800              => OK
        INCREX k BYINT -10                      => [:-9223372036854775800 :0]
        INCREX k BYINT -10 SATURATE             => [:-9223372036854775808 :-8]
        INCREX k LBOUND 9223372036854775807 SATURATE => -ERR the increment that reaches the bound is out of range
        GET k                                   => "-9223372036854775808"
    ''', 'alone'),
    ('INCREX with floating-point numbers', '''
        SET k 1.5                               => OK
        INCREX k BYFLOAT 0.25                   => [,1.75 ,0.25]
        INCREX k BYFLOAT -2                     => [,-0.25 ,-2]
        INCREX none BYFLOAT 3                   => [,3 ,3]
        GET none                                => "3"
        INCREX k BYFLOAT 5 UBOUND 1.5           => [,-0.25 ,0]
        INCREX k BYFLOAT 5 UBOUND 1.5 SATURATE  => [,1.5 ,1.75]
        INCREX k BYFLOAT -1e3 LBOUND 0 SATURATE => [,0 ,-1.5]
        SET i 7                                 => OK
        INCREX i BYFLOAT 0.5                    => [,7.5 ,0.5]
        INCREX i                                => -ERR value is not an integer or out of range
        INCREX i BYFLOAT inf                    => -ERR value is not a valid float
        INCREX i BYFLOAT nan                    => -ERR value is not a valid float
        INCREX i BYFLOAT x                      => -ERR value is not a valid float
        INCREX i BYFLOAT 1 UBOUND x             => -ERR value is not a valid float
        SET t text                              => OK
        INCREX t BYFLOAT 1                      => -ERR value is not a valid float
        INCREX t                                => -ERR value is not an integer or out of range
    '''),
    ('INCREX and the time to live', '''
        INCREX k EX 100                         => [:1 :1]
        TTL k                                   => :100
        INCREX k                                => [:2 :1]
        TTL k                                   => :100
        INCREX k EX 10 ENX                      => [:3 :1]
        TTL k                                   => :100
        INCREX k PX 50000                       => [:4 :1]
        TTL k                                   => :50
        INCREX k BYINT 9 UBOUND 5 EX 7          => [:4 :0]
        TTL k                                   => :50
        INCREX k BYINT 9 UBOUND 5 EX 70 SATURATE => [:5 :1]
        TTL k                                   => :70
        INCREX k PERSIST                        => [:6 :1]
        TTL k                                   => :-1
        INCREX k EX 30 ENX                      => [:7 :1]
        TTL k                                   => :30
        INCREX k EXAT 9999999999                => [:8 :1]
        EXPIRETIME k                            => :9999999999
        INCREX k PXAT 1                         => [:9 :1]
        EXISTS k                                => :0
        (events)                                => [incrby:k expire:k incrby:k incrby:k incrby:k expire:k incrby:k expire:k incrby:k persist:k incrby:k expire:k incrby:k expire:k incrby:k del:k]
    '''),
    ('INCREX: invalid arguments', '''
        SET k 1                                 => OK
        INCREX k BYINT                          => -ERR syntax error
        INCREX k BYINT x                        => -ERR value is not an integer or out of range
        INCREX k BYINT 1.5                      => -ERR value is not an integer or out of range
        INCREX k BYINT 1 BYFLOAT 1              => -ERR syntax error
        INCREX k BYINT 1 BYINT 1                => -ERR syntax error
        INCREX k LBOUND x                       => -ERR value is not an integer or out of range
        INCREX k UBOUND 1.5                     => -ERR value is not an integer or out of range
        INCREX k UBOUND                         => -ERR syntax error
        INCREX k LBOUND 5 UBOUND 4              => -ERR LBOUND can't be greater than UBOUND
        INCREX k BYFLOAT 1 LBOUND 5 UBOUND 4.5  => -ERR LBOUND can't be greater than UBOUND
        INCREX k ENX                            => -ERR ENX needs one of the options EX, PX, EXAT and PXAT
        INCREX k ENX PERSIST                    => -ERR ENX needs one of the options EX, PX, EXAT and PXAT
        INCREX k EX 0                           => -ERR invalid expire time in 'increx' command
        INCREX k EX -1                          => -ERR invalid expire time in 'increx' command
        INCREX k PX x                           => -ERR value is not an integer or out of range
        INCREX k EX 1 PX 1                      => -ERR syntax error
        INCREX k EX 1 PERSIST                   => -ERR syntax error
        INCREX k KEEPTTL                        => -ERR syntax error
        INCREX k NONSENSE                       => -ERR syntax error
        INCREX                                  => -ERR wrong number of arguments for 'increx' command
        GET k                                   => "1"
        RPUSH l 1                               => :1
        INCREX l                                => -WRONGTYPE Operation against a key holding the wrong kind of value
    '''),
]
