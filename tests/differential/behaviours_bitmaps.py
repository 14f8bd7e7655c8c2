"""behaviours_bitmaps: bits of strings, long and sparse strings, HyperLogLogs. (title, script[, only these targets])"""

CASES = [
    ('a string with one bit at a high offset gives the replies of a long string', '''
        SETBIT k 67108863 1
        STRLEN k
        TYPE k
        BITCOUNT k
        BITPOS k 1
        BITPOS k 0
        BITPOS k 1 -1
        BITPOS k 0 8388600 -1
        BITCOUNT k 0 -2
        BITCOUNT k -1 -1 BIT
        GETRANGE k -3 -1
        GETRANGE k 0 3
        GETBIT k 67108862
        GETBIT k 67108863
        GETBIT k 67108864
        SETBIT k 67108863 0
        BITCOUNT k
        BITPOS k 1
        BITPOS k 0
        STRLEN k
        OBJECT ENCODING k
        INCR k
        INCRBYFLOAT k 1
        SETBIT k 9 1
        SETBIT k 40000 1
        BITPOS k 1 3
        BITPOS k 0 1 1 BIT
        APPEND k tail
        GETRANGE k -6 -1
        COPY k copy{k}
        RENAME copy{k} other{k}
        BITCOUNT other{k}
        STRLEN other{k}
        SETBIT other{k} 9 0
        BITCOUNT other{k}
        BITCOUNT k
        GETSET k short
        GET k'''),
    ('BITOP over sparse strings, also with the destination among the sources', '''
        SETBIT {t}a 8000000 1
        SETBIT {t}b 8000000 1
        SETBIT {t}b 400000 1
        SETBIT {t}c 3 1
        BITOP AND {t}d {t}a {t}b
        BITCOUNT {t}d
        BITPOS {t}d 1
        BITOP OR {t}d {t}a {t}b {t}c {t}none
        BITCOUNT {t}d
        BITOP AND {t}d {t}a {t}b {t}none
        BITCOUNT {t}d
        STRLEN {t}d
        BITOP XOR {t}b {t}a {t}b
        BITCOUNT {t}b
        BITPOS {t}b 1
        BITOP NOT {t}a {t}a
        BITCOUNT {t}a
        BITPOS {t}a 0
        EXPIRE {t}a 1000
        BITOP OR {t}a {t}c
        TTL {t}a
        GET {t}a
        BITOP OR {t}a {t}none
        EXISTS {t}a
        HSET {t}h f v
        BITOP OR {t}h {t}c
        TYPE {t}h
        BITOP NOT {t}c {t}none
        EXISTS {t}c'''),
    ('a string that grows keeps its bytes and its TTL', '''
        SET k <0..9*2000> EX 1000
        APPEND k <x*47>
        APPEND k y
        APPEND k z
        STRLEN k
        !ttl TTL k
        GET k
        SETRANGE k 9000 far
        GETRANGE k 2040 2060
        GETRANGE k 8990 9005
        GET k
        DUMP k
        SETRANGE k 20000 ""
        STRLEN k
        SETRANGE k 4095 <0..9*1030>
        GET k
        MGET k none k
        GETEX k PERSIST
        TTL k
        SET k new KEEPTTL GET
        GET k'''),
    ('a seat map of two bits a seat: pairs of SETBIT, slices by GETRANGE', '''
        SETBIT seats 20001 1
        SETBIT seats 20000 0
        SETBIT seats 40002 1
        SETBIT seats 40003 1
        GETRANGE seats 2498 2503
        GETRANGE seats 4999 5001
        BITFIELD seats GET u2 #10000 GET u2 #20001 SET u2 #20001 2 GET u2 #20001
        BITCOUNT seats
        BITFIELD_RO seats GET u2 #30000 GET u8 40000'''),
    ('BITFIELD checks all its arguments before it changes anything', '''
        BITFIELD k SET u8 0 255 GET u64 0
        EXISTS k
        BITFIELD k SET u8 0 255 NOPE
        EXISTS k
        BITFIELD k OVERFLOW FAIL SET u8 100 256
        STRLEN k
        BITFIELD k OVERFLOW SAT INCRBY i8 0 200 OVERFLOW WRAP INCRBY i8 0 1 OVERFLOW FAIL INCRBY i8 0 -1
        BITFIELD k SET i8 #1 -129 SET u8 #2 -1 GET i8 #1 GET u8 #2
        BITFIELD k OVERFLOW SAT SET i13 0 -9223372036854775808 GET i13 0
        BITFIELD k SET i64 4 -9223372036854775808 GET i64 4 INCRBY i64 4 -1
        BITFIELD k SET u63 1 9223372036854775807 INCRBY u63 1 1
        GET k
        BITFIELD k
        BITFIELD k OVERFLOW FAIL
        BITFIELD_RO k SET u8 0 1
        BITFIELD_RO k SET u8 0 x
        BITFIELD_RO k OVERFLOW FAIL
        BITFIELD k GET u8 4294967295
        BITFIELD k GET u8 4294967296
        BITFIELD k GET u8 #536870912'''),
    ('HyperLogLogs: bytes, cache, promotion, merging', '''
        PFADD p
        GET p
        PFCOUNT p
        PFADD p a b c
        PFADD p a
        GET p
        PFCOUNT p
        GET p
        PFDEBUG DECODE p
        PFDEBUG ENCODING p
        PFMERGE p2
        GET p2
        PFMERGE p2 p2
        PFDEBUG TODENSE p
        PFDEBUG TODENSE p
        PFDEBUG DECODE p
        PFADD p d
        PFCOUNT p
        PFADD p d
        GET p
        STRLEN p
        CONFIG SET hll-sparse-max-bytes 20
        PFADD small 1 2 3
        PFDEBUG ENCODING small
        CONFIG SET hll-sparse-max-bytes 3000
        PFSELFTEST''', ['direct']),
    ('HyperLogLogs: values that are none', '''
        SET k text
        PFADD k a
        PFCOUNT k
        PFMERGE d{k} k
        HSET h f v
        PFADD h a
        PFCOUNT h
        SET k 12
        PFADD k a
        SETRANGE bad 0 "HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xfe"
        PFCOUNT bad
        PFCOUNT bad bad
        PFMERGE bad bad
        PFADD bad a
        GET bad
        PFADD cut a
        APPEND cut x
        PFCOUNT cut
        PFMERGE cut cut
        PFADD cut b
        GET cut
        PFCOUNT none
        PFCOUNT none none'''),
]
