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
]
