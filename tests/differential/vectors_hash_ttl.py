"""vectors_hash_ttl: times to live of hash fields, of Redis 7.4 (HEXPIRE and its like) and 8.0 (HGETEX, HSETEX, HGETDEL)."""

CASES = [
    ('HEXPIRE sets the time to live of fields that exist', '''
        HSET h a 1 b 2 c 3               => :3
        HEXPIRE h 1000 FIELDS 3 a b nope => [:1 :1 :-2]
        HTTL h FIELDS 4 a b c nope       => [:~1000 :~1000 :-1 :-2]
        HEXPIRE nokey 1000 FIELDS 2 a b  => [:-2 :-2]
        EXISTS nokey                     => :0
        HTTL nokey FIELDS 2 a b          => [:-2 :-2]
        hexpire h 2000 fields 1 a        => [:1]
        HTTL h FIELDS 1 a                => [:~2000]
        TTL h                            => :-1
    '''),
    ('the four commands set the same time', '''
        HSET h a 1 b 2 c 3 d 4               => :4
        HPEXPIREAT h <now+500000> FIELDS 1 a => [:1]
        HPEXPIRETIME h FIELDS 1 a            => [:<now+500000>]
        HEXPIREAT h <s+500> FIELDS 1 b       => [:1]
        HEXPIRETIME h FIELDS 1 b             => [:<s+500>]
        HPEXPIRETIME h FIELDS 1 b            => [:<s+500>000]
        HPEXPIRE h 500000 FIELDS 1 c         => [:1]
        HEXPIRE h 500 FIELDS 1 d             => [:1]
        HTTL h FIELDS 4 a b c d              => [:~500 :~500 :~500 :~500]
        HEXPIRETIME h FIELDS 2 a nope        => [:<s+501> :-2]
    '''),
    ('a field twice in a command', '''
        HSET h a 1 b 2                              => :2
        HPEXPIREAT h <now+500000> NX FIELDS 3 a a b => [:1 :0 :1]
        HPEXPIREAT h 1 FIELDS 2 a a                 => [:2 :-2]
        HGETEX h PERSIST FIELDS 2 b b               => ["2" "2"]
        HGETDEL h FIELDS 2 b b                      => ["2" nil]
        EXISTS h                                    => :0
        HSETEX h PXAT <now+500000> FIELDS 2 f 1 f 2 => :1
        HGETALL h                                   => {f "2"}
        HPERSIST h FIELDS 2 f f                     => [:1 :-1]
    '''),
    ('NX: only fields without a time to live', '''
        HSET h a 1 b 2                                 => :2
        HPEXPIREAT h <now+500000> NX FIELDS 1 a        => [:1]
        HPEXPIREAT h <now+600000> NX FIELDS 3 a b nope => [:0 :1 :-2]
        HPEXPIRETIME h FIELDS 2 a b                    => [:<now+500000> :<now+600000>]
        HPEXPIREAT h 1 NX FIELDS 1 a                   => [:0]
        HEXISTS h a                                    => :1
    '''),
    ('XX: only fields with a time to live', '''
        HSET h a 1 b 2                            => :2
        HPEXPIREAT h <now+500000> FIELDS 1 a      => [:1]
        HPEXPIREAT h <now+600000> XX FIELDS 2 a b => [:1 :0]
        HPEXPIRETIME h FIELDS 2 a b               => [:<now+600000> :-1]
        HPEXPIREAT h 1 XX FIELDS 2 a b            => [:2 :0]
        HGETALL h                                 => {b "2"}
    '''),
    ('GT: only later times; no time to live counts as never', '''
        HSET h a 1 b 2                            => :2
        HPEXPIREAT h <now+500000> FIELDS 1 a      => [:1]
        HPEXPIREAT h <now+500000> GT FIELDS 2 a b => [:0 :0]
        HPEXPIREAT h <now+500001> GT FIELDS 2 a b => [:1 :0]
        HPEXPIREAT h <now+400000> gt FIELDS 2 a b => [:0 :0]
        HPEXPIRETIME h FIELDS 2 a b               => [:<now+500001> :-1]
    '''),
    ('LT: only earlier times; no time to live counts as never', '''
        HSET h a 1 b 2                            => :2
        HPEXPIREAT h <now+500000> FIELDS 1 a      => [:1]
        HPEXPIREAT h <now+500000> LT FIELDS 2 a b => [:0 :1]
        HPEXPIREAT h <now+400000> LT FIELDS 2 a b => [:1 :1]
        HPEXPIRETIME h FIELDS 2 a b               => [:<now+400000> :<now+400000>]
    '''),
    ('a time that has passed deletes the field, and the last field deletes the key', '''
        HSET h a 1 b 2 c 3 d 4        => :4
        HEXPIREAT h 1 FIELDS 2 a nope => [:2 :-2]
        HPEXPIREAT h 0 FIELDS 1 b     => [:2]
        HEXPIRE h 0 FIELDS 1 c        => [:2]
        HGETALL h                     => {d "4"}
        HLEN h                        => :1
        HPEXPIRE h 0 FIELDS 1 d       => [:2]
        EXISTS h                      => :0
        TYPE h                        => +none
    '''),
    ('fields expire: every command sees it at once', '''
        HSET h a 1 b 22 c 333 d 4444 => :4
        HPEXPIRE h 30 FIELDS 2 a c   => [:1 :1]
        until HEXISTS h a            => :0
        HEXISTS h c                  => :0
        HLEN h                       => :2
        HGET h a                     => nil
        HMGET h a b c d              => [nil "22" nil "4444"]
        HSTRLEN h a                  => :0
        HSTRLEN h b                  => :2
        HKEYS h                      => [b d]
        HVALS h                      => ["22" "4444"]
        HGETALL h                    => {b "22" d "4444"}
        HSCAN h 0                    => ["0" [b "22" d "4444"]]
        HRANDFIELD h 10              => [b d]
        HTTL h FIELDS 4 a b c d      => [:-2 :-1 :-2 :-1]
        HEXPIRETIME h FIELDS 1 a     => [:-2]
        HPERSIST h FIELDS 2 a b      => [:-2 :-1]
        HDEL h a c                   => :0
        HSETNX h a new               => :1
        HINCRBY h c 5                => :5
        HTTL h FIELDS 2 a c          => [:-1 :-1]
        HLEN h                       => :4
    '''),
    ('the last field expires: the key is gone', '''
        HSETEX h PX 30 FIELDS 2 a 1 b 2 => :1
        until EXISTS h                  => :0
        TYPE h                          => +none
        HLEN h                          => :0
        HGETALL h                       => {}
        TTL h                           => :-2
        HEXPIRE h 10 FIELDS 1 a         => [:-2]
        HSET h c 3                      => :1
        HTTL h FIELDS 3 a b c           => [:-2 :-2 :-1]
    '''),
    ('commands that replace a value remove its time to live', '''
        HSET h a 1 b 2 c 3 d 4          => :4
        HEXPIRE h 1000 FIELDS 4 a b c d => [:1 :1 :1 :1]
        HSET h a 10                     => :0
        HMSET h b 20                    => OK
        HSETNX h c 30                   => :0
        HTTL h FIELDS 4 a b c d         => [:-1 :-1 :~1000 :~1000]
        HDEL h d                        => :1
        HSET h d 5                      => :1
        HTTL h FIELDS 1 d               => [:-1]
        DEL h                           => :1
        HSET h c 3                      => :1
        HTTL h FIELDS 1 c               => [:-1]
    '''),
    ('commands that change a value keep its time to live', '''
        HSET h i 1 f 1.5            => :2
        HEXPIRE h 1000 FIELDS 2 i f => [:1 :1]
        HINCRBY h i 5               => :6
        HINCRBYFLOAT h f 1          => "2.5"
        HTTL h FIELDS 2 i f         => [:~1000 :~1000]
    '''),
    ('copies keep times to live', '''
        HSET {k}h a 1 b 2                       => :2
        HPEXPIREAT {k}h <now+500000> FIELDS 1 a => [:1]
        COPY {k}h {k}copy                       => :1
        HPEXPIRETIME {k}copy FIELDS 2 a b       => [:<now+500000> :-1]
        HPERSIST {k}copy FIELDS 1 a             => [:1]
        HPEXPIRETIME {k}h FIELDS 1 a            => [:<now+500000>]
        RENAME {k}h {k}moved                    => OK
        HPEXPIRETIME {k}moved FIELDS 2 a b      => [:<now+500000> :-1]
        HSET {k}plain a 1                       => :1
        COPY {k}plain {k}moved REPLACE          => :1
        HPEXPIRETIME {k}moved FIELDS 1 a        => [:-1]
    '''),
    ('the key has a time to live, too', '''
        HSET h a 1 b 2                       => :2
        HPEXPIREAT h <now+500000> FIELDS 1 a => [:1]
        PEXPIREAT h <now+400000>             => :1
        PEXPIRETIME h                        => :<now+400000>
        HPEXPIRETIME h FIELDS 2 a b          => [:<now+500000> :-1]
        PERSIST h                            => :1
        HPEXPIRETIME h FIELDS 1 a            => [:<now+500000>]
        PEXPIREAT h <now+500000>             => :1
        HPERSIST h FIELDS 1 a                => [:1]
        PEXPIRETIME h                        => :<now+500000>
        HPEXPIREAT h <now+500000> FIELDS 1 b => [:1]
        PERSIST h                            => :1
        HPEXPIRETIME h FIELDS 2 a b          => [:-1 :<now+500000>]
        PEXPIRE h 30                         => :1
        until EXISTS h                       => :0
    '''),
    ('HPERSIST removes the time to live', '''
        HSET h a 1 b 2               => :2
        HEXPIRE h 1000 FIELDS 1 a    => [:1]
        HPERSIST h FIELDS 3 a b nope => [:1 :-1 :-2]
        HTTL h FIELDS 2 a b          => [:-1 :-1]
        HPERSIST nokey FIELDS 2 a b  => [:-2 :-2]
    '''),
    ('HPTTL and HTTL round up', '''
        HSET h a 1                           => :1
        HPEXPIREAT h <now+500000> FIELDS 1 a => [:1]
        HPTTL h FIELDS 1 a                   => [:~500000]
        HEXPIREAT h <s+300> FIELDS 1 a       => [:1]
        HEXPIRETIME h FIELDS 1 a             => [:<s+300>]
    '''),
    ('HGETEX reads, and changes times to live', '''
        HSET h a 1 b 2 c 3                    => :3
        HGETEX h FIELDS 2 a nope              => ["1" nil]
        HTTL h FIELDS 1 a                     => [:-1]
        HGETEX h EX 1000 FIELDS 2 a nope      => ["1" nil]
        HTTL h FIELDS 1 a                     => [:~1000]
        HGETEX h PX 2000000 FIELDS 1 a        => ["1"]
        HTTL h FIELDS 1 a                     => [:~2000]
        HGETEX h EXAT <s+700> FIELDS 1 a      => ["1"]
        HPEXPIRETIME h FIELDS 1 a             => [:<s+700>000]
        HGETEX h pxat <now+700001> fields 1 a => ["1"]
        HPEXPIRETIME h FIELDS 1 a             => [:<now+700001>]
        HGETEX h FIELDS 1 a                   => ["1"]
        HPEXPIRETIME h FIELDS 1 a             => [:<now+700001>]
        HGETEX h PERSIST FIELDS 3 a b nope    => ["1" "2" nil]
        HTTL h FIELDS 2 a b                   => [:-1 :-1]
        HGETEX h PXAT 1 FIELDS 2 a b          => ["1" "2"]
        HGETALL h                             => {c "3"}
        HGETEX h EX 0 FIELDS 1 c              => ["3"]
        EXISTS h                              => :0
        HGETEX nokey FIELDS 2 a b             => [nil nil]
        HGETEX nokey EX 10 FIELDS 1 a         => [nil]
        EXISTS nokey                          => :0
    '''),
    ('HSETEX sets fields with a time to live', '''
        HSETEX h EX 1000 FIELDS 2 a 1 b 2        => :1
        HTTL h FIELDS 2 a b                      => [:~1000 :~1000]
        HSETEX h PXAT <now+500000> FIELDS 1 a 10 => :1
        HPEXPIRETIME h FIELDS 1 a                => [:<now+500000>]
        HSETEX h KEEPTTL FIELDS 2 a 11 c 3       => :1
        HPEXPIRETIME h FIELDS 2 a c              => [:<now+500000> :-1]
        HSETEX h FIELDS 1 a 12                   => :1
        HPEXPIRETIME h FIELDS 1 a                => [:-1]
        HGETALL h                                => {a "12" b "2" c "3"}
        HSETEX h EXAT <s+500> FIELDS 1 a 13      => :1
        HSETEX h PX 500000 FIELDS 1 b 14         => :1
        HEXPIRETIME h FIELDS 1 a                 => [:<s+500>]
        HTTL h FIELDS 1 b                        => [:~500]
    '''),
    ('HSETEX FNX and FXX', '''
        HSETEX h FXX FIELDS 1 a 1             => :0
        EXISTS h                              => :0
        HSETEX h FNX FIELDS 2 a 1 b 2         => :1
        HSETEX h FNX FIELDS 2 b 3 c 3         => :0
        HSETEX h FXX FIELDS 2 b 3 c 3         => :0
        HSETEX h FXX EX 1000 FIELDS 2 a 4 b 5 => :1
        HGETALL h                             => {a "4" b "5"}
        HTTL h FIELDS 2 a b                   => [:~1000 :~1000]
        HSETEX h EX 1000 FNX FIELDS 1 c 6     => :1
        HSETEX h fxx keepttl fields 1 c 7     => :1
        HTTL h FIELDS 1 c                     => [:~1000]
        HPEXPIRE h 20 FIELDS 1 a              => [:1]
        until HEXISTS h a                     => :0
        HSETEX h FXX FIELDS 1 a 1             => :0
        HSETEX h FNX FIELDS 1 a 1             => :1
        HTTL h FIELDS 1 a                     => [:-1]
    '''),
    ('HSETEX with a time that has passed deletes the fields', '''
        HSET h a 1 b 2                     => :2
        HSETEX h PXAT 1 FIELDS 2 a 9 new 9 => :1
        HGETALL h                          => {b "2"}
        HSETEX h EX 0 FIELDS 1 b 9         => :1
        EXISTS h                           => :0
        HSETEX nokey PXAT 1 FIELDS 1 a 1   => :1
        EXISTS nokey                       => :0
    '''),
    ('HGETDEL reads fields and deletes them', '''
        HSET h a 1 b 2 c 3          => :3
        HEXPIRE h 1000 FIELDS 1 a   => [:1]
        HGETDEL h FIELDS 3 a nope b => ["1" nil "2"]
        HGETALL h                   => {c "3"}
        HGETDEL h FIELDS 1 nope     => [nil]
        HGETDEL h FIELDS 1 c        => ["3"]
        EXISTS h                    => :0
        HGETDEL nokey FIELDS 2 a b  => [nil nil]
    '''),
    ('HSETEXPIRE, of Kvrocks, sets fields and the time to live of the key', '''
        HSETEXPIRE h 1000 a 1 b 2            => OK
        TTL h                                => :~1000
        HTTL h FIELDS 2 a b                  => [:-1 :-1]
        HEXPIRE h 500 FIELDS 1 a             => [:1]
        HSETEXPIRE h 2000 a 3                => OK
        TTL h                                => :~2000
        HTTL h FIELDS 2 a b                  => [:-1 :-1]
        HGETALL h                            => {a "3" b "2"}
        HSETEXPIRE h 2000 a                  => -ERR wrong number of arguments for 'hsetexpire' command
        HSETEXPIRE h 2000 a 1 b              => -ERR wrong number of arguments for 'hsetexpire' command
        HSETEXPIRE h x a 1                   => -ERR value is not an integer or out of range
        HSETEXPIRE h 0 a 1                   => -ERR invalid expire time in 'hsetexpire' command
        HSETEXPIRE h -1 a 1                  => -ERR invalid expire time in 'hsetexpire' command
        HSETEXPIRE h 9223372036854775807 a 1 => -ERR invalid expire time in 'hsetexpire' command
    '''),
    ('keys of other types', '''
        SET s v                    => OK
        HEXPIRE s 10 FIELDS 1 a    => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPEXPIRE s nope FIELDS 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HEXPIREAT s 10 FIELDS 1 a  => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPEXPIREAT s 10 FIELDS 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
        HTTL s FIELDS 1 a          => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPTTL s nope 1 a           => -WRONGTYPE Operation against a key holding the wrong kind of value
        HEXPIRETIME s FIELDS 1 a   => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPEXPIRETIME s FIELDS 1 a  => -WRONGTYPE Operation against a key holding the wrong kind of value
        HPERSIST s FIELDS 1 a      => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETDEL s FIELDS 1 a       => -WRONGTYPE Operation against a key holding the wrong kind of value
        HGETEX s FIELDS 1 a        => -WRONGTYPE Operation against a key holding the wrong kind of value
        HSETEX s FIELDS 1 a b      => -WRONGTYPE Operation against a key holding the wrong kind of value
        HSETEX s nope FIELDS 1 a b => -ERR unknown argument: nope
        HSETEXPIRE s 10 a b        => -WRONGTYPE Operation against a key holding the wrong kind of value
    '''),
    ('wrong arguments of HEXPIRE and its like', '''
        HSET h a 1                               => :1
        HEXPIRE h 10 FIELDS 1                    => -ERR wrong number of arguments for 'hexpire' command
        HPEXPIRE h                               => -ERR wrong number of arguments for 'hpexpire' command
        HEXPIRE h 10 FIELDS 0 a                  => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS -1 a                 => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS x a                  => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS 2 a                  => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 FIELDS 1 a b                => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 FIELDS 4294967297 a         => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 NX FIELDS 1                 => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 NOPE 1 a b                  => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 10 NX XX FIELDS 1 a            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 10 FIELD 1 a b                 => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h x FIELDS 1 a                   => -ERR value is not an integer or out of range
        HEXPIRE h 9223372036854775808 FIELDS 1 a => -ERR value is not an integer or out of range
        HEXPIRE h -1 FIELDS 1 a                  => -ERR invalid expire time, must be >= 0
        HPEXPIREAT h -1 FIELDS 1 a               => -ERR invalid expire time, must be >= 0
        HEXPIRE h 9223372036854775807 FIELDS 1 a => -ERR invalid expire time in 'hexpire' command
        HEXPIREAT h 70368744178 FIELDS 1 a       => -ERR invalid expire time in 'hexpireat' command
        HPEXPIREAT h 70368744177664 FIELDS 1 a   => -ERR invalid expire time in 'hpexpireat' command
        HPEXPIRE h 70368744177663 FIELDS 1 a     => -ERR invalid expire time in 'hpexpire' command
        HPEXPIREAT h 70368744177663 FIELDS 1 a   => [:1]
        HPEXPIRETIME h FIELDS 1 a                => [:70368744177663]
        HEXPIREAT h 70368744177 FIELDS 1 a       => [:1]
        HPEXPIRE nokey x FIELDS 1 a              => -ERR value is not an integer or out of range
    '''),
    ('wrong arguments of HTTL, HPERSIST and HGETDEL', '''
        HSET h a 1               => :1
        HTTL h FIELDS 1          => -ERR wrong number of arguments for 'httl' command
        HTTL h FIELDS 0 a        => -ERR Number of fields must be a positive integer
        HPTTL h FIELDS x a       => -ERR Number of fields must be a positive integer
        HEXPIRETIME h FIELDS 2 a => -ERR The `numfields` parameter must match the number of arguments
        HPEXPIRETIME h nope 1 a  => -ERR Mandatory argument FIELDS is missing or not at the right position
        HTTL nokey FIELDS 2 a    => -ERR The `numfields` parameter must match the number of arguments
        HPERSIST h FIELDS 0 a    => -ERR Number of fields must be a positive integer
        HPERSIST h FIELDS 2 a    => -ERR The `numfields` parameter must match the number of arguments
        HPERSIST h nope 1 a      => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETDEL h FIELDS 1       => -ERR wrong number of arguments for 'hgetdel' command
        HGETDEL h FIELDS 0 a     => -ERR Number of fields must be a positive integer
        HGETDEL h FIELDS 2 a     => -ERR The `numfields` parameter must match the number of arguments
        HGETDEL h nope 1 a       => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETALL h                => {a "1"}
    '''),
    ('wrong arguments of HGETEX', '''
        HSET h a 1                                 => :1
        HGETEX h FIELDS 1                          => -ERR wrong number of arguments for 'hgetex' command
        HGETEX h FIELDS 0 a                        => -ERR Number of fields must be a positive integer
        HGETEX h FIELDS 2 a                        => -ERR The `numfields` parameter must match the number of arguments
        HGETEX h PERSIST FIELDS 1                  => -ERR The `numfields` parameter must match the number of arguments
        HGETEX h EX 10 FIELDS                      => -ERR wrong number of arguments for 'hgetex' command
        HGETEX h EX 10 nope                        => -ERR wrong number of arguments for 'hgetex' command
        HGETEX h EX 10 nope 1                      => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h EX FIELDS 1 a                     => -ERR value is not an integer or out of range
        HGETEX h EX -1 FIELDS 1 a                  => -ERR invalid expire time, must be >= 0
        HGETEX h EX 9223372036854775807 FIELDS 1 a => -ERR invalid expire time in 'hgetex' command
        HGETEX h EX 10 PX 10 FIELDS 1 a            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h KEEPTTL FIELDS 1 a                => -ERR Mandatory argument FIELDS is missing or not at the right position
        HTTL h FIELDS 1 a                          => [:-1]
    '''),
    ('wrong arguments of HSETEX', '''
        HSET h a 1                                => :1
        HSETEX h FIELDS 1 a                       => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 0 a b                     => -ERR invalid number of fields
        HSETEX h FIELDS x a b                     => -ERR invalid number of fields
        HSETEX h FIELDS 2147483648 a b            => -ERR invalid number of fields
        HSETEX h FIELDS 2 a b                     => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 1 a b c                   => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h EX 10 FIELDS 1                   => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h EX 10 PX 10 FIELDS 1 a b         => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h KEEPTTL EX 10 FIELDS 1 a b       => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h EX 10 KEEPTTL FIELDS 1 a b       => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h FNX FXX FIELDS 1 a b             => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h FXX FXX FIELDS 1 a b             => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h FNX KEEPTTL FXX EX               => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h FNX a b c                        => -ERR unknown argument: a
        HSETEX h FNX EX 10 PXAT                   => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h FNX EX -5 FIELDS 1 a b           => -ERR invalid expire time, must be >= 0
        HSETEX h PX x FIELDS 1 a b                => -ERR value is not an integer or out of range
        HSETEX h PXAT 70368744177664 FIELDS 1 a b => -ERR invalid expire time in 'hsetex' command
        HSETEX h PXAT 70368744177663 FIELDS 1 a b => :1
        HGETALL h                                 => {a b}
    '''),
    ('names and values of any bytes', r'''
        HSET h "" empty "\x00\xff" "\x00" "\xff\xff" ""          => :3
        HPEXPIREAT h <now+500000> FIELDS 3 "" "\x00\xff" "\xff\xff" => [:1 :1 :1]
        HPEXPIRETIME h FIELDS 3 "" "\x00\xff" "\xff\xff"         => [:<now+500000> :<now+500000> :<now+500000>]
        HPERSIST h FIELDS 1 "\x00\xff"                           => [:1]
        HPEXPIRETIME h FIELDS 3 "" "\x00\xff" "\xff\xff"         => [:<now+500000> :-1 :<now+500000>]
        HGETDEL h FIELDS 3 "" "\x00\xff" "\xff\xff"              => [empty "\x00" ""]
        EXISTS h                                                 => :0
    '''),
    ('encodings', '''
        HSET h a 1                => :1
        OBJECT ENCODING h         => listpack
        HEXPIRE h 1000 FIELDS 1 a => [:1]
        OBJECT ENCODING h         => listpackex
        TYPE h                    => +hash
    '''),
    ('SORT reads fields that have not expired', '''
        RPUSH {k}l 1 2                       => :2
        HSET {k}h_1 f 9 g 1                  => :2
        HSET {k}h_2 f 5                      => :1
        SORT {k}l BY {k}h_*->f GET {k}h_*->g => [nil "1"]
        HPEXPIRE {k}h_1 20 FIELDS 1 g        => [:1]
        until HEXISTS {k}h_1 g               => :0
        until SORT {k}l BY {k}h_*->f GET {k}h_*->g => [nil nil]
    '''),
]
