"""behaviours_keys: the keyspace and transactions. (title, script[, only these targets])"""

CASES = [
    ('5 EXPIRE: past times delete, conditions, overflow', '''
        SET k v
        EXPIRE k -1
        EXISTS k
        SET k v
        EXPIRE k 0
        EXISTS k
        SET k v
        PEXPIREAT k 1
        EXISTS k
        SET k v
        EXPIRE k 100 GT
        TTL k
        EXPIRE k 100 LT
        TTL k
        PERSIST k
        EXPIRE k 100 XX
        EXPIRE k 100 NX
        EXPIRE k 200 NX
        EXPIRE k 200 XX
        TTL k
        EXPIRE k 100 GT
        EXPIRE k 300 GT
        TTL k
        EXPIRE k 400 LT
        EXPIRE k 50 LT
        TTL k
        EXPIRE k 60 XX GT
        EXPIRE k 60 NX XX
        EXPIRE k 60 NX GT
        EXPIRE k 60 NX LT
        EXPIRE k 60 GT LT
        EXPIRE k 60 NOPE
        EXPIRE k 60 XX XX
        EXPIRE k abc
        EXPIRE k ""
        EXPIRE k 1.5
        EXPIRE k 9223372036854775807
        EXPIRE k -9223372036854775808
        EXPIRE k 9223372036854775808
        PEXPIRE k 9223372036854775807
        PEXPIRE k 9223372036854775000
        EXPIREAT k 9223372036854775807
        EXPIREAT k 9223372036854775
        PEXPIREAT k 9223372036854775807
        PEXPIRETIME k
        EXPIRETIME k
        TTL k
        EXPIRE k -5 GT
        EXISTS k
        EXPIRE k -5 XX
        EXISTS k
        EXPIRE no abc
        EXPIRE no 9223372036854775807'''),
    ('5 PERSIST, TTL and PTTL, EXPIRETIME', '''
        SET k v
        TTL k
        PTTL k
        EXPIRETIME k
        PERSIST k
        PEXPIREAT k 4102444800500
        EXPIRETIME k
        PEXPIRETIME k
        PERSIST k
        PERSIST k
        TTL k
        EXPIREAT k 4102444800
        PEXPIRETIME k
        PEXPIRE k 5000500
        TTL k'''),
    ('6 an expired key is gone for every command', '''
        SET {e}k 5 PX 5
        HSET {e}h f v
        PEXPIRE {e}h 5
        !gone {e}k
        !gone {e}h
        GET {e}k
        TYPE {e}k
        TYPE {e}h
        TTL {e}k
        STRLEN {e}k
        OBJECT ENCODING {e}k
        HGETALL {e}h
        KEYS *
        DBSIZE
        RANDOMKEY
        SCAN 0 COUNT 100
        RENAME {e}k {e}other
        COPY {e}h {e}other
        DUMP {e}k
        PERSIST {e}k
        EXPIRE {e}k 100
        SET {e}k v XX
        GETSET {e}h now-a-string
        INCRBY {e}k 3
        TTL {e}k
        SET {e}k 5 PX 5
        !gone {e}k
        APPEND {e}k x
        TTL {e}k
        SET {e}k 5 PX 5
        !gone {e}k
        SETNX {e}k new
        TTL {e}k
        SET {e}k 5 PX 5
        !gone {e}k
        HSET {e}k f v
        TYPE {e}k
        TTL {e}k
        MSETNX {e}k 1 {e}z 2
        HSET {e}gone a 1
        PEXPIRE {e}gone 5
        !gone {e}gone
        HSET {e}gone b 2
        HGETALL {e}gone
        TTL {e}gone
        DEL {e}gone {e}never'''),
    ('19 RENAME and RENAMENX', '''
        SET {r}a 1
        RENAME {r}a {r}a
        RENAMENX {r}a {r}a
        RENAME {r}no {r}no
        RENAMENX {r}no {r}no
        RENAME {r}no {r}b
        RENAME {r}a {r}b
        EXISTS {r}a {r}b
        SET {r}a 2 EX 1000
        RENAMENX {r}a {r}b
        RENAME {r}a {r}b
        TTL {r}b
        GET {r}b
        HSET {r}h f v
        RENAME {r}h {r}b
        TYPE {r}b
        TTL {r}b
        HGETALL {r}b
        RENAMENX {r}b {r}c
        HGETALL {r}c
        EXISTS {r}b
        HSET {r}c g w
        RENAME {r}c {r}d
        HGETALL {r}d
        DBSIZE'''),
    ('19 COPY', '''
        SET {c}a 1 EX 1000
        COPY {c}a {c}a
        COPY {c}a {c}b
        TTL {c}b
        COPY {c}a {c}b
        SET {c}a 2
        COPY {c}a {c}b REPLACE
        GET {c}b
        TTL {c}b
        COPY {c}no {c}b
        COPY {c}no {c}b REPLACE
        GET {c}b
        HSET {c}h f v
        COPY {c}h {c}b REPLACE
        HSET {c}b g w
        HGETALL {c}h
        HGETALL {c}b
        COPY {c}a {c}b NOPE
        COPY {c}a {c}b DB
        COPY {c}a {c}b DB abc
        COPY {c}a {c}b DB -1
        COPY {c}a {c}b DB 16
        COPY {c}a {c}b DB 99999999999
        COPY {c}a {c}a DB 0
        COPY {c}a {c}a DB 1
        COPY {c}a {c}a DB 1
        COPY {c}a {c}a DB 1 REPLACE
        SELECT 1
        GET {c}a
        FLUSHDB
        SELECT 0'''),
    ('22 SCAN arguments', '''
        SET k v
        SCAN 0 COUNT 0
        SCAN 0 COUNT -1
        SCAN 0 COUNT abc
        SCAN 0 NOPE
        SCAN 0 MATCH
        SCAN abc
        SCAN ""
        SCAN -1
        SCAN " 0"
        SCAN 18446744073709551616
        SCAN 0x0
        SCAN 0 TYPE'''),
    ('22 SCAN of one key', '''
        SET k v
        SCAN 0 COUNT 1000
        SCAN 0 COUNT 1000 MATCH k
        SCAN 0 COUNT 1000 MATCH x
        SCAN 0 COUNT 1000 TYPE string
        SCAN 0 COUNT 1000 TYPE STRING
        SCAN 0 COUNT 1000 TYPE hash
        SCAN 0 COUNT 1000 TYPE nosuchtype''', ['direct']),
    ('28 patterns of KEYS', '''
        MSET hello 1 hallo 2 hxllo 3 hllo 4 heello 5 "h*llo" 6 "h?llo" 7 "h[llo" 8 "" 9 "a\\\\b" 10 "\\x00\\xff" 11
        !unordered KEYS *
        !unordered KEYS h?llo
        !unordered KEYS h*llo
        !unordered KEYS h[ae]llo
        !unordered KEYS h[^e]llo
        !unordered KEYS h[a-b]llo
        !unordered KEYS h[b-a]llo
        !unordered KEYS h\\*llo
        !unordered KEYS h\\?llo
        !unordered KEYS "h\\\\[llo"
        !unordered KEYS h[
        !unordered KEYS h[e
        !unordered KEYS h[]llo
        !unordered KEYS h[\\e]llo
        !unordered KEYS ""
        !unordered KEYS ?
        !unordered KEYS **
        !unordered KEYS *llo
        !unordered KEYS "a\\\\\\\\b"
        !unordered KEYS a[\\\\]b
        !unordered KEYS "\\x00*"
        !unordered KEYS hel
        !unordered KEYS hello?
        !unordered KEYS HELLO
        !unordered KEYS h[^]llo
        !unordered KEYS "*\\\\"'''),
    ('28 binary and empty keys', '''
        SET "" empty
        GET ""
        SET "\\x00" zero
        GET "\\x00"
        SET "\\r\\n" crlf
        GET "\\r\\n"
        SET <k*70000> long
        GET <k*70000>
        EXISTS "" "\\x00" "\\r\\n" "\\x00\\x00"
        HSET "\\xff\\xfe" "\\x00" "\\x01"
        HGETALL "\\xff\\xfe"
        SET {} braces
        SET {}{a} braces
        SET {a a
        SET a} a
        MGET {} {}{a} {a a}
        DBSIZE
        DEL "" "\\x00"
        DBSIZE'''),
    ('30 DUMP and RESTORE: the order of the checks', '''
        SET k v
        RESTORE k 0 junk
        RESTORE k 0 junk REPLACE
        RESTORE k -1 junk
        RESTORE k -1 junk REPLACE
        RESTORE k abc junk
        RESTORE k abc junk REPLACE
        RESTORE k 0 ""
        RESTORE new 0 ""
        RESTORE new 0 junk NOPE
        RESTORE new 0 junk IDLETIME
        RESTORE new 0 junk IDLETIME -1
        RESTORE new 0 junk IDLETIME abc
        RESTORE new 0 junk FREQ 256
        RESTORE new 0 junk FREQ -1
        RESTORE new 0 junk FREQ abc
        RESTORE new 0 junk IDLETIME 1 FREQ 1
        RESTORE new 0 "\\x00\\x03foo\\x0a\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        EXISTS new
        RESTORE new -1 "\\x00\\x03foo\\x0a\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"'''),
    ('30 RESTORE of payloads made by redis-server 7.0', '''
        RESTORE s 0 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97"
        GET s
        RESTORE e 0 "\\x00\\x00\\x0a\\x00]\\x9b\\x5c@\\x0f\\x7f\\xa2\\xda"
        GET e
        RESTORE i 0 "\\x00\\xc0{\\x0a\\x00H\\xe2S\\xe1\\x00zg\\xb9"
        GET i
        RESTORE neg 0 "\\x00\\xc2\\xff\\x7f\\xff\\xff\\x0a\\x00\\xae\\xe3LM\\x06\\xc6\\x856"
        GET neg
        RESTORE f32 0 "\\x00\\xc2\\xff\\xff\\xff\\x7f\\x0a\\x00,t\\xe5\\x9e\\xe0.\\xad\\xa1"
        GET f32
        RESTORE n8 0 "\\x00\\x0a9999999999\\x0a\\x00\\xd2j\\xc2\\x99\\xdfS\\xef\\xd2"
        GET n8
        RESTORE z 0 "\\x00\\xc3\\x0dA\\x90\\x02aba\\xe0\\xff\\x01\\xe0z\\x01\\x01ab\\x0a\\x00?\\x03a\\x943\\xdd\\x8d\\x9a"
        GET z
        RESTORE h 0 "\\x10\\x1b\\x1b\\x00\\x00\\x00\\x06\\x00\\x81f\\x02\\x81v\\x02\\x81n\\x02\\x0c\\x01\\x80\\x01\\x85empty\\x06\\xff\\x0a\\x00P(u\\xc4\\xd5\\x0d\\xec\\xca"
        HGETALL h
        OBJECT ENCODING h
        RESTORE ht 0 "\\x04\\x02\\xc3\\x09@F\\x01ff\\xe09\\x00\\x01ff\\x01v\\x01g\\x01w\\x0a\\x00^\\x10&\\x94\\x1d\\x02\\x06\\x93"
        HGETALL ht
        RESTORE s 5000000 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97"
        RESTORE s 5000000 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97" REPLACE
        TTL s
        RESTORE s 4102444800000 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97" REPLACE ABSTTL
        PEXPIRETIME s
        RESTORE s 1 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97" REPLACE ABSTTL
        EXISTS s
        RESTORE s 0 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97" IDLETIME 1000
        RESTORE s 0 "\\x00\\x03foo\\x0a\\x00sI9\\xdbM\\xc1\\xba\\x97" REPLACE FREQ 5
        !kind DUMP s
        GET s'''),
    ('databases: SELECT, MOVE, SWAPDB', '''
        SET k zero
        SELECT 1
        GET k
        SET k one
        DBSIZE
        SELECT 16
        SELECT -1
        SELECT abc
        SELECT ""
        SELECT 99999999999999999999
        GET k
        MOVE k 0
        MOVE k 1
        MOVE k 16
        MOVE k -1
        MOVE k abc
        MOVE no 2
        SET m v EX 1000
        MOVE m 2
        EXISTS m
        SELECT 2
        GET m
        TTL m
        MOVE m 1
        SELECT 1
        !unordered KEYS *
        FLUSHDB
        DBSIZE
        SELECT 0
        GET k
        SWAPDB 0 1
        GET k
        DBSIZE
        SELECT 1
        GET k
        SWAPDB 1 0
        SWAPDB 0 0
        SWAPDB 0 16
        SWAPDB abc 0
        SWAPDB 0 abc
        SWAPDB -1 0
        SELECT 15
        SET a 1
        SELECT 0
        FLUSHALL
        SELECT 15
        EXISTS a
        SELECT 0'''),
    ('DEL, UNLINK, EXISTS, TOUCH, TYPE, FLUSHDB', '''
        MSET a 1 b 2 c 3
        HSET h f v
        TYPE a
        TYPE h
        UNLINK a h
        EXISTS a b c h
        TOUCH b c nope
        FLUSHDB ASYNC
        DBSIZE
        SET a 1
        FLUSHDB SYNC
        FLUSHALL SYNC
        FLUSHALL NOPE
        FLUSHDB SYNC ASYNC
        DBSIZE
        RANDOMKEY
        KEYS *'''),
    ('7 WATCH: a change by another connection makes EXEC nil', '''
        SET k 1
        WATCH k
        2: SET k 2
        MULTI
        SET k 3
        EXEC
        GET k
        WATCH k
        MULTI
        SET k 4
        EXEC
        GET k'''),
    ('7 WATCH: XSETID is no change of a watched key', '''
        XADD s 1-1 f v
        WATCH s
        2: XSETID s 5-5
        MULTI
        XINFO STREAM s
        EXEC'''),
    ('7 WATCH: a BITFIELD that only makes the value longer is no change, one that succeeds is', '''
        WATCH k
        2: BITFIELD k OVERFLOW FAIL SET i5 100 8191
        MULTI
        STRLEN k
        EXEC
        DEL k
        WATCH k
        2: BITFIELD k SET i5 100 0
        MULTI
        STRLEN k
        EXEC'''),
    ('SORT BY nosort DESC reads a list backwards', '''
        RPUSH l 3 1 2
        SORT l BY nosort DESC
        SORT l BY nosort DESC LIMIT 1 1
        SORT l BY nosort
        SORT l BY nosort ASC ALPHA'''),
    ('7 WATCH: own changes count, writing an equal value counts, reading does not', '''
        SET k 1
        WATCH k
        SET k 1
        MULTI
        PING
        EXEC
        WATCH k
        2: GET k
        2: TTL k
        2: EXISTS k
        MULTI
        GET k
        EXEC
        WATCH k
        2: EXPIRE k 1000
        MULTI
        GET k
        EXEC
        WATCH k
        2: PERSIST k
        MULTI
        GET k
        EXEC
        WATCH k
        2: DEL k
        MULTI
        GET k
        EXEC
        WATCH k
        2: DEL k
        MULTI
        GET k
        EXEC
        WATCH k
        2: SET k v NX
        MULTI
        GET k
        EXEC
        WATCH k
        2: SET k v NX
        MULTI
        GET k
        EXEC'''),
    ('7 WATCH ends with UNWATCH, DISCARD and EXEC', '''
        SET {w}a 1
        WATCH {w}a {w}b
        2: SET {w}b x
        UNWATCH
        MULTI
        GET {w}a
        EXEC
        WATCH {w}a
        2: SET {w}a x
        MULTI
        DISCARD
        MULTI
        GET {w}a
        EXEC
        WATCH {w}a
        2: SET {w}a y
        MULTI
        EXEC
        MULTI
        GET {w}a
        EXEC
        UNWATCH
        UNWATCH'''),
    ('7 WATCH: FLUSHALL, RENAME, COPY and hash changes', '''
        SET {w}a 1
        WATCH {w}a
        2: FLUSHALL
        MULTI
        PING
        EXEC
        WATCH {w}a
        2: FLUSHALL
        MULTI
        PING
        EXEC
        SET {w}a 1
        WATCH {w}a {w}b
        2: RENAME {w}a {w}b
        MULTI
        PING
        EXEC
        HSET {w}h f v
        WATCH {w}h
        2: HSET {w}h f v
        MULTI
        PING
        EXEC
        WATCH {w}h
        2: HDEL {w}h nope
        MULTI
        PING
        EXEC
        WATCH {w}h
        2: HDEL {w}h f
        MULTI
        PING
        EXEC
        SET {w}x 1
        WATCH {w}y
        2: COPY {w}x {w}y
        MULTI
        PING
        EXEC'''),
    ('7 WATCH: a watched key that expires makes EXEC nil', '''
        SET {w}k v PX 500 | WATCH {w}k
        2: !gone {w}k
        !gone {w}k
        MULTI
        PING
        EXEC
        SET {w}k v PX 5
        !gone {w}k
        WATCH {w}k
        MULTI
        PING
        EXEC'''),
    ('7 WATCH: equal keys of different databases are different keys', '''
        SET k 1
        WATCH k
        2: SELECT 1
        2: SET k other
        MULTI
        GET k
        EXEC
        2: DEL k''', ['direct']),
    ('7 WATCH inside MULTI and nested MULTI are errors that abort nothing', '''
        MULTI
        MULTI
        WATCH k
        SET k v
        EXEC
        GET k
        MULTI
        WATCH
        EXEC
        MULTI
        UNWATCH
        EXEC'''),
    ('8 queue-time errors abort, run-time errors do not', '''
        SET {q}s text
        MULTI
        SET {q}a 1
        NOSUCH a
        SET {q}b 2
        EXEC
        EXISTS {q}a {q}b
        MULTI
        SET {q}a 1
        GET
        EXEC
        EXISTS {q}a
        MULTI
        SET {q}a 1
        INCR {q}s
        HSET {q}s f v
        EXPIRE {q}a abc
        SET {q}b 2 EX 0
        SET {q}c 3
        EXEC
        MGET {q}a {q}b {q}c
        MULTI
        CLIENT NOPE
        EXEC
        MULTI
        OBJECT NOPE x
        EXEC'''),
    ('8 EXEC and DISCARD without MULTI, empty EXEC', '''
        EXEC
        DISCARD
        MULTI
        EXEC
        MULTI
        DISCARD
        EXEC
        MULTI
        GET a
        DISCARD
        MULTI
        NOSUCH
        DISCARD
        MULTI
        SET a 1
        EXEC
        GET a'''),
    ('8 replies inside EXEC have the types they have outside', '''
        MULTI
        SET {t}s v
        GET {t}s
        GET {t}no
        HSET {t}h a 1
        HGETALL {t}h
        HMGET {t}h a b
        HSCAN {t}h 0
        TTL {t}s
        TYPE {t}h
        MGET {t}s {t}no
        INCRBYFLOAT {t}f 1.5
        HRANDFIELD {t}h 1 WITHVALUES
        OBJECT ENCODING {t}s
        PING
        PING hello
        ECHO there
        EXEC'''),
    ('8 a transaction sees its own writes and keeps TTL rules', '''
        MULTI
        SET {t}a 1
        INCR {t}a
        EXPIRE {t}a 1000
        RENAME {t}a {t}b
        GET {t}b
        EXISTS {t}a
        COPY {t}b {t}c
        DEL {t}b
        TTL {t}c
        SET {t}c x
        TTL {t}c
        EXEC
        MGET {t}a {t}b {t}c'''),
    ('8 connection and database commands inside MULTI', '''
        MULTI
        SELECT 1
        SET a 1
        DBSIZE
        CLIENT GETNAME
        SELECT 0
        DBSIZE
        FLUSHALL
        EXEC
        MULTI
        HELLO 2
        EXEC
        MULTI
        RESET
        EXEC''', ['direct']),
    ('8 XGROUP SETID takes - and +, where CREATE and others take ids only', '''
        XADD s 5-1 f v
        XADD s 6-1 f v
        XGROUP CREATE s g 0
        XREADGROUP GROUP g c COUNT 1 STREAMS s >
        XGROUP SETID s g -
        XINFO GROUPS s
        XGROUP SETID s g +
        XINFO GROUPS s
        XGROUP SETID s g - ENTRIESREAD 1
        XINFO GROUPS s
        XGROUP SETID s g (5
        XGROUP SETID s g *
        XGROUP CREATE s h -
        XGROUP CREATE s h +
        XSETID s +
        XSETID s -
        XSETID s 9-9 MAXDELETEDID -
        XCLAIM s g d 0 5-1 LASTID + JUSTID
        XAUTOCLAIM s g d 0 - JUSTID
        XAUTOCLAIM s g d 0 + JUSTID
        XACK s g -
        XDEL s +
        XTRIM s MINID -
        XADD s - f v
        XREAD STREAMS s -'''),
]
