"""vectors_connection: CLIENT, PUBLISH and the like. (title, text[, 'alone'])"""

CASES = [
    ('CLIENT CAPA and MAINT_NOTIFICATIONS', '''
        CLIENT CAPA redirect                        => OK
        CLIENT CAPA other things                    => OK
        CLIENT CAPA                                 => -ERR wrong number of arguments for 'client|capa' command
        CLIENT MAINT_NOTIFICATIONS OFF              => OK
        CLIENT MAINT_NOTIFICATIONS ON               => -ERR There are no notifications of maintenance: …
        CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type internal-ip => -ERR There are no notifications of maintenance: …
        CLIENT MAINT_NOTIFICATIONS x                => -ERR syntax error
        CLIENT MAINT_NOTIFICATIONS OFF x            => -ERR syntax error
    ''', 'alone'),
    ('CLIENT KILL and LIST with filters that match no client', '''
        CLIENT KILL MAXAGE 1000000                  => :0
        CLIENT KILL MAXAGE 1 ADDR 1.2.3.4:5         => :0
        CLIENT KILL ID 999999999 TYPE normal        => :0
        CLIENT KILL NAME nobody                     => :0
        CLIENT KILL FLAGS O NOT-DB 0 SKIPME no      => :0
        CLIENT KILL NOT-TYPE normal LIB-NAME none   => :0
        CLIENT KILL IDLE 1000000                    => :0
        CLIENT KILL MAXAGE 0                        => -ERR maxage should be greater than 0
        CLIENT KILL MAXAGE x                        => -ERR maxage is not an integer or out of range
        CLIENT KILL MAXAGE                          => -ERR No such client
        CLIENT KILL MAXAGE 1 ID                     => -ERR syntax error
        CLIENT KILL NOT-MAXAGE 1                    => -ERR syntax error
        CLIENT KILL IDLE x                          => -ERR idle is not an integer or out of range
        CLIENT KILL IDLE 0                          => -ERR idle should be greater than 0
        CLIENT KILL DB x                            => -ERR DB is not an integer or out of range
        CLIENT KILL DB -1                           => -ERR DB number should be between 0 and 15
        CLIENT KILL DB 16                           => -ERR DB number should be between 0 and 15
        CLIENT KILL NOT-DB 2147483648               => -ERR NOT-DB is not an integer or out of range
        CLIENT KILL NOT-DB 16                       => -ERR NOT-DB number should be between 0 and 15
        CLIENT KILL FLAGS x7                        => -ERR Unknown flags found in the provided filter: x7
        CLIENT KILL NOT-FLAGS 7                     => -ERR Unknown flags found in the NOT-FLAGS filter: 7
        CLIENT KILL FLAGS "" LADDR 1.2.3.4:5        => :0
        CLIENT KILL CAPA x                          => -ERR Unknown capa found in the provided filter: x
        CLIENT KILL NOT-CAPA rx                     => -ERR Unknown capa found in the NOT-CAPA filter: rx
        CLIENT KILL NOT-CAPA ""                     => :0
        CLIENT KILL IP 1.2.3.4                      => :0
        CLIENT KILL USER nobody                     => -ERR No such user 'nobody'
        CLIENT KILL NOT-USER nobody                 => -ERR No such user 'nobody'
        CLIENT KILL NOT-ID x                        => -ERR syntax error
        CLIENT KILL NOT-ID 0                        => -ERR client-id should be greater than 0
        CLIENT KILL NOT-ID 999999999 999999998 LADDR 1.2.3.4:5 => :0
        CLIENT KILL NOT-TYPE x                      => -ERR Unknown client type 'x'
        CLIENT LIST NOT-DB 0                        => =""
        CLIENT LIST ID 999999999 999999998 USER default => =""
        CLIENT LIST ID x                            => -ERR Invalid client ID
        CLIENT LIST ID 1 x                          => -ERR Invalid client ID
        CLIENT LIST ID                              => -ERR syntax error
        CLIENT LIST CAPA r                          => =""
        CLIENT LIST SKIPME maybe                    => -ERR syntax error
        CLIENT LIST NAME                            => -ERR syntax error
    ''', 'alone'),
    ('CLIENT SETINFO', '''
        CLIENT SETINFO Lib-Name "a b"               => -ERR Lib-Name cannot contain spaces, newlines or special characters.
        CLIENT SETINFO LIB-VER "a\\nb"               => -ERR LIB-VER cannot contain spaces, newlines or special characters.
        CLIENT SETINFO lib-x a                      => -ERR Unrecognized option 'lib-x'
        CLIENT SETINFO lib-name ""                  => OK
    ''', 'alone'),
    ('XINFO CONSUMERS: inactive, and XINFO STREAM FULL: active-time', '''
        XADD x 1-1 a 1                              => "1-1"
        XGROUP CREATE x g 0                         => OK
        XGROUP CREATECONSUMER x g c                 => :1
        XINFO CONSUMERS x g                         => [{name c pending :0 idle ?: inactive :-1}]
        XREADGROUP GROUP g c STREAMS x 0            => (x [])
        XINFO CONSUMERS x g                         => [{name c pending :0 idle ?: inactive :-1}]
        XREADGROUP GROUP g c STREAMS x >            => (x [["1-1" [a "1"]]])
        EVAL "local c=redis.call('XINFO','CONSUMERS',KEYS[1],'g')[1] return {c[7],c[8]>=0 and c[8]<600000}" 1 x => [inactive :1]
        EVAL "local c=redis.call('XINFO','STREAM',KEYS[1],'FULL')[18][1][14][1] return {c[5],c[6]==c[4]}" 1 x => [active-time :1]
        XCLAIM x g d 1000000 1-1                    => []
        XCLAIM x g d 0 1-1 JUSTID                   => ["1-1"]
        EVAL "local c=redis.call('XINFO','CONSUMERS',KEYS[1],'g')[2] return {c[2],c[8]>=0}" 1 x => [d :1]
        XADD x 1-2 a 1                              => "1-2"
        XREADGROUP GROUP g e NOACK STREAMS x >      => (x [["1-2" [a "1"]]])
        XINFO CONSUMERS x g                         => [? ? {name e pending :0 idle ?: inactive :-1}]
    ''', 'alone'),
    ('SCRIPT SHOW', '''
        SCRIPT FLUSH                                             => OK
        SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db     => -NOSCRIPT No matching script.
        EVAL "return 1" 0                                        => :1
        SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db     => "return 1"
        SCRIPT LOAD "return 2"                                   => "7f923f79fe76194c868d7e1d0820de36700eb649"
        SCRIPT SHOW 7f923f79fe76194c868d7e1d0820de36700eb649     => "return 2"
        SCRIPT SHOW nonsense                                     => -NOSCRIPT No matching script.
        SCRIPT SHOW                                              => -ERR wrong number of arguments for 'script|show' command
        SCRIPT FLUSH                                             => OK
        SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db     => -NOSCRIPT No matching script.
    ''', 'alone'),
    ('MPUBLISH', '''
        MPUBLISH c one                              => :0
        MPUBLISH c one two three                    => :0
        MPUBLISH c                                  => -ERR wrong number of arguments for 'mpublish' command
    '''),
    ('NAMESPACE', '''
        NAMESPACE CURRENT                           => __namespace
        NAMESPACE CURRENT x                         => -ERR wrong number of arguments for 'namespace|current' command
    '''),
    ('DISK and NAMESPACE: unknown subcommands', '''
        DISK USA k                                  => -ERR unknown subcommand 'USA'. Try DISK HELP.
        NAMESPACE CURREN                            => -ERR unknown subcommand 'CURREN'. Try NAMESPACE HELP.
    ''', 'alone'),
    ('COMMANDLOG', '''
        COMMANDLOG RESET large-request              => OK
        COMMANDLOG RESET large-reply                => OK
        CONFIG SET commandlog-request-larger-than 200 => OK
        CONFIG SET commandlog-reply-larger-than 200 => OK
        COMMANDLOG LEN large-request                => :0
        COMMANDLOG LEN large-reply                  => :0
        SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx => OK
        COMMANDLOG LEN LARGE-REQUEST                => :1
        COMMANDLOG LEN large-reply                  => :0
        GET k                                       => "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        COMMANDLOG LEN large-reply                  => :1
        CLIENT SETNAME me                           => OK
        MGET k none k                               => ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" nil "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
        COMMANDLOG GET 1 large-reply                => [[?: ?: ?: [MGET k none k] ?$ me]]
        COMMANDLOG GET -1 large-request             => [[?: ?: ?: [SET k "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (72 more bytes)"] ?$ ""]]
        COMMANDLOG GET 0 large-request              => []
        COMMANDLOG RESET large-reply                => OK
        MULTI                                       => OK
        GET k                                       => QUEUED
        EXEC                                        => ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
        COMMANDLOG GET 5 large-reply                => [[?: ?: ?: [EXEC] ?$ me]]
        CONFIG SET commandlog-large-request-max-len 2 => OK
        SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx => OK
        SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx => OK
        COMMANDLOG LEN large-request                => :2
        CONFIG SET commandlog-large-request-max-len 0 => OK
        SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx => OK
        COMMANDLOG LEN large-request                => :0
        CONFIG SET commandlog-large-request-max-len 128 commandlog-request-larger-than -1 => OK
        SET k xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx => OK
        COMMANDLOG LEN large-request                => :0
        COMMANDLOG RESET large-reply                => OK
        CONFIG SET commandlog-reply-larger-than 30000 => OK
        EVAL "for i=1,3000 do redis.call('HSET',KEYS[1],'field'..i,i) end return 1" 1 h => :1
        HGETALL h                                   => ?
        COMMANDLOG GET 5 large-reply                => [[?: ?: ?: [HGETALL h] ?$ me]]
        CONFIG SET commandlog-reply-larger-than 1000000 => OK
        HGETALL h                                   => ?
        COMMANDLOG LEN large-reply                  => :1
        CONFIG SET commandlog-reply-larger-than 1048576 commandlog-request-larger-than 1048576 => OK
        COMMANDLOG RESET large-reply                => OK
    ''', 'alone'),
    ('COMMANDLOG slow is SLOWLOG', '''
        CONFIG SET commandlog-execution-slower-than 0 => OK
        CONFIG GET slowlog-log-slower-than          => {slowlog-log-slower-than "0"}
        COMMANDLOG RESET slow                       => OK
        PING                                        => +PONG
        COMMANDLOG LEN slow                         => ?:
        COMMANDLOG GET 1 slow                       => [[?: ?: ?: [COMMANDLOG LEN slow] ?$ ""]]
        SLOWLOG GET 1                               => [[?: ?: ?: [COMMANDLOG GET "1" slow] ?$ ""]]
        CONFIG SET commandlog-slow-execution-max-len 1 => OK
        SLOWLOG LEN                                 => :1
        CONFIG SET slowlog-max-len 128 slowlog-log-slower-than 10000 => OK
        CONFIG GET commandlog-execution-slower-than => {commandlog-execution-slower-than "10000"}
    ''', 'alone'),
    ('COMMANDLOG: arguments', '''
        COMMANDLOG                                  => -ERR wrong number of arguments for 'commandlog' command
        COMMANDLOG LEN                              => -ERR wrong number of arguments for 'commandlog|len' command
        COMMANDLOG GET 5                            => -ERR wrong number of arguments for 'commandlog|get' command
        COMMANDLOG GET 5 slow x                     => -ERR wrong number of arguments for 'commandlog|get' command
        COMMANDLOG GET 5 fast                       => -ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG LEN fast                         => -ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG RESET fast                       => -ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG GET -2 fast                      => -ERR count should be greater than or equal to -1
        COMMANDLOG GET -2 slow                      => -ERR count should be greater than or equal to -1
        COMMANDLOG GET x slow                       => -ERR count should be greater than or equal to -1
        COMMANDLOG GETS                             => -ERR unknown subcommand 'GETS'. Try COMMANDLOG HELP.
        CONFIG SET commandlog-request-larger-than x => -ERR CONFIG SET failed …
        CONFIG SET commandlog-reply-larger-than -2  => -ERR CONFIG SET failed …
        CONFIG SET commandlog-large-reply-max-len -1 => -ERR CONFIG SET failed …
    ''', 'alone'),
]
