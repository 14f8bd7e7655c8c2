"""vectors_bloom: Bloom filters, as documented for RedisBloom 2.8. Sizes in bytes are those of our own pages."""

CASES = [
    ('BF.ADD and BF.EXISTS; a filter is created by its first item', '''
        BF.EXISTS f a   => #f
        BF.ADD f a      => #t
        BF.ADD f a      => #f
        bf.exists f a   => #t
        BF.EXISTS f b   => #f
        TYPE f          => +MBbloom--
        OBJECT ENCODING f => "raw"
        BF.CARD f       => :1
    '''),
    ('BF.INFO', '''
        BF.RESERVE f 0.01 1000 => OK
        BF.ADD f a             => #t
        BF.INFO f CAPACITY     => [:1000]
        BF.INFO f filters      => [:1]
        BF.INFO f ITEMS        => [:1]
        BF.INFO f EXPANSION    => [:2]
        BF.INFO f nope         => -ERR Invalid information value
        BF.INFO f CAPACITY SIZE => -ERR wrong number of arguments for 'bf.info' command
        BF.INFO nokey          => -ERR not found
        BF.RESERVE small 0.5 1 NONSCALING => OK
        BF.INFO small          => ?
        BF.INFO small EXPANSION => [nil]
    '''),
    ('BF.MADD and BF.MEXISTS', '''
        BF.MADD f a b a     => [#t #t #f]
        BF.MEXISTS f a b c  => [#t #t #f]
        BF.MEXISTS nokey a b => [#f #f]
        EXISTS nokey        => :0
        BF.CARD f           => :2
        BF.CARD nokey       => :0
    '''),
    ('BF.RESERVE: options and bad values', '''
        BF.RESERVE f 0.001 5000                => OK
        BF.RESERVE f 0.001 5000                => -ERR item exists
        BF.RESERVE g 0.1 10 EXPANSION 4        => OK
        BF.INFO g EXPANSION                    => [:4]
        BF.RESERVE h 0.1 10 nonscaling         => OK
        BF.RESERVE x 0.1 10 NONSCALING EXPANSION 2 => -ERR Nonscaling filters cannot expand
        BF.RESERVE x blah 10                   => -ERR bad error rate
        BF.RESERVE x nan 10                    => -ERR bad error rate
        BF.RESERVE x 0 10                      => -ERR (0 < error rate range < 1)
        BF.RESERVE x 1 10                      => -ERR (0 < error rate range < 1)
        BF.RESERVE x -0.5 10                   => -ERR (0 < error rate range < 1)
        BF.RESERVE x 1e-10 10                  => -ERR the error rate is too small: it must be at least 1e-9
        BF.RESERVE x 0.01 blah                 => -ERR bad capacity
        BF.RESERVE x 0.01 0                    => -ERR (capacity should be larger than 0)
        BF.RESERVE x 0.01 -1                   => -ERR (capacity should be larger than 0)
        BF.RESERVE x 0.01 1073741825           => -ERR the capacity is too large: it must be at most 1073741824
        BF.RESERVE x 0.01 18446744073709551616 => -ERR bad capacity
        BF.RESERVE x 0.01 10 EXPANSION 0       => -ERR expansion should be greater or equal to 1
        BF.RESERVE x 0.01 10 EXPANSION x       => -ERR bad expansion
        BF.RESERVE x 0.01 10 EXPANSION 32769   => -ERR the expansion is too large: it must be at most 32768
        BF.RESERVE x 0.01 10 EXPANSION         => -ERR syntax error
        BF.RESERVE x 0.01 10 nope              => -ERR syntax error
        EXISTS x                               => :0
        BF.RESERVE big 0.000000001 1073741824  => OK
        BF.ADD big a                           => #t
        BF.EXISTS big b                        => #f
    '''),
    ('a filter that does not grow', '''
        BF.RESERVE f 0.01 2 NONSCALING => OK
        BF.ADD f a          => #t
        BF.ADD f b          => #t
        BF.ADD f a          => #f
        BF.ADD f c          => -ERR non scaling filter is full
        BF.CARD f           => :2
        BF.EXISTS f b       => #t
        BF.INFO f FILTERS   => [:1]
    '''),
    ('a filter that grows', '''
        BF.RESERVE f 0.001 2 EXPANSION 3 => OK
        BF.MADD f a b            => [#t #t]
        BF.INFO f FILTERS        => [:1]
        BF.MADD f c d e f g h    => [#t #t #t #t #t #t]
        BF.INFO f FILTERS        => [:2]
        BF.INFO f CAPACITY       => [:8]
        BF.ADD f i               => #t
        BF.INFO f FILTERS        => [:3]
        BF.INFO f CAPACITY       => [:26]
        BF.MEXISTS f a b c d e f g h i j => [#t #t #t #t #t #t #t #t #t #f]
        BF.CARD f                => :9
    '''),
    ('BF.INSERT', '''
        BF.INSERT f NOCREATE ITEMS a                  => -ERR not found
        EXISTS f                                      => :0
        BF.INSERT f CAPACITY 50 ERROR 0.001 EXPANSION 4 ITEMS a b a => [#t #t #f]
        BF.INFO f CAPACITY                            => [:50]
        BF.INFO f EXPANSION                           => [:4]
        BF.INSERT f NOCREATE ITEMS a c                => [#f #t]
        BF.INSERT f CAPACITY 7 ITEMS d                => [#t]
        BF.INFO f CAPACITY                            => [:50]
        bf.insert g nonscaling items x                => [#t]
        BF.INFO g EXPANSION                           => [nil]
        BF.INSERT h ITEMS items                       => [#t]
        BF.INSERT x NOPE ITEMS a                      => -ERR Unknown argument received
        BF.INSERT x CAPACITY 0 ITEMS a                => -ERR (capacity should be larger than 0)
        BF.INSERT x CAPACITY y ITEMS a                => -ERR bad capacity
        BF.INSERT x ERROR y ITEMS a                   => -ERR bad error rate
        BF.INSERT x ERROR 2 ITEMS a                   => -ERR (0 < error rate range < 1)
        BF.INSERT x EXPANSION 0 ITEMS a               => -ERR expansion should be greater or equal to 1
        BF.INSERT x NONSCALING EXPANSION 2 ITEMS a    => -ERR Nonscaling filters cannot expand
        EXISTS x                                      => :0
    '''),
    ('BF.INSERT without items', '''
        BF.INSERT f CAPACITY 10   => -ERR wrong number of arguments for 'bf.insert' command
        BF.INSERT f NOCREATE ITEMS => -ERR wrong number of arguments for 'bf.insert' command
    '''),
    ('items are added until the filter is full, and the array ends with the error', '''
        BF.RESERVE f 0.01 2 NONSCALING => OK
        BF.MADD f a b c d   => ?*
        BF.CARD f           => :2
        BF.MEXISTS f a b c  => [#t #t #f]
    ''', 'alone'),
    ('other types', '''
        SET s v                => OK
        BF.ADD s a             => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.MADD s a            => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.INSERT s ITEMS a    => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.EXISTS s a          => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.MEXISTS s a         => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.CARD s              => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.INFO s              => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.RESERVE s 0.1 10    => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.SCANDUMP s 0        => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.LOADCHUNK s 1 x     => -WRONGTYPE Operation against a key holding the wrong kind of value
        BF.ADD f a             => #t
        GET f                  => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET f v                => OK
        GET f                  => "v"
    '''),
    ('keys with filters are keys as others', '''
        BF.MADD {t}f a b             => [#t #t]
        COPY {t}f {t}g               => :1
        BF.ADD {t}g c                => #t
        BF.MEXISTS {t}f a b c        => [#t #t #f]
        BF.MEXISTS {t}g a b c        => [#t #t #t]
        RENAME {t}g {t}h             => OK
        BF.CARD {t}h                 => :3
        EXPIRE {t}h 1000             => :1
        BF.ADD {t}h d                => #t
        TTL {t}h                     => :~1000
        PERSIST {t}h                 => :1
        SCAN 0 TYPE MBbloom-- COUNT 10000 => ?*
        DEL {t}h                     => :1
        BF.EXISTS {t}h a             => #f
    '''),
    ('BF.SCANDUMP and BF.LOADCHUNK: bad arguments', '''
        BF.SCANDUMP nokey 0    => -ERR not found
        BF.ADD f a             => #t
        BF.SCANDUMP f x        => -ERR Second argument must be numeric
        BF.SCANDUMP f -1       => -ERR Second argument must be numeric
        BF.SCANDUMP f 99       => [:0 ""]
        BF.LOADCHUNK nokey 2 x => -ERR not found
        BF.LOADCHUNK nokey x y => -ERR Second argument must be numeric
        BF.LOADCHUNK nokey 1 y => -ERR received bad data
        BF.LOADCHUNK f 1 x     => -ERR received bad data
        BF.LOADCHUNK f 2 x     => -ERR received bad data
        EXISTS nokey           => :0
        BF.CARD f              => :1
    '''),
    ('keyspace events', '''
        BF.RESERVE f 0.01 10 => OK
        BF.ADD f a           => #t
        BF.ADD f a           => #f
        BF.MADD f b c        => [#t #t]
        (events) => [bloom.reserve:f bloom.add:f bloom.add:f]
    ''', 'alone'),
]
