"""vectors_topk: top-k lists, as documented for RedisBloom 2.8; limits of sizes and the order of equal counts are our own."""

WRONG = '-WRONGTYPE Operation against a key holding the wrong kind of value'

CASES = [
    ('TOPK.ADD expels the item with the least count', '''
        TOPK.RESERVE t 2 2000 7 0.5    => OK
        TOPK.ADD t foo                 => [nil]
        topk.add t foo bar foo         => [nil nil nil]
        TOPK.LIST t                    => [foo bar]
        TOPK.ADD t baz                 => [bar]
        TOPK.ADD t baz baz baz baz     => [nil nil nil nil]
        TOPK.LIST t                    => [baz foo]
        TOPK.LIST t WITHCOUNT          => [baz :5 foo :3]
        topk.list t withcount          => [baz :5 foo :3]
        TOPK.ADD t bar bar             => [nil foo]
        TOPK.LIST t WITHCOUNT          => [baz :5 bar :3]
        TOPK.QUERY t foo bar baz none  => [#f #t #t #f]
        TOPK.COUNT t foo bar baz none  => [:3 :3 :5 :0]
        TYPE t                         => +TopK-TYPE
        OBJECT ENCODING t              => "raw"
    '''),
    ('TOPK.RESERVE and TOPK.INFO', '''
        TOPK.RESERVE t 50 2000 7 0.5   => OK
        TOPK.INFO t                    => {+k :50 +width :2000 +depth :7 +decay ,0.5}
        TOPK.RESERVE one 1 1 1 1       => OK
        TOPK.INFO one                  => {+k :1 +width :1 +depth :1 +decay ,1}
        TOPK.RESERVE d 3               => OK
        TOPK.INFO d                    => {+k :3 +width :8 +depth :7 +decay ?}
        TOPK.LIST d                    => []
        TOPK.LIST d WITHCOUNT          => []
        TOPK.QUERY d a                 => [#f]
        TOPK.COUNT d a                 => [:0]
    '''),
    ('TOPK.INCRBY', '''
        TOPK.RESERVE t 3 2000 3 1      => OK
        TOPK.INCRBY t bar 3 baz 6 42 2 => [nil nil nil]
        TOPK.INCRBY t 42 8 xyzzy 4     => [nil bar]
        TOPK.COUNT t bar baz 42 xyzzy 4  => [:3 :6 :10 :4 :0]
        TOPK.LIST t WITHCOUNT          => ["42" :10 baz :6 xyzzy :4]
        TOPK.INCRBY t bar 0 new 0      => [nil nil]
        TOPK.QUERY t bar new           => [#f #f]
        TOPK.INCRBY t big 100000       => [xyzzy]
        TOPK.INCRBY t bar 1 a          => -ERR wrong number of arguments for 'topk.incrby' command
        TOPK.COUNT t bar               => [:3]
    '''),
    ('a bad increment is an error in its place of the reply', '''
        TOPK.RESERVE t 3 2000 3 1      => OK
        TOPK.INCRBY t a 1 b -1 c x d 2 => ?*
        TOPK.LIST t WITHCOUNT          => [d :2 a :1]
        TOPK.INCRBY t e 100001 f 1.5 g 9223372036854775808 => ?*
        TOPK.LIST t WITHCOUNT          => [d :2 a :1]
    ''', 'alone'),
    ('of equal counts the one that was reached last is first, and the item with the one that was reached first is expelled', '''
        TOPK.RESERVE t 3 2000 5 0.5    => OK
        TOPK.ADD t b c a               => [nil nil nil]
        TOPK.LIST t                    => [a c b]
        TOPK.ADD t aa                  => [b]
        TOPK.LIST t                    => [aa a c]
        TOPK.ADD t z                   => [c]
        TOPK.ADD t y                   => [a]
        TOPK.LIST t                    => [y z aa]
        TOPK.ADD t aa y z              => [nil nil nil]
        TOPK.LIST t WITHCOUNT          => [z :2 y :2 aa :2]
        TOPK.ADD t a                   => [aa]
        TOPK.LIST t                    => [a z y]
    '''),
    ('a bucket is taken from an item whose count has decayed to 0', '''
        TOPK.RESERVE t 1 1 1 1         => OK
        TOPK.INCRBY t a 5              => [nil]
        TOPK.INCRBY t b 3              => [nil]
        TOPK.COUNT t a b               => [:2 :0]
        TOPK.LIST t WITHCOUNT          => [a :5]
        TOPK.INCRBY t b 2              => [nil]
        TOPK.COUNT t a b               => [:0 :1]
        TOPK.ADD t b b b               => [nil nil nil]
        TOPK.ADD t b                   => [a]
        TOPK.LIST t WITHCOUNT          => [b :5]
        TOPK.INCRBY t a 8              => [nil]
        TOPK.COUNT t a b               => [:4 :0]
        TOPK.LIST t WITHCOUNT          => [b :5]
    '''),
    ('items may be empty, binary and long', '''
        TOPK.RESERVE t 3               => OK
        TOPK.ADD t "" "a\\nb" "\\x00"  => [nil nil nil]
        TOPK.INCRBY t "" 5 "a\\nb" 3   => [nil nil]
        TOPK.LIST t WITHCOUNT          => ["" :6 "a\\nb" :4 "\\x00" :1]
        TOPK.QUERY t "" "\\x00" "a"    => [#t #t #f]
    '''),
    ('sizes of top-k lists', '''
        TOPK.RESERVE t 0               => -TopK: invalid k
        TOPK.RESERVE t x               => -TopK: invalid k
        TOPK.RESERVE t -1              => -TopK: invalid k
        TOPK.RESERVE t 0.9 50 5 0.9    => -TopK: invalid k
        TOPK.RESERVE t 5 0 5 0.9       => -TopK: invalid width
        TOPK.RESERVE t 5 x 5 0.9       => -TopK: invalid width
        TOPK.RESERVE t 5 0.9 5 0.9     => -TopK: invalid width
        TOPK.RESERVE t 5 8 0 0.9       => -TopK: invalid depth
        TOPK.RESERVE t 5 8 -7 0.9      => -TopK: invalid depth
        TOPK.RESERVE t 5 8 9223372036854775808 0.9 => -TopK: invalid depth
        TOPK.RESERVE t 5 8 7 0         => -TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE t 5 8 7 -0.5      => -TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE t 5 8 7 1.01      => -TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE t 5 8 7 x         => -TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE t 5 8 7 nan       => -TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE t 100001          => -TopK: k is too large: it must be at most 100000
        TOPK.RESERVE t 5 8 65 0.9      => -TopK: the depth is too large: it must be at most 64
        TOPK.RESERVE t 5 16777217 1 0.9  => -TopK: the sketch is too large: width * depth must be at most 16777216 counters
        TOPK.RESERVE t 5 4611686018427388100 4 0.9 => -TopK: the sketch is too large: width * depth must be at most 16777216 counters
        EXISTS t                       => :0
        TOPK.RESERVE t 100000 16777216 1 0.9 => OK
        TOPK.ADD t a                   => [nil]
        TOPK.LIST t                    => [a]
        TOPK.RESERVE t 5               => -TopK: key already exists
        TOPK.RESERVE t x               => -TopK: key already exists
        SET text v                     => OK
        TOPK.RESERVE text 5            => -TopK: key already exists
    '''),
    ('TOPK: numbers of arguments', '''
        TOPK.RESERVE t 5 8             => -ERR wrong number of arguments for 'topk.reserve' command
        TOPK.RESERVE t 5 8 7           => -ERR wrong number of arguments for 'topk.reserve' command
        TOPK.RESERVE t 5 8 7 0.9 1     => -ERR wrong number of arguments for 'topk.reserve' command
        TOPK.RESERVE t 5               => OK
        TOPK.LIST t WITHCOUNT x        => -ERR wrong number of arguments for 'topk.list' command
    '''),
    ('a top-k list that does not exist', '''
        TOPK.ADD t a                   => -TopK: key does not exist
        TOPK.INCRBY t a 1              => -TopK: key does not exist
        TOPK.QUERY t a                 => -TopK: key does not exist
        TOPK.COUNT t a                 => -TopK: key does not exist
        TOPK.LIST t                    => -TopK: key does not exist
        TOPK.LIST t x                  => -WITHCOUNT keyword expected
        TOPK.INFO t                    => -TopK: key does not exist
        TOPK.RESERVE t 5               => OK
        TOPK.LIST t WITH               => -WITHCOUNT keyword expected
        TOPK.LIST t ""                 => -WITHCOUNT keyword expected
    '''),
    ('top-k lists and other types', '''
        SET {t}s v                     => OK
        TOPK.ADD {t}s a                => %(WRONG)s
        TOPK.INCRBY {t}s a 1           => %(WRONG)s
        TOPK.QUERY {t}s a              => %(WRONG)s
        TOPK.COUNT {t}s a              => %(WRONG)s
        TOPK.LIST {t}s                 => %(WRONG)s
        TOPK.INFO {t}s                 => %(WRONG)s
        TOPK.RESERVE {t}a 5            => OK
        GET {t}a                       => %(WRONG)s
        CMS.INFO {t}a                  => %(WRONG)s
        SET {t}a v                     => OK
        GET {t}a                       => "v"
    ''' % {'WRONG': WRONG}),
    ('keys with top-k lists are keys as others', '''
        TOPK.RESERVE {t}f 3 1000 5 0.9 => OK
        TOPK.INCRBY {t}f a 1 b 2       => [nil nil]
        COPY {t}f {t}g                 => :1
        TOPK.INCRBY {t}g c 3           => [nil]
        TOPK.LIST {t}f                 => [b a]
        TOPK.LIST {t}g                 => [c b a]
        RENAME {t}g {t}h               => OK
        TOPK.LIST {t}h WITHCOUNT       => [c :3 b :2 a :1]
        EXPIRE {t}h 1000               => :1
        TOPK.ADD {t}h d                => [a]
        TTL {t}h                       => :~1000
        PERSIST {t}h                   => :1
        SCAN 0 TYPE TopK-TYPE COUNT 10000 => ?*
        MEMORY USAGE {t}h              => ?:
        DEL {t}h                       => :1
        TOPK.LIST {t}h                 => -TopK: key does not exist
        TOPK.RESERVE {t}h 3            => OK
        TOPK.LIST {t}h                 => []
    '''),
    ('keyspace events of top-k lists', '''
        TOPK.RESERVE f 1 100 5 0.9  => OK
        TOPK.ADD f a b              => [nil a]
        TOPK.INCRBY f a 3           => [b]
        TOPK.INCRBY f a 0           => [nil]
        (events) => [topk.reserve:f topk.add:f topk.incrby:f]
    ''', 'alone'),
]
