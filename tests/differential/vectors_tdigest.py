"""vectors_tdigest: t-digests, as documented for RedisBloom 2.8; the limit of the compression is our own."""

WRONG = '-WRONGTYPE Operation against a key holding the wrong kind of value'
NONE = '-ERR T-Digest: key does not exist'
STEPS = '1 2 2 3 3 3 4 4 4 4 5 5 5 5 5'

CASES = [
    ('TDIGEST.CREATE, TDIGEST.ADD and TDIGEST.INFO', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.INFO d                         => {+Compression :100 +Capacity :610 +"Merged nodes" :0 +"Unmerged nodes" :0 +"Merged weight" :0 +"Unmerged weight" :0 +Observations :0 +"Total compressions" :0 +"Memory usage" :40}
        TDIGEST.ADD d 1 2 3 4 5                => OK
        tdigest.info d                         => {+Compression :100 +Capacity :610 +"Merged nodes" :0 +"Unmerged nodes" :5 +"Merged weight" :0 +"Unmerged weight" :5 +Observations :5 +"Total compressions" :0 +"Memory usage" :80}
        TDIGEST.ADD d 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 => OK
        TDIGEST.INFO d                         => {+Compression :100 +Capacity :610 +"Merged nodes" :32 +"Unmerged nodes" :0 +"Merged weight" :32 +"Unmerged weight" :0 +Observations :32 +"Total compressions" :1 +"Memory usage" :552}
        TDIGEST.CREATE e compression 1         => OK
        TDIGEST.INFO e                         => {+Compression :1 +Capacity :16 +"Merged nodes" :0 +"Unmerged nodes" :0 +"Merged weight" :0 +"Unmerged weight" :0 +Observations :0 +"Total compressions" :0 +"Memory usage" :40}
        TDIGEST.CREATE f COMPRESSION 10000     => OK
        TYPE d                                 => +TDIS-TYPE
        OBJECT ENCODING d                      => "raw"
    '''),
    ('TDIGEST.CREATE: bad arguments', '''
        TDIGEST.CREATE d COMPRESSION x         => -ERR T-Digest: error parsing compression parameter
        TDIGEST.CREATE d COMPRESSION 1.5       => -ERR T-Digest: error parsing compression parameter
        TDIGEST.CREATE d COMPRESSION 100000000000000000000 => -ERR T-Digest: error parsing compression parameter
        TDIGEST.CREATE d COMPRESSION 0         => -ERR T-Digest: compression parameter needs to be a positive integer
        TDIGEST.CREATE d COMPRESSION -1        => -ERR T-Digest: compression parameter needs to be a positive integer
        TDIGEST.CREATE d COMPRESSION 10001     => -ERR T-Digest: the compression is too large: it must be at most 10000
        TDIGEST.CREATE d SIZE 100              => -ERR T-Digest: wrong keyword
        EXISTS d                               => :0
        TDIGEST.CREATE d                       => OK
        TDIGEST.CREATE d                       => -ERR T-Digest: key already exists
        TDIGEST.CREATE d COMPRESSION 5         => -ERR T-Digest: key already exists
    '''),
    ('TDIGEST.CREATE: wrong numbers of arguments', '''
        TDIGEST.CREATE d 100                   => -ERR wrong number of arguments for 'tdigest.create' command
        TDIGEST.CREATE d COMPRESSION           => -ERR wrong number of arguments for 'tdigest.create' command
        TDIGEST.CREATE d COMPRESSION 5 6       => -ERR wrong number of arguments for 'tdigest.create' command
    '''),
    ('a digest without values', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.MIN d                          => ,nan
        TDIGEST.MAX d                          => ,nan
        TDIGEST.QUANTILE d 0 0.5 1             => [,nan ,nan ,nan]
        TDIGEST.CDF d 0 -inf inf               => [,nan ,nan ,nan]
        TDIGEST.TRIMMED_MEAN d 0 1             => ,nan
        TDIGEST.RANK d 0 inf -inf              => [:-2 :-2 :-2]
        TDIGEST.REVRANK d 0 1                  => [:-2 :-2]
        TDIGEST.BYRANK d 0 1                   => [,nan ,nan]
        TDIGEST.BYREVRANK d 0 1                => [,nan ,nan]
        TDIGEST.RESET d                        => OK
    '''),
    ('a digest with one value', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.ADD d 7.5                      => OK
        TDIGEST.MIN d                          => ,7.5
        TDIGEST.MAX d                          => ,7.5
        TDIGEST.QUANTILE d 0 0.001 0.5 1       => [,7.5 ,7.5 ,7.5 ,7.5]
        TDIGEST.CDF d 7 7.5 8 -inf inf         => [,0 ,0.5 ,1 ,0 ,1]
        TDIGEST.TRIMMED_MEAN d 0 1             => ,7.5
        TDIGEST.TRIMMED_MEAN d 0.4 0.6         => ,7.5
        TDIGEST.RANK d 7 7.5 8                 => [:-1 :0 :1]
        TDIGEST.REVRANK d 7 7.5 8              => [:1 :0 :-1]
        TDIGEST.BYRANK d 0 1 5                 => [,7.5 ,inf ,inf]
        TDIGEST.BYREVRANK d 0 1 5              => [,7.5 ,-inf ,-inf]
    '''),
    ('the examples of the documentation', '''
        TDIGEST.CREATE t COMPRESSION 1000      => OK
        TDIGEST.ADD t %(STEPS)s                => OK
        TDIGEST.CDF t 0 1 2 3 4 5 6            => [,0 ,0.033333333333333333 ,0.13333333333333333 ,0.29999999999999999 ,0.53333333333333333 ,0.83333333333333337 ,1]
        TDIGEST.QUANTILE t 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 => [,1 ,2 ,3 ,3 ,4 ,4 ,4 ,5 ,5 ,5 ,5]
        TDIGEST.QUANTILE t 1 0.1 0.5           => [,5 ,2 ,4]
        TDIGEST.BYRANK t 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15    => [,1 ,2 ,2 ,3 ,3 ,3 ,4 ,4 ,4 ,4 ,5 ,5 ,5 ,5 ,5 ,inf]
        TDIGEST.BYREVRANK t 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 => [,5 ,5 ,5 ,5 ,5 ,4 ,4 ,4 ,4 ,3 ,3 ,3 ,2 ,2 ,1 ,-inf]
        TDIGEST.CREATE s COMPRESSION 1000      => OK
        TDIGEST.ADD s 10 20 30 40 50 60        => OK
        TDIGEST.RANK s 0 10 20 30 40 50 60 70  => [:-1 :0 :1 :2 :3 :4 :5 :6]
        TDIGEST.REVRANK s 0 10 20 30 40 50 60 70 => [:6 :5 :4 :3 :2 :1 :0 :-1]
        TDIGEST.RESET s                        => OK
        TDIGEST.ADD s 10 10 10 10 20 20        => OK
        TDIGEST.RANK s 10 20                   => [:2 :5]
        TDIGEST.REVRANK s 10 20                => [:4 :1]
        TDIGEST.CREATE m COMPRESSION 1000      => OK
        TDIGEST.ADD m 1 2 3 4 5 6 7 8 9 10     => OK
        TDIGEST.TRIMMED_MEAN m 0.1 0.6         => ,4
        TDIGEST.TRIMMED_MEAN m 0.3 0.9         => ,6.5
        TDIGEST.TRIMMED_MEAN m 0 1             => ,5.5
        TDIGEST.MAX m                          => ,10
        TDIGEST.MIN m                          => ,1
    ''' % {'STEPS': STEPS}),
    ('between values', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.ADD d -1 0 0 1e3 2.5           => OK
        TDIGEST.RANK d -0.5 0 1 2.5 3          => [:1 :2 :3 :3 :4]
        TDIGEST.REVRANK d -0.5 0 1 2.5 3       => [:4 :3 :2 :1 :1]
        TDIGEST.CDF d -0.5 -0 1 999.9          => [,0.20000000000000001 ,0.40000000000000002 ,0.59999999999999998 ,0.80000000000000004]
        TDIGEST.TRIMMED_MEAN d 0.5 0.5000001   => ,0
        TDIGEST.TRIMMED_MEAN d 0.25 0.75       => ,0.83333333333333337
    '''),
    ('values from one end of the doubles to the other', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.ADD d -1.7976931348623157e308 1.7976931348623157e308 -0 5e-324 => OK
        TDIGEST.MIN d                          => ,-1.7976931348623157e+308
        TDIGEST.MAX d                          => ,1.7976931348623157e+308
        TDIGEST.BYRANK d 0 1 2 3               => [,-1.7976931348623157e+308 ,0 ,4.9406564584124654e-324 ,1.7976931348623157e+308]
        TDIGEST.TRIMMED_MEAN d 0 1             => ,0
        TDIGEST.CDF d -1e308 1e308 inf -inf    => [,0.25 ,0.75 ,1 ,0]
    '''),
    ('bad values change nothing', '''
        TDIGEST.CREATE d                       => OK
        TDIGEST.ADD d 1 2                      => OK
        TDIGEST.ADD d 3 x                      => -ERR T-Digest: error parsing val parameter
        TDIGEST.ADD d x 3                      => -ERR T-Digest: error parsing val parameter
        TDIGEST.ADD d 3 ""                     => -ERR T-Digest: error parsing val parameter
        TDIGEST.ADD d 3 nan                    => -ERR T-Digest: error parsing val parameter
        TDIGEST.ADD d 3 1e309                  => -ERR T-Digest: error parsing val parameter
        TDIGEST.ADD d 3 inf                    => -ERR T-Digest: val parameter needs to be a finite number
        TDIGEST.ADD d -inf 3                   => -ERR T-Digest: val parameter needs to be a finite number
        TDIGEST.MAX d                          => ,2
        TDIGEST.BYRANK d 1 2                   => [,2 ,inf]
        TDIGEST.QUANTILE d x                   => -ERR T-Digest: error parsing quantile
        TDIGEST.QUANTILE d 0.5 nan             => -ERR T-Digest: error parsing quantile
        TDIGEST.QUANTILE d 0.5 1.1             => -ERR T-Digest: quantile should be in [0,1]
        TDIGEST.QUANTILE d -0.5                => -ERR T-Digest: quantile should be in [0,1]
        TDIGEST.QUANTILE d inf                 => -ERR T-Digest: quantile should be in [0,1]
        TDIGEST.CDF d 1 x                      => -ERR T-Digest: error parsing cdf
        TDIGEST.RANK d 1 x                     => -ERR T-Digest: error parsing value
        TDIGEST.RANK d nan                     => -ERR T-Digest: error parsing value
        TDIGEST.REVRANK d x 1                  => -ERR T-Digest: error parsing value
        TDIGEST.BYRANK d 0.5                   => -ERR T-Digest: error parsing rank
        TDIGEST.BYRANK d 9223372036854775807 9223372036854775808 => -ERR T-Digest: error parsing rank
        TDIGEST.BYRANK d 0 -1                  => -ERR T-Digest: rank needs to be non negative
        TDIGEST.BYREVRANK d -1                 => -ERR T-Digest: rank needs to be non negative
        TDIGEST.BYREVRANK d x                  => -ERR T-Digest: error parsing rank
        TDIGEST.TRIMMED_MEAN d x 1             => -ERR T-Digest: error parsing low_cut_percentile
        TDIGEST.TRIMMED_MEAN d 0 x             => -ERR T-Digest: error parsing high_cut_percentile
        TDIGEST.TRIMMED_MEAN d 0 1.1           => -ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]
        TDIGEST.TRIMMED_MEAN d -0.1 1          => -ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]
        TDIGEST.TRIMMED_MEAN d 0.9 0.1         => -ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile
        TDIGEST.TRIMMED_MEAN d 0.5 0.5         => -ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile
    '''),
    ('digests that do not exist', '''
        TDIGEST.ADD none 1                     => %(NONE)s
        TDIGEST.RESET none                     => %(NONE)s
        TDIGEST.MIN none                       => %(NONE)s
        TDIGEST.MAX none                       => %(NONE)s
        TDIGEST.QUANTILE none 0.5              => %(NONE)s
        TDIGEST.CDF none 1                     => %(NONE)s
        TDIGEST.RANK none 1                    => %(NONE)s
        TDIGEST.REVRANK none 1                 => %(NONE)s
        TDIGEST.BYRANK none 1                  => %(NONE)s
        TDIGEST.BYREVRANK none 1               => %(NONE)s
        TDIGEST.TRIMMED_MEAN none 0 1          => %(NONE)s
        TDIGEST.INFO none                      => %(NONE)s
        TDIGEST.MERGE {t}to 1 {t}none          => %(NONE)s
        TDIGEST.MERGE {t}none 1 {t}none        => %(NONE)s
        EXISTS none {t}to {t}none              => :0
    ''' % {'NONE': NONE}),
    ('TDIGEST.MERGE', '''
        TDIGEST.CREATE {t}a COMPRESSION 50     => OK
        TDIGEST.CREATE {t}b COMPRESSION 200    => OK
        TDIGEST.MERGE {t}c 2 {t}a {t}b         => OK
        TDIGEST.MIN {t}c                       => ,nan
        TDIGEST.INFO {t}c                      => {+Compression :200 ? ? +"Merged nodes" :0 +"Unmerged nodes" :0 +"Merged weight" :0 +"Unmerged weight" :0 +Observations :0 ? ? ? ?}
        TDIGEST.ADD {t}a 1 2 3                 => OK
        TDIGEST.ADD {t}b 10 2                  => OK
        TDIGEST.MERGE {t}c 2 {t}a {t}b         => OK
        TDIGEST.BYRANK {t}c 0 1 2 3 4 5        => [,1 ,2 ,2 ,3 ,10 ,inf]
        TDIGEST.MERGE {t}c 1 {t}a              => OK
        TDIGEST.BYRANK {t}c 0 1 2 3 4 5 6 7 8  => [,1 ,1 ,2 ,2 ,2 ,3 ,3 ,10 ,inf]
        TDIGEST.MERGE {t}c 1 {t}c              => OK
        TDIGEST.INFO {t}c                      => {+Compression :200 ? ? ? ? ? ? ? ? ? ? +Observations :16 ? ? ? ?}
        tdigest.merge {t}c 2 {t}a {t}a override => OK
        TDIGEST.BYRANK {t}c 0 1 2 3 4 5 6      => [,1 ,1 ,2 ,2 ,3 ,3 ,inf]
        TDIGEST.INFO {t}c                      => {+Compression :50 ? ? ? ? ? ? ? ? ? ? +Observations :6 ? ? ? ?}
        TDIGEST.MERGE {t}c 2 {t}c {t}b OVERRIDE COMPRESSION 70 => OK
        TDIGEST.INFO {t}c                      => {+Compression :70 ? ? ? ? ? ? ? ? ? ? +Observations :8 ? ? ? ?}
        TDIGEST.MERGE {t}c 1 {t}b COMPRESSION 30 => OK
        TDIGEST.INFO {t}c                      => {+Compression :30 ? ? ? ? ? ? ? ? ? ? +Observations :10 ? ? ? ?}
        TDIGEST.MIN {t}c                       => ,1
        TDIGEST.MAX {t}c                       => ,10
        TDIGEST.BYRANK {t}a 0 1 2 3            => [,1 ,2 ,3 ,inf]
        EXPIRE {t}c 1000                       => :1
        TDIGEST.MERGE {t}c 1 {t}a              => OK
        TTL {t}c                               => :~1000
        TDIGEST.MERGE {t}c 1 {t}a OVERRIDE     => OK
        TTL {t}c                               => :-1
    '''),
    ('TDIGEST.MERGE: bad arguments', '''
        TDIGEST.CREATE {t}a                    => OK
        TDIGEST.MERGE {t}b 1 {t}a SIZE         => -ERR T-Digest: wrong keyword
        TDIGEST.MERGE {t}b 1 {t}a {t}a         => -ERR T-Digest: wrong keyword
        TDIGEST.MERGE {t}b 1 {t}a OVERRIDE x   => -ERR T-Digest: wrong keyword
        TDIGEST.MERGE {t}b 1 {t}a COMPRESSION x => -ERR T-Digest: error parsing compression parameter
        TDIGEST.MERGE {t}b 1 {t}a COMPRESSION 0 => -ERR T-Digest: compression parameter needs to be a positive integer
        TDIGEST.MERGE {t}b 1 {t}a COMPRESSION 10000000000000000000 => -ERR T-Digest: error parsing compression parameter
        TDIGEST.MERGE {t}b 1 {t}a COMPRESSION 10001 => -ERR T-Digest: the compression is too large: it must be at most 10000
        TDIGEST.MERGE {t}b 1 {t}a COMPRESSION  => -ERR wrong number of arguments for 'tdigest.merge' command
        EXISTS {t}b                            => :0
        TDIGEST.MERGE {t}override 1 {t}a OVERRIDE OVERRIDE => OK
    '''),
    ('TDIGEST.MERGE: bad numbers of keys', '''
        TDIGEST.CREATE {t}a                    => OK
        TDIGEST.MERGE {t}b x {t}a              => -ERR T-Digest: error parsing numkeys
        TDIGEST.MERGE {t}b 0 {t}a              => -ERR T-Digest: numkeys needs to be a positive integer
        TDIGEST.MERGE {t}b -1 {t}a             => -ERR T-Digest: numkeys needs to be a positive integer
        TDIGEST.MERGE {t}b 2 {t}a              => -ERR wrong number of arguments for 'tdigest.merge' command
        TDIGEST.MERGE {t}b 4294967297 {t}a     => -ERR wrong number of arguments for 'tdigest.merge' command
        EXISTS {t}b                            => :0
    ''', 'alone'),
    ('TDIGEST.MERGE that does not fit', '''
        TDIGEST.CREATE {t}a                    => OK
        TDIGEST.ADD {t}a 1 2                   => OK
        %(DOUBLE)s
        TDIGEST.INFO {t}a                      => {? ? ? ? ? ? ? ? +"Merged weight" :4611686018427387904 ? ? +Observations :4611686018427387904 ? ? ? ?}
        TDIGEST.MERGE {t}a 1 {t}a              => -ERR T-Digest: overflow detected
        TDIGEST.MERGE {t}b 2 {t}a {t}a         => -ERR T-Digest: overflow detected
        EXISTS {t}b                            => :0
        TDIGEST.RANK {t}a 0 1 1.5 2 3          => [:-1 :1152921504606846976 :2305843009213693952 :3458764513820540928 :4611686018427387904]
        TDIGEST.CDF {t}a 1 1.5 2               => [,0.25 ,0.5 ,0.75]
        TDIGEST.QUANTILE {t}a 0 0.49 0.5 1     => [,1 ,1 ,2 ,2]
        TDIGEST.TRIMMED_MEAN {t}a 0 1          => ,1.5
        TDIGEST.ADD {t}a 3                     => OK
        TDIGEST.MAX {t}a                       => ,3
    ''' % {'DOUBLE': '\n        '.join(['TDIGEST.MERGE {t}a 1 {t}a              => OK'] * 61)}, 'alone'),
    ('digests and other types', '''
        SET {t}s v                             => OK
        TDIGEST.CREATE {t}s                    => %(WRONG)s
        TDIGEST.ADD {t}s 1                     => %(WRONG)s
        TDIGEST.RESET {t}s                     => %(WRONG)s
        TDIGEST.MIN {t}s                       => %(WRONG)s
        TDIGEST.MAX {t}s                       => %(WRONG)s
        TDIGEST.QUANTILE {t}s 0.5              => %(WRONG)s
        TDIGEST.CDF {t}s 1                     => %(WRONG)s
        TDIGEST.RANK {t}s 1                    => %(WRONG)s
        TDIGEST.REVRANK {t}s 1                 => %(WRONG)s
        TDIGEST.BYRANK {t}s 1                  => %(WRONG)s
        TDIGEST.BYREVRANK {t}s 1               => %(WRONG)s
        TDIGEST.TRIMMED_MEAN {t}s 0 1          => %(WRONG)s
        TDIGEST.INFO {t}s                      => %(WRONG)s
        TDIGEST.CREATE {t}d                    => OK
        TDIGEST.MERGE {t}s 1 {t}d              => %(WRONG)s
        TDIGEST.MERGE {t}s 1 {t}d OVERRIDE     => %(WRONG)s
        TDIGEST.MERGE {t}e 1 {t}s              => %(WRONG)s
        TDIGEST.MERGE {t}e 2 {t}d {t}s         => %(WRONG)s
        GET {t}d                               => %(WRONG)s
        CMS.INCRBY {t}d a 1                    => %(WRONG)s
        SET {t}d v                             => OK
        GET {t}d                               => "v"
    ''' % {'WRONG': WRONG}),
    ('keys with digests are keys as others', '''
        TDIGEST.CREATE {t}f COMPRESSION 10     => OK
        TDIGEST.ADD {t}f 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 => OK
        TDIGEST.ADD {t}f 100                   => OK
        COPY {t}f {t}g                         => :1
        TDIGEST.ADD {t}g 200                   => OK
        TDIGEST.MAX {t}f                       => ,100
        TDIGEST.QUANTILE {t}f 0 1              => [,1 ,100]
        TDIGEST.QUANTILE {t}g 0 1              => [,1 ,200]
        RENAME {t}g {t}h                       => OK
        TDIGEST.RANK {t}h 0 300                => [:-1 :22]
        EXPIRE {t}h 1000                       => :1
        TDIGEST.ADD {t}h 0                     => OK
        TTL {t}h                               => :~1000
        TDIGEST.RESET {t}h                     => OK
        TTL {t}h                               => :~1000
        TDIGEST.MIN {t}h                       => ,nan
        TDIGEST.INFO {t}h                      => {+Compression :10 +Capacity :70 +"Merged nodes" :0 +"Unmerged nodes" :0 +"Merged weight" :0 +"Unmerged weight" :0 +Observations :0 +"Total compressions" :0 +"Memory usage" :40}
        PERSIST {t}h                           => :1
        SCAN 0 TYPE TDIS-TYPE COUNT 10000      => ?*
        MEMORY USAGE {t}h                      => ?:
        DISK USAGE {t}f                        => ?:
        DEL {t}h                               => :1
        TDIGEST.MIN {t}h                       => %(NONE)s
    ''' % {'NONE': NONE}),
    ('keyspace events of digests', '''
        TDIGEST.CREATE f            => OK
        TDIGEST.ADD f 1 2           => OK
        TDIGEST.MERGE g 1 f         => OK
        TDIGEST.RESET f             => OK
        TDIGEST.MIN f               => ,nan
        (events) => [tdigest.create:f tdigest.add:f tdigest.merge:g tdigest.reset:f]
    ''', 'alone'),
]
