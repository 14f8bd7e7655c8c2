"""behaviours_values: strings and hashes. (title, script[, only these targets])"""

CASES = [
    ('1 WRONGTYPE before anything else; SET overwrites any type', '''
        HSET h f v
        GET h
        INCR h
        INCRBY h 2
        INCRBYFLOAT h 1.5
        APPEND h x
        STRLEN h
        GETRANGE h 0 1
        SETRANGE h 1 x
        SETRANGE h -1 x
        GETSET h x
        GETDEL h
        GETEX h
        GETEX h EX 0
        SET h x GET
        SET h x NX GET
        HGET h f
        SETNX h x
        MGET h h
        SET h plain
        TYPE h
        HGET h f
        HSET h f v
        HDEL h f
        HLEN h
        HGETALL h
        HKEYS h
        HMGET h f
        HINCRBY h f 1
        HINCRBY h f notanumber
        HINCRBYFLOAT h f 1
        HINCRBYFLOAT h f notanumber
        HSETNX h f v
        HSTRLEN h f
        HEXISTS h f
        HRANDFIELD h
        HRANDFIELD h 3
        HSCAN h 0
        HSCAN h abc
        LCS h h'''),
    ('2 replies for missing keys', '''
        GET no
        GETRANGE no 0 -1
        SUBSTR no 0 -1
        STRLEN no
        GETDEL no
        GETEX no
        GETEX no PERSIST
        GETSET no x
        DEL no
        APPEND no ""
        TYPE no
        EXISTS no
        APPEND no x
        TYPE no2
        HGET no2 f
        HMGET no2 a b
        HGETALL no2
        HKEYS no2
        HVALS no2
        HLEN no2
        HSTRLEN no2 f
        HEXISTS no2 f
        HDEL no2 f
        HRANDFIELD no2
        HRANDFIELD no2 5
        HRANDFIELD no2 -5
        HRANDFIELD no2 5 WITHVALUES
        HSCAN no2 0
        MGET no2 no2
        TTL no2
        PTTL no2
        EXPIRETIME no2
        PEXPIRETIME no2
        PERSIST no2
        EXPIRE no2 100
        OBJECT ENCODING no2
        OBJECT REFCOUNT no2
        OBJECT IDLETIME no2
        DUMP no2
        RENAME {no2}a {no2}b
        RENAMENX {no2}a {no2}b
        COPY {no2}a {no2}b
        TOUCH no2
        UNLINK no2
        LCS {no2}a {no2}b
        LCS {no2}a {no2}b LEN
        LCS {no2}a {no2}b IDX
        RANDOMKEY'''),
    ('3 arity errors name the command in lower case, with its container', '''
        GET
        get a b
        Set a
        HSET h
        HSET h f
        HSET h f v g
        HMSET h f v g
        HMSET h f
        MSET a
        MSET a 1 b
        MSETNX {m}a 1 {m}b
        CLIENT
        CLIENT KILL
        CLIENT SETNAME
        client setname a b
        OBJECT
        OBJECT ENCODING
        object encoding a b
        INCR
        SELECT
        DISCARD x
        EXEC x
        MULTI x
        WATCH
        HELLO
        PING a b
        ECHO
        COPY a
        LCS a
        SCAN
        KEYS
        RANDOMKEY x
        DBSIZE x
        RESTORE a 0
        GETEX
        HRANDFIELD
        HRANDFIELD h 1 WITHVALUES x'''),
    ('3 unknown commands quote their arguments', '''
        FOO
        FOO bar baz
        foo "two words" ""
        FOO <y*200>
        FOO <y*100> <z*100> a
        <x*200> a
        "" a
        "a b" c
        "FOO\\r\\nBAR" x
        FOO "a\\r\\nb" c
        FOO 'q'
        FOO 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
        GETT a
        GE a'''),
    ('3 unknown subcommands', '''
        CLIENT NOPE
        CLIENT nope a b
        OBJECT NOPE a
        OBJECT "n\\r\\nope" a
        OBJECT <x*200>
        CONFIG NOPE
        COMMAND NOPE'''),
    ('4 SET options', '''
        SET k v NX GET
        SET k w NX GET
        GET k
        SET k x XX GET
        SET k y NX XX
        SET k y EX 10 KEEPTTL
        SET k y EX 10 PX 10
        SET k y EX
        SET k y EX 0
        SET k y EX -1
        SET k y PX 0
        SET k y EXAT 0
        SET k y PXAT -5
        SET k y EX 9223372036854775807
        SET k y PX 9223372036854775807
        SET k y EX abc
        SET k y EX ""
        SET k y PERSIST
        SET k y FOO
        SET k y GET GET
        SET k y KEEPTTL KEEPTTL
        SET k y NX NX
        SET missing y XX
        SET missing y XX GET
        SET missing y GET
        GET missing
        SET k v EX 5000
        TTL k
        SET k v KEEPTTL
        TTL k
        SET k v XX KEEPTTL GET
        TTL k
        SET k v
        TTL k
        SET k v pxat 4102444800000
        PEXPIRETIME k
        SET k v exat 4102444800
        EXPIRETIME k
        SET k v NX EX 100
        EXPIRETIME k
        SET k v EXAT 1
        EXISTS k
        SET k v PXAT 1 GET
        EXISTS k
        SET k v XX EXAT 1'''),
    ('4 SETEX, PSETEX, GETEX and their errors', '''
        SETEX k 0 v
        SETEX k -1 v
        SETEX k abc v
        SETEX k 9223372036854775807 v
        PSETEX k 0 v
        PSETEX k 9223372036854775807 v
        SETEX k 1000 v
        TTL k
        GETEX k
        TTL k
        GETEX k PERSIST
        TTL k
        GETEX k EX 500
        TTL k
        GETEX k PX 900000
        TTL k
        GETEX k EXAT 4102444800
        EXPIRETIME k
        GETEX k PXAT 4102444800123
        PEXPIRETIME k
        GETEX k EX 0
        GETEX k EX -1
        GETEX k EX abc
        GETEX k PERSIST EX 10
        GETEX k EX 10 PERSIST
        GETEX k NX
        GETEX k KEEPTTL
        GETEX k GET
        GETEX k EX
        GETEX k EXAT 1
        EXISTS k
        SETNX k a
        SETNX k b
        GET k'''),
    ('5 GETSET, GETDEL, SET drop the TTL; INCR, APPEND, SETRANGE keep it', '''
        SET k 5 EX 5000
        INCR k
        TTL k
        APPEND k 0
        TTL k
        SETRANGE k 0 7
        TTL k
        INCRBYFLOAT k 1.5
        TTL k
        DECRBY k 1
        GETRANGE k 0 -1
        TTL k
        GETSET k new
        TTL k
        SET k 5 EX 5000
        GETDEL k
        TTL k
        HSET h f v
        EXPIRE h 5000
        HSET h g w
        TTL h
        HINCRBY h n 1
        TTL h
        HINCRBYFLOAT h n 0.5
        TTL h
        HDEL h g
        TTL h
        HSETNX h z 1
        TTL h
        MSET k a
        EXPIRE k 1000
        MSET k b
        TTL k'''),
    ('9 the last HDEL deletes the key and its TTL', '''
        HSET h a 1 b 2
        EXPIRE h 1000
        HDEL h a nope a
        EXISTS h
        HDEL h b
        EXISTS h
        TYPE h
        TTL h
        HSET h a 1
        TTL h
        HDEL h a b c'''),
    ('10 SETRANGE', '''
        SETRANGE no 0 ""
        SETRANGE no 10 ""
        EXISTS no
        SETRANGE no 5 abc
        GET no
        SET k Hello
        SETRANGE k 1 ""
        SETRANGE k 1 i
        SETRANGE k 7 World
        GET k
        SETRANGE k -1 x
        SETRANGE k -1 ""
        SETRANGE k 536870912 x
        SETRANGE k 536870911 xy
        SETRANGE k 9223372036854775807 x
        SETRANGE k 9223372036854775808 x
        SETRANGE k abc x
        SETRANGE k 536870912 ""
        SETRANGE new 2000 x
        STRLEN new
        GETRANGE new 1998 -1
        SETRANGE new 1023 ab
        GETRANGE new 1022 1025
        SET i 12345
        SETRANGE i 1 x
        GET i
        STRLEN i'''),
    ('10 APPEND', '''
        APPEND k a
        APPEND k ""
        APPEND k bc
        GET k
        SET n 10
        APPEND n 5
        INCR n
        APPEND n x
        INCR n
        APPEND big <0..9*3000>
        APPEND big <0..9*3000>
        STRLEN big
        GETRANGE big 2990 3010
        GET big'''),
    ('11 GETRANGE clamps its indices', '''
        SET k 0123456789
        GETRANGE k 0 3
        GETRANGE k -3 -1
        GETRANGE k 0 -1
        GETRANGE k 5 2
        GETRANGE k -1 -5
        GETRANGE k 10 20
        GETRANGE k 8 200
        GETRANGE k -100 2
        GETRANGE k -100 -50
        GETRANGE k 0 -100
        GETRANGE k 9223372036854775807 9223372036854775807
        GETRANGE k -9223372036854775808 9223372036854775807
        GETRANGE k 0 9223372036854775808
        GETRANGE k a b
        SUBSTR k 2 4
        SET k 12345
        GETRANGE k 1 2
        SET k ""
        GETRANGE k 0 -1
        GETRANGE k 0 0'''),
    ('13 INCRBYFLOAT', '''
        INCRBYFLOAT k 0.1
        INCRBYFLOAT k 0.2
        SET k 3.0e3
        INCRBYFLOAT k 200
        SET k 5
        INCRBYFLOAT k 0
        INCRBYFLOAT k 1e2
        INCRBYFLOAT k -5.5e1
        INCRBYFLOAT k abc
        INCRBYFLOAT k ""
        INCRBYFLOAT k " 1"
        INCRBYFLOAT k "1 "
        INCRBYFLOAT k inf
        INCRBYFLOAT k -inf
        INCRBYFLOAT k nan
        INCRBYFLOAT k 1e5000
        INCRBYFLOAT k 0x10
        INCRBYFLOAT k -0
        SET k " 11"
        INCRBYFLOAT k 1
        SET k "11 "
        INCRBYFLOAT k 1
        SET k ""
        INCRBYFLOAT k 1
        SET k inf
        INCRBYFLOAT k 1
        SET k 1e4932
        INCRBYFLOAT k 1e4932
        INCRBYFLOAT k 1e4932
        INCRBYFLOAT k 1e4932
        SET k 1
        INCRBYFLOAT k 1e17
        SET k 1.5
        INCRBYFLOAT k -1.5
        SET k 0.000001
        INCRBYFLOAT k 0.0000001
        SET k 1e-18
        INCRBYFLOAT k 0
        SET k 17179869184
        INCRBYFLOAT k 1.5
        SET k 3.14159265358979323846
        INCRBYFLOAT k 0
        SET k 1
        INCRBYFLOAT k -1.1
        GET k
        INCR k'''),
    ('13 HINCRBYFLOAT', '''
        HSET h f 5.0e3
        HINCRBYFLOAT h f 2.0e2
        HINCRBYFLOAT h f 0.1
        HINCRBYFLOAT h new 10.50
        HINCRBYFLOAT h new -10.5
        HGET h new
        HSET h s abc
        HINCRBYFLOAT h s 1
        HINCRBYFLOAT h f abc
        HINCRBYFLOAT h f ""
        HINCRBYFLOAT h f inf
        HINCRBYFLOAT h f nan
        HSET h s ""
        HINCRBYFLOAT h s 1
        HSET h s " 1"
        HINCRBYFLOAT h s 1
        HSET h s "1 "
        HINCRBYFLOAT h s 1
        HSET h s 1e4932
        HINCRBYFLOAT h s 1e4932
        HINCRBYFLOAT h s 1e4932
        HSTRLEN h s
        HSET h s inf
        HINCRBYFLOAT h s 1
        HSET h s nan
        HINCRBYFLOAT h s 1
        HINCRBYFLOAT no f abc
        EXISTS no'''),
    ('14 INCR and DECR take strict integers only', '''
        SET k " 1"
        INCR k
        SET k "1 "
        INCR k
        SET k +1
        INCR k
        SET k 01
        INCR k
        SET k -0
        INCR k
        SET k ""
        INCR k
        SET k 1.0
        INCR k
        SET k 9223372036854775807
        INCR k
        DECR k
        INCRBY k 1
        INCRBY k 1
        SET k -9223372036854775808
        DECR k
        INCR k
        DECRBY k 1
        DECRBY k 1
        SET k 9223372036854775808
        INCR k
        SET k 0
        DECRBY k -9223372036854775808
        INCRBY k -9223372036854775808
        INCRBY k -1
        INCRBY k abc
        INCRBY k " 1"
        INCRBY k 1.5
        INCRBY k ""
        INCRBY k +1
        INCRBY k 01
        INCRBY k 9223372036854775808
        DECRBY k 9223372036854775808
        DECRBY no -9223372036854775808
        EXISTS no
        SET k 123456789012345678901
        INCR k
        INCR fresh
        DECR fresh
        DECRBY fresh 10
        SET k "1\\x00"
        INCR k
        SET k 10
        APPEND k 0
        INCR k'''),
    ('14 HINCRBY', '''
        HINCRBY h f 1
        HINCRBY h f -2
        HSET h s abc
        HINCRBY h s 1
        HSET h s " 1"
        HINCRBY h s 1
        HSET h s ""
        HINCRBY h s 1
        HSET h s 9223372036854775807
        HINCRBY h s 1
        HINCRBY h s -1
        HSET h s -9223372036854775808
        HINCRBY h s -1
        HINCRBY h s abc
        HINCRBY h s 9223372036854775808
        HINCRBY h s -9223372036854775808
        HINCRBY h new -9223372036854775808
        HINCRBY no f abc
        EXISTS no
        HGETALL h'''),
    ('20 OBJECT ENCODING of new values', '''
        SET k 123
        OBJECT ENCODING k
        SET k -9223372036854775808
        OBJECT ENCODING k
        SET k 9223372036854775808
        OBJECT ENCODING k
        SET k 007
        OBJECT ENCODING k
        SET k <x*44>
        OBJECT ENCODING k
        SET k <x*45>
        OBJECT ENCODING k
        SET k ""
        OBJECT ENCODING k
        SET k 3.14
        OBJECT ENCODING k
        SET k 10
        INCR k
        OBJECT ENCODING k
        HSET h f v
        OBJECT ENCODING h
        HSET h f <x*64>
        OBJECT ENCODING h
        HSET h f <x*65>
        OBJECT ENCODING h
        HSET g <f*65> v
        OBJECT ENCODING g
        SET k foo
        OBJECT REFCOUNT k
        OBJECT FREQ k
        OBJECT IDLETIME k
        !kind OBJECT HELP'''),
    ('hashes: HSET counts new fields, HMSET replies OK', '''
        HSET h a 1 b 2 a 3
        HSET h a 4 c 5
        HMSET h a 6 d 7
        HGET h a
        HMGET h a nope b a
        HLEN h
        HSTRLEN h d
        HSTRLEN h nope
        HEXISTS h a
        HEXISTS h nope
        HSETNX h a x
        HSETNX h e x
        HVALS h
        HKEYS h
        HGETALL h
        HSET h "" empty "\\x00\\r\\n" "\\xff"
        HGET h ""
        HGET h "\\x00\\r\\n"
        HDEL h "" a a
        HLEN h
        HSET h A 1
        HGET h a'''),
    ('hashes: HRANDFIELD arguments', '''
        HSET h f v
        HRANDFIELD h
        HRANDFIELD h 1
        HRANDFIELD h 5
        HRANDFIELD h -3
        HRANDFIELD h 0
        HRANDFIELD h 5 WITHVALUES
        HRANDFIELD h -3 WITHVALUES
        HRANDFIELD h 0 WITHVALUES
        HRANDFIELD h abc
        HRANDFIELD h 1.5
        HRANDFIELD h 1 NOPE
        HRANDFIELD h 1 WITHVALUES NOPE
        HRANDFIELD h -9223372036854775808
        HRANDFIELD h -9223372036854775808 WITHVALUES
        HRANDFIELD h 9223372036854775807 WITHVALUES
        HRANDFIELD h -9223372036854775807 WITHVALUES
        HRANDFIELD no 9223372036854775808'''),
    ('22 HSCAN of a small hash gives all fields at once', '''
        HSET h f v
        HSCAN h 0
        HSCAN h 0 MATCH f*
        HSCAN h 0 MATCH x*
        HSCAN h 0 COUNT 1
        HSCAN h 0 COUNT 0
        HSCAN h 0 COUNT -5
        HSCAN h 0 COUNT abc
        HSCAN h 0 NOPE
        HSCAN h 0 MATCH
        HSCAN h 0 TYPE hash
        HSCAN h abc
        HSCAN h ""
        HSCAN h -1
        HSCAN h "0 "
        HSCAN no 0
        HSCAN no abc
        HSCAN no 0 COUNT 0'''),
    ('strings: LCS', '''
        MSET {l}a ohmytext {l}b mynewtext
        LCS {l}a {l}b
        LCS {l}a {l}b LEN
        LCS {l}a {l}b IDX
        LCS {l}a {l}b IDX MINMATCHLEN 4
        LCS {l}a {l}b IDX MINMATCHLEN 4 WITHMATCHLEN
        LCS {l}a {l}b WITHMATCHLEN
        LCS {l}a {l}b MINMATCHLEN 4
        LCS {l}a {l}b LEN IDX
        LCS {l}a {l}b MINMATCHLEN abc
        LCS {l}a {l}b MINMATCHLEN -1 IDX
        LCS {l}a {l}b MINMATCHLEN
        LCS {l}a {l}b NOPE
        LCS {l}a {l}a IDX WITHMATCHLEN
        LCS {l}a {l}none IDX
        HSET {l}h f v
        LCS {l}a {l}h
        LCS {l}none {l}h
        SET {l}n 12345
        LCS {l}n {l}a LEN'''),
    ('29 MSETNX is all or none; MSET repeats: the last wins; DEL and EXISTS count', '''
        MSETNX {m}a 1 {m}b 2
        MSETNX {m}b 3 {m}c 4
        MGET {m}a {m}b {m}c
        MSETNX {m}d 1 {m}d 2
        GET {m}d
        MSET x 1 x 2
        GET x
        EXISTS x x nope
        TOUCH x x nope
        DEL x x
        MSET a 1 b 2 c 3 d 4 e 5 f 6
        MGET f e d c b a nope f
        EXISTS a b c d e f a
        UNLINK a b nope a
        MGET a b c
        DEL c d e f
        HSET h f v
        MGET h
        MSET h now-a-string
        TYPE h'''),
    ('values of many sizes are read back unchanged', '''
        SET s0 ""
        SET s1 <0..9*1023>
        SET s2 <0..9*1024>
        SET s3 <0..9*1025>
        SET s4 <0..9*16383>
        SET s5 <0..9*16384>
        SET s6 <0..9*65536>
        SET s7 <0..9*300000>
        MGET s0 s1 s2 s3 s4 s5 s6 s7
        STRLEN s7
        GETRANGE s7 65530 65540
        SETRANGE s7 299999 ab
        GETRANGE s7 299990 -1
        HSET h big <0..9*300000>
        HGET h big
        HSTRLEN h big'''),
]
