"""behaviours_connection: commands about the connection itself. (title, script[, only these targets])"""

CASES = [
    ('23 HELLO', '''
        HELLO
        HELLO 2
        HELLO 3
        HELLO 4
        HELLO 1
        HELLO 0
        HELLO -1
        HELLO abc
        HELLO 3 SETNAME
        HELLO 3 SETNAME me
        CLIENT GETNAME
        HELLO 3 SETNAME "a b"
        CLIENT GETNAME
        HELLO 3 NOPE
        HELLO 3 AUTH
        HELLO 3 AUTH default
        HELLO 2
        GET no
        HELLO 3
        GET no'''),
    ('23 types of replies in both protocols', '''
        HSET h a 1
        HGETALL h
        HMGET h a b
        HKEYS h
        HVALS h
        HRANDFIELD h
        HRANDFIELD h 2
        HRANDFIELD h 2 WITHVALUES
        HINCRBYFLOAT h f 1.5
        HSCAN h 5000 COUNT 1
        GET no
        MGET no no2
        EXPIRE h 100
        SET k v
        SET k v NX
        SET k v GET
        INCRBYFLOAT n 1.5
        LCS {l}a {l}b IDX
        OBJECT ENCODING no
        !kind OBJECT HELP
        TYPE h
        RANDOMKEY
        HELLO
        RESET
        HELLO 3
        HGETALL h
        HGETALL no'''),
    ('PING and ECHO', '''
        PING
        PING hello
        PING ""
        PING "\\x00\\r\\n"
        ECHO hello
        ECHO ""
        ECHO <x*100000>
        ping'''),
    ('CLIENT SETNAME, GETNAME and other subcommands', '''
        CLIENT GETNAME
        CLIENT SETNAME me
        CLIENT GETNAME
        CLIENT SETNAME "two words"
        CLIENT SETNAME "line\\n"
        CLIENT GETNAME
        CLIENT SETNAME ""
        CLIENT GETNAME
        !kind CLIENT ID
        !kind CLIENT INFO
        !kind CLIENT LIST
        CLIENT NO-EVICT on
        CLIENT NO-EVICT off
        CLIENT NO-EVICT maybe
        CLIENT REPLY ON
        CLIENT REPLY maybe
        CLIENT LIST TYPE nope
        CLIENT LIST ID
        CLIENT LIST NOPE
        CLIENT KILL 1.2.3.4:5
        CLIENT KILL ID abc
        CLIENT KILL ID 0
        CLIENT KILL ID 999999999
        CLIENT KILL NOPE x
        CLIENT KILL ADDR 1.2.3.4:5
        CLIENT KILL TYPE nope
        CLIENT KILL SKIPME maybe'''),
    ('RESET forgets name, database, transaction and protocol', '''
        SET k zero
        SELECT 1
        CLIENT SETNAME me
        HELLO 3
        MULTI
        SET k one
        RESET
        CLIENT GETNAME
        GET k
        EXEC
        HGETALL no
        RESET x'''),
    ('AUTH without a password set', '''
        AUTH secret
        AUTH default secret
        AUTH nobody secret
        AUTH
        AUTH a b c
        HELLO 3 AUTH default secret
        HELLO 3 AUTH nobody secret
        PING''', ['direct']),
    ('commands that clients send when they connect are accepted', '''
        CLIENT SETNAME lib
        !length COMMAND DOCS get
        !length COMMAND INFO get
        COMMAND GETKEYS GET a
        COMMAND GETKEYS MSET a 1 b 2
        COMMAND GETKEYS SET a
        COMMAND GETKEYS PING
        COMMAND GETKEYS NOPE
        !length CONFIG GET save
        CONFIG GET nosuchoption
        !kind INFO
        !kind INFO server
        !length TIME
        PING'''),
    ('QUIT replies OK', '''
        PING
        QUIT'''),
    ('names of commands in any case', '''
        set k v
        gEt k
        CLIENT getname
        client GetName
        object EnCoDiNg k
        multi
        get k
        exec'''),
]
