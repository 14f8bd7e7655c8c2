"""vectors_sketch: count-min sketches, as documented for RedisBloom 2.8; limits of sizes are our own."""

WRONG = '-WRONGTYPE Operation against a key holding the wrong kind of value'

CASES = [
    ('CMS.INCRBY and CMS.QUERY', '''
        CMS.INITBYDIM s 1000 5         => OK
        CMS.INCRBY s a 5               => [:5]
        cms.incrby s b 1 c 42 b 2      => [:1 :42 :3]
        CMS.QUERY s a b c none         => [:5 :3 :42 :0]
        CMS.INCRBY s a 0               => [:5]
        CMS.INFO s                     => {+width :1000 +depth :5 +count :50}
        TYPE s                         => +CMSk-TYPE
        OBJECT ENCODING s              => "raw"
    '''),
    ('sketches by their probability of errors', '''
        CMS.INITBYPROB s 0.001 0.01    => OK
        CMS.INFO s                     => {+width :2000 +depth :7 +count :0}
        CMS.INITBYPROB t 0.01 0.5      => OK
        CMS.INFO t                     => {+width :200 +depth :1 +count :0}
        CMS.INITBYPROB u 0.9 0.9       => OK
        CMS.INFO u                     => {+width :3 +depth :1 +count :0}
        CMS.INITBYPROB v 0.00001 1e-9  => OK
        CMS.INFO v                     => {+width :200000 +depth :30 +count :0}
        CMS.INCRBY v a 3               => [:3]
        CMS.QUERY v b                  => [:0]
    '''),
    ('sizes of sketches', '''
        CMS.INITBYDIM s 0 5            => -CMS: invalid width
        CMS.INITBYDIM s x 5            => -CMS: invalid width
        CMS.INITBYDIM s -1 5           => -CMS: invalid width
        CMS.INITBYDIM s 5 0            => -CMS: invalid depth
        CMS.INITBYDIM s 5 1.5          => -CMS: invalid depth
        CMS.INITBYDIM s 5 65           => -CMS: the depth is too large: it must be at most 64
        CMS.INITBYDIM s 16777217 1     => -CMS: the sketch is too large: width * depth must be at most 16777216 counters
        CMS.INITBYDIM s 5592406 3      => -CMS: the sketch is too large: width * depth must be at most 16777216 counters
        CMS.INITBYDIM s 4611686018427388100 4 => -CMS: the sketch is too large: width * depth must be at most 16777216 counters
        CMS.INITBYDIM s 9223372036854775808 1 => -CMS: invalid width
        CMS.INITBYPROB s 0 0.1         => -CMS: invalid overestimation value
        CMS.INITBYPROB s 1 0.1         => -CMS: invalid overestimation value
        CMS.INITBYPROB s x 0.1         => -CMS: invalid overestimation value
        CMS.INITBYPROB s nan 0.1       => -CMS: invalid overestimation value
        CMS.INITBYPROB s 0.1 0         => -CMS: invalid prob value
        CMS.INITBYPROB s 0.1 1         => -CMS: invalid prob value
        CMS.INITBYPROB s 0.1 x         => -CMS: invalid prob value
        CMS.INITBYPROB s 0.9 0.9999999999999999 => -CMS: invalid init arguments
        CMS.INITBYPROB s 1e-19 0.9     => -CMS: invalid init arguments
        CMS.INITBYPROB s 1e-9 0.1      => -CMS: the sketch is too large: width * depth must be at most 16777216 counters
        CMS.INITBYPROB s 0.1 1e-30     => -CMS: the depth is too large: it must be at most 64
        EXISTS s                       => :0
        CMS.INITBYDIM s 16777216 1     => OK
        CMS.INCRBY s a 1 b 2           => [:1 :2]
        CMS.INITBYDIM one 1 1          => OK
        CMS.INCRBY one a 1 b 2         => [:1 :3]
        CMS.QUERY one c                => [:3]
        CMS.INITBYDIM one 5 5          => -CMS: key already exists
        CMS.INITBYPROB one 0.1 0.1     => -CMS: key already exists
        SET text v                     => OK
        CMS.INITBYDIM text 5 5         => -CMS: key already exists
    '''),
    ('bad increments change nothing', '''
        CMS.INITBYDIM s 100 5          => OK
        CMS.INCRBY s a 1 b x           => -CMS: Cannot parse number
        CMS.INCRBY s a 1 b -1          => -CMS: Number cannot be negative
        CMS.INCRBY s a 9223372036854775808 => -CMS: Cannot parse number
        CMS.QUERY s a b                => [:0 :0]
        CMS.INCRBY none a 1            => -CMS: key does not exist
        CMS.QUERY none a               => -CMS: key does not exist
        CMS.INFO none                  => -CMS: key does not exist
        CMS.INFO s                     => {+width :100 +depth :5 +count :0}
    '''),
    ('an increment without its number', '''
        CMS.INITBYDIM s 100 5          => OK
        CMS.INCRBY s a 1 b             => -ERR wrong number of arguments for 'cms.incrby' command
        CMS.QUERY s a                  => [:0]
    '''),
    ('counters end at 4294967295', '''
        CMS.INITBYDIM s 1000 2         => OK
        CMS.INCRBY s a 4294967294 b 10 => [:4294967294 :10]
        CMS.INCRBY s a 4294967294 b 10 => ?*
        CMS.QUERY s a b                => [:4294967295 :20]
        CMS.INCRBY s c 9223372036854775807 => ?*
        CMS.QUERY s a b c              => [:4294967295 :20 :4294967295]
        CMS.INFO s                     => {+width :1000 +depth :2 +count :9223372036854775807}
    ''', 'alone'),
    ('increments are reported and saved when the sum of all is at its limit', '''
        CMS.INITBYDIM s 1000 2                 => OK
        CMS.INCRBY s a 9223372036854775807     => ?*
        CMS.INCRBY s b 5                       => [:5]
        CMS.QUERY s b                          => [:5]
        (events) => [cms.init:s cms.incrby:s cms.incrby:s]
    ''', 'alone'),
    ('CMS.MERGE', '''
        CMS.INITBYDIM {t}a 1000 5                => OK
        CMS.INITBYDIM {t}b 1000 5                => OK
        CMS.INITBYDIM {t}c 1000 5                => OK
        CMS.MERGE {t}c 2 {t}a {t}b               => OK
        CMS.INFO {t}c                            => {+width :1000 +depth :5 +count :0}
        CMS.INCRBY {t}a foo 10 bar 1             => [:10 :1]
        CMS.INCRBY {t}b foo 5 baz 2              => [:5 :2]
        CMS.INCRBY {t}c old 7                    => [:7]
        CMS.MERGE {t}c 2 {t}a {t}b               => OK
        CMS.QUERY {t}c foo bar baz old           => [:15 :1 :2 :0]
        CMS.INFO {t}c                            => {+width :1000 +depth :5 +count :18}
        cms.merge {t}c 2 {t}a {t}b weights 2 3   => OK
        CMS.QUERY {t}c foo bar baz               => [:35 :2 :6]
        CMS.MERGE {t}c 2 {t}c {t}b WEIGHTS 1 -1  => OK
        CMS.QUERY {t}c foo bar baz               => [:30 :2 :4]
        CMS.MERGE {t}c 2 {t}c {t}c               => OK
        CMS.QUERY {t}c foo bar baz               => [:60 :4 :8]
        CMS.MERGE {t}c 1 {t}c WEIGHTS 0          => OK
        CMS.QUERY {t}c foo bar baz               => [:0 :0 :0]
        CMS.INFO {t}c                            => {+width :1000 +depth :5 +count :0}
        EXPIRE {t}c 1000                         => :1
        CMS.MERGE {t}c 1 {t}a                    => OK
        TTL {t}c                                 => :~1000
    '''),
    ('CMS.MERGE that does not fit', '''
        CMS.INITBYDIM {t}a 100 5                 => OK
        CMS.INITBYDIM {t}b 100 5                 => OK
        CMS.INCRBY {t}a foo 10                   => [:10]
        CMS.MERGE {t}b 1 {t}a WEIGHTS -1         => -CMS: MERGE overflow
        CMS.MERGE {t}b 1 {t}a WEIGHTS 429496730  => -CMS: MERGE overflow
        CMS.MERGE {t}b 1 {t}a WEIGHTS 429496729  => OK
        CMS.QUERY {t}b foo                       => [:4294967290]
        CMS.MERGE {t}b 1 {t}a WEIGHTS 9223372036854775807  => -CMS: MERGE overflow
        CMS.MERGE {t}b 2 {t}b {t}a               => -CMS: MERGE overflow
        CMS.QUERY {t}b foo                       => [:4294967290]
        CMS.QUERY {t}a foo                       => [:10]
    '''),
    ('CMS.MERGE: bad arguments', '''
        CMS.INITBYDIM {t}a 100 5                 => OK
        CMS.INITBYDIM {t}b 100 4                 => OK
        CMS.INITBYDIM {t}c 99 5                  => OK
        CMS.INITBYDIM {t}weights 100 5           => OK
        CMS.MERGE {t}a 1 {t}b                    => -CMS: width/depth is not equal
        CMS.MERGE {t}a 1 {t}c                    => -CMS: width/depth is not equal
        CMS.MERGE {t}a 1 {t}none                 => -CMS: key does not exist
        CMS.MERGE {t}none 1 {t}a                 => -CMS: key does not exist
        CMS.MERGE {t}a 1 {t}a {t}b               => -CMS: wrong number of keys
        CMS.MERGE {t}a 1 {t}a WEIGHTS            => -CMS: wrong number of keys/weights
        CMS.MERGE {t}a 1 {t}a WEIGHTS 1 2        => -CMS: wrong number of keys/weights
        CMS.MERGE {t}a 1 {t}a WEIGHTS x          => -CMS: invalid weight value
        CMS.MERGE {t}a 1 {t}a WEIGHTS 1.5        => -CMS: invalid weight value
        CMS.MERGE {t}a 1 {t}weights              => OK
        EXISTS {t}none                           => :0
    '''),
    ('CMS.MERGE of sketches that are too large together', '''
        CMS.INITBYDIM {t}a 1048576 2             => OK
        CMS.INITBYDIM {t}b 1048576 2             => OK
        CMS.INCRBY {t}a x 3                      => [:3]
        CMS.MERGE {t}b 2 {t}a {t}a               => OK
        CMS.QUERY {t}b x                         => [:6]
        CMS.MERGE {t}b 3 {t}a {t}a {t}a          => -CMS: MERGE is too large: numkeys * width * depth must be at most 4194304 counters
        CMS.QUERY {t}b x                         => [:6]
        CMS.INITBYDIM {t}c 2000 5                => OK
        CMS.MERGE {t}c 3 {t}a {t}a {t}a          => -CMS: width/depth is not equal
    '''),
    ('CMS.MERGE: bad numbers of keys', '''
        CMS.INITBYDIM {t}a 100 5                 => OK
        CMS.MERGE {t}a x {t}a                    => -CMS: invalid numkeys
        CMS.MERGE {t}a 0 {t}a                    => -CMS: Number of keys must be positive
        CMS.MERGE {t}a -1 {t}a                   => -CMS: Number of keys must be positive
        CMS.MERGE {t}a 2 {t}a                    => -CMS: wrong number of keys
        CMS.MERGE {t}a 4294967297 {t}a           => -CMS: wrong number of keys
    ''', 'alone'),
    ('sketches and other types', '''
        SET {t}s v                     => OK
        CMS.INCRBY {t}s a 1            => %(WRONG)s
        CMS.QUERY {t}s a               => %(WRONG)s
        CMS.INFO {t}s                  => %(WRONG)s
        CMS.INITBYDIM {t}a 100 5       => OK
        CMS.MERGE {t}s 1 {t}a          => %(WRONG)s
        CMS.MERGE {t}a 1 {t}s          => %(WRONG)s
        GET {t}a                       => %(WRONG)s
        BF.ADD {t}a x                  => %(WRONG)s
        SET {t}a v                     => OK
        GET {t}a                       => "v"
    ''' % {'WRONG': WRONG}),
    ('keys with sketches are keys as others', '''
        CMS.INITBYDIM {t}f 1000 5      => OK
        CMS.INCRBY {t}f a 1 b 2        => [:1 :2]
        COPY {t}f {t}g                 => :1
        CMS.INCRBY {t}g c 3            => [:3]
        CMS.QUERY {t}f a b c           => [:1 :2 :0]
        CMS.QUERY {t}g a b c           => [:1 :2 :3]
        RENAME {t}g {t}h               => OK
        CMS.INFO {t}h                  => {+width :1000 +depth :5 +count :6}
        EXPIRE {t}h 1000               => :1
        CMS.INCRBY {t}h d 1            => [:1]
        TTL {t}h                       => :~1000
        PERSIST {t}h                   => :1
        SCAN 0 TYPE CMSk-TYPE COUNT 10000 => ?*
        MEMORY USAGE {t}h              => ?:
        DEL {t}h                       => :1
        CMS.QUERY {t}h a               => -CMS: key does not exist
    '''),
    ('keyspace events of sketches', '''
        CMS.INITBYDIM f 100 5       => OK
        CMS.INCRBY f a 1 b 2        => [:1 :2]
        CMS.INCRBY f a 0            => [:1]
        CMS.INITBYPROB g 0.02 0.04  => OK
        CMS.MERGE g 1 f          => OK
        (events) => [cms.init:f cms.incrby:f cms.init:g cms.merge:g]
    ''', 'alone'),
]
