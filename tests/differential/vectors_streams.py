"""vectors_streams: XDELEX, XACKDEL, the policies of XADD and XTRIM, XREADGROUP CLAIM. (title, text[, 'alone'])"""

CASES = [
    ('XDELEX without groups', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XADD x 4-0 a 4                              => "4-0"
        (events)                                    => [xadd:x xadd:x xadd:x xadd:x]
        XDELEX x IDS 1 1-0                          => [:1]
        (events)                                    => [xdel:x]
        XDELEX x KEEPREF IDS 2 1-0 9                => [:-1 :-1]
        (events)                                    => []
        XDELEX x delref ids 2 2-0 2-0               => [:1 :-1]
        XDELEX x IDS 1 3 ACKED                      => [:1]
        XINFO STREAM x                              => {length :1 radix-tree-keys ?: radix-tree-nodes ?: last-generated-id "4-0" max-deleted-entry-id "3-0" entries-added :4 recorded-first-entry-id "4-0" groups :0 first-entry ["4-0" [a "4"]] last-entry ["4-0" [a "4"]]}
        XDELEX x ACKED IDS 1 4                      => [:1]
        XLEN x                                      => :0
        EXISTS x                                    => :1
        XDELEX none IDS 2 1-1 2-2                   => [:-1 :-1]
        EXISTS none                                 => :0
    '''),
    ('XDELEX and XACKDEL: arguments', '''
        XADD x 1-0 a 1                              => "1-0"
        XGROUP CREATE x g 0                         => OK
        SET s v                                     => OK
        XDELEX                                      => -ERR wrong number of arguments for 'xdelex' command
        XDELEX x                                    => -ERR wrong number of arguments for 'xdelex' command
        XDELEX x IDS 1                              => -ERR wrong number of arguments for 'xdelex' command
        XDELEX x IDS abc 1-1                        => -ERR Number of IDs must be a positive integer
        XDELEX x IDS 0 1-1                          => -ERR Number of IDs must be a positive integer
        XDELEX x IDS -5 1-1                         => -ERR Number of IDs must be a positive integer
        XDELEX x IDS 9223372036854775808 1-1        => -ERR Number of IDs must be a positive integer
        XDELEX x IDS 9223372036854775807 1-1        => -ERR The `numids` parameter must match the number of arguments
        XDELEX x IDS 3 1-1 2-2                      => -ERR The `numids` parameter must match the number of arguments
        XDELEX x IDS 1 1-1 2-2                      => -ERR syntax error
        XDELEX x KEEPREF DELREF IDS 1 1-1           => -ERR syntax error
        XDELEX x ACKED IDS 1 1-1 ACKED              => -ERR syntax error
        XDELEX x BOTH IDS 1 1-1                     => -ERR syntax error
        XDELEX x 1-1 2-2 IDS                        => -ERR syntax error
        XDELEX x IDS 1 1-1 IDS                      => -ERR syntax error
        XDELEX x IDS 2 1-0 y                        => -ERR Invalid stream ID specified as stream command argument
        XDELEX x IDS 1 +                            => -ERR Invalid stream ID specified as stream command argument
        XDELEX s IDS 1 1-0                          => -WRONGTYPE Operation against a key holding the wrong kind of value
        XACKDEL                                     => -ERR wrong number of arguments for 'xackdel' command
        XACKDEL x g                                 => -ERR wrong number of arguments for 'xackdel' command
        XACKDEL x g IDS 1                           => -ERR wrong number of arguments for 'xackdel' command
        XACKDEL x g IDS abc 1-1                     => -ERR Number of IDs must be a positive integer
        XACKDEL x g IDS 0 1-1                       => -ERR Number of IDs must be a positive integer
        XACKDEL x g IDS 3 1-1 2-2                   => -ERR The `numids` parameter must match the number of arguments
        XACKDEL x g IDS 1 1-1 2-2                   => -ERR syntax error
        XACKDEL x g DELREF ACKED IDS 1 1-1          => -ERR syntax error
        XACKDEL x g KEEPREF KEEPREF IDS 1 1-1       => -ERR syntax error
        XACKDEL x g IDS 1 $                         => -ERR Invalid stream ID specified as stream command argument
        XACKDEL s g IDS 1 1-0                       => -WRONGTYPE Operation against a key holding the wrong kind of value
        XACKDEL none g IDS 2 1-1 2-2                => [:-1 :-1]
        XACKDEL x none IDS 2 1-1 2-2                => [:-1 :-1]
        XLEN x                                      => :1
    '''),
    ('XDELEX with groups', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XADD x 4-0 a 4                              => "4-0"
        XGROUP CREATE x g 0                         => OK
        XGROUP CREATE x h 1-0                       => OK
        XDELEX x ACKED IDS 1 1-0                    => [:2]
        XREADGROUP GROUP g c COUNT 3 STREAMS x >    => (x [["1-0" [a "1"]] ["2-0" [a "2"]] ["3-0" [a "3"]]])
        XDELEX x ACKED IDS 2 1-0 2-0                => [:2 :2]
        XACK x g 1-0 2-0                            => :2
        (events)                                    => [xadd:x xadd:x xadd:x xadd:x xgroup-create:x xgroup-create:x xgroup-createconsumer:x]
        XDELEX x ACKED IDS 3 1-0 2-0 9-0            => [:1 :2 :-1]
        (events)                                    => [xdel:x]
        XREADGROUP GROUP h d STREAMS x >            => (x [["2-0" [a "2"]] ["3-0" [a "3"]] ["4-0" [a "4"]]])
        XPENDING x h                                => [:3 "2-0" "4-0" [[d "3"]]]
        XDELEX x DELREF IDS 2 2-0 3-0               => [:1 :1]
        XPENDING x g                                => [:0 nil nil nil*]
        XPENDING x h                                => [:1 "4-0" "4-0" [[d "1"]]]
        XDELEX x KEEPREF IDS 1 4-0                  => [:1]
        XPENDING x h                                => [:1 "4-0" "4-0" [[d "1"]]]
        XDELEX x ACKED IDS 1 4-0                    => [:-1]
        XDELEX x DELREF IDS 1 4-0                   => [:-1]
        XPENDING x h                                => [:0 nil nil nil*]
        XINFO CONSUMERS x h                         => [{name d pending :0 idle ?: inactive ?:}]
        XLEN x                                      => :0
        XGROUP DESTROY x g                          => :1
        XGROUP DESTROY x h                          => :1
        XADD x 5-0 a 5                              => "5-0"
        XDELEX x ACKED IDS 1 5-0                    => [:1]
    '''),
    ('XACKDEL', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XADD x 4-0 a 4                              => "4-0"
        XGROUP CREATE x g 0                         => OK
        XGROUP CREATE x h 0                         => OK
        XACKDEL x g IDS 1 1-0                       => [:-1]
        XREADGROUP GROUP g c STREAMS x >            => (x [["1-0" [a "1"]] ["2-0" [a "2"]] ["3-0" [a "3"]] ["4-0" [a "4"]]])
        XREADGROUP GROUP h d STREAMS x >            => (x [["1-0" [a "1"]] ["2-0" [a "2"]] ["3-0" [a "3"]] ["4-0" [a "4"]]])
        (events)                                    => [xadd:x xadd:x xadd:x xadd:x xgroup-create:x xgroup-create:x xgroup-createconsumer:x xgroup-createconsumer:x]
        XACKDEL x g ACKED IDS 3 1-0 9-0 1-0         => [:2 :-1 :-1]
        (events)                                    => []
        XPENDING x g                                => [:3 "2-0" "4-0" [[c "3"]]]
        XPENDING x h                                => [:4 "1-0" "4-0" [[d "4"]]]
        XLEN x                                      => :4
        XACKDEL x h ACKED IDS 1 1-0                 => [:1]
        (events)                                    => [xdel:x]
        XLEN x                                      => :3
        XACKDEL x g DELREF IDS 1 2-0                => [:1]
        (events)                                    => [xdel:x]
        XPENDING x h                                => [:2 "3-0" "4-0" [[d "2"]]]
        XACKDEL x h DELREF IDS 1 2-0                => [:-1]
        (events)                                    => []
        XACKDEL x g IDS 1 3-0                       => [:1]
        XPENDING x h                                => [:2 "3-0" "4-0" [[d "2"]]]
        XLEN x                                      => :1
        XACKDEL x h KEEPREF IDS 1 3-0               => [:1]
        (events)                                    => [xdel:x]
        XDEL x 4-0                                  => :1
        XACKDEL x g ACKED IDS 1 4-0                 => [:1]
        XPENDING x g                                => [:0 nil nil nil*]
        XPENDING x h                                => [:1 "4-0" "4-0" [[d "1"]]]
        XINFO CONSUMERS x g                         => [{name c pending :0 idle ?: inactive ?:}]
    '''),
    ('XTRIM and XADD with KEEPREF, DELREF and ACKED', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XADD x 4-0 a 4                              => "4-0"
        XADD x 5-0 a 5                              => "5-0"
        XADD x 6-0 a 6                              => "6-0"
        XTRIM x MAXLEN 5 ACKED                      => :1
        XGROUP CREATE x g 0                         => OK
        XTRIM x MAXLEN 1 ACKED                      => :0
        XREADGROUP GROUP g c COUNT 3 STREAMS x >    => (x [["2-0" [a "2"]] ["3-0" [a "3"]] ["4-0" [a "4"]]])
        XACK x g 3-0                                => :1
        (events)                                    => [xadd:x xadd:x xadd:x xadd:x xadd:x xadd:x xtrim:x xgroup-create:x xgroup-createconsumer:x]
        XTRIM x MAXLEN = 1 ACKED                    => :1
        (events)                                    => [xtrim:x]
        XRANGE x - +                                => [["2-0" [a "2"]] ["4-0" [a "4"]] ["5-0" [a "5"]] ["6-0" [a "6"]]]
        XTRIM x MINID 9 ACKED                       => :0
        (events)                                    => []
        XACK x g 2-0 4-0                            => :2
        XADD x MAXLEN = 4 ACKED 7-0 a 7             => "7-0"
        XRANGE x - +                                => [["4-0" [a "4"]] ["5-0" [a "5"]] ["6-0" [a "6"]] ["7-0" [a "7"]]]
        XREADGROUP GROUP g c STREAMS x >            => (x [["5-0" [a "5"]] ["6-0" [a "6"]] ["7-0" [a "7"]]])
        XTRIM x KEEPREF MAXLEN 3                    => :1
        XTRIM x MAXLEN 2                            => :1
        XPENDING x g                                => [:3 "5-0" "7-0" [[c "3"]]]
        XTRIM x MINID 7 DELREF                      => :1
        XPENDING x g                                => [:2 "5-0" "7-0" [[c "2"]]]
        XADD x DELREF MAXLEN 1 8-0 a 8              => "8-0"
        XPENDING x g                                => [:1 "5-0" "5-0" [[c "1"]]]
        XADD x ACKED 9-0 a 9                        => "9-0"
        XLEN x                                      => :2
        XTRIM x MAXLEN 0 DELREF                     => :2
        XLEN x                                      => :0
        XTRIM none MAXLEN 0 ACKED                   => :0
    '''),
    ('XTRIM with ACKED removes whole nodes with ~, as far as their entries are acknowledged', '''
        CONFIG SET stream-node-max-entries 2        => OK
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XADD x 4-0 a 4                              => "4-0"
        XADD x 5-0 a 5                              => "5-0"
        XADD x 6-0 a 6                              => "6-0"
        XADD x 7-0 a 7                              => "7-0"
        XTRIM x MAXLEN ~ 6 ACKED                    => :0
        XTRIM x MAXLEN ~ 5 ACKED                    => :2
        XGROUP CREATE x g 0                         => OK
        XTRIM x MAXLEN ~ 0 ACKED                    => :0
        XREADGROUP GROUP g c NOACK STREAMS x >      => (x [["3-0" [a "3"]] ["4-0" [a "4"]] ["5-0" [a "5"]] ["6-0" [a "6"]] ["7-0" [a "7"]]])
        XCLAIM x g c 0 4-0 FORCE JUSTID             => ["4-0"]
        XTRIM x MAXLEN ~ 0 LIMIT 1 ACKED            => :0
        XTRIM x MINID ~ 6-0 ACKED                   => :1
        XRANGE x - + COUNT 2                        => [["4-0" [a "4"]] ["5-0" [a "5"]]]
        XTRIM x MINID ~ 9 LIMIT 0 ACKED             => :3
        XRANGE x - +                                => [["4-0" [a "4"]]]
        XTRIM x MAXLEN ~ 0 DELREF                   => :1
        XPENDING x g                                => [:0 nil nil nil*]
        CONFIG SET stream-node-max-entries 100      => OK
    ''', 'alone', 'direct'),
    ('XTRIM with ACKED and many entries', '''
        EVAL "for i=1,3000 do redis.call('XADD',KEYS[1],i..'-0','f','v') end return 1" 1 x => :1
        XGROUP CREATE x g 2000-0                    => OK
        XCLAIM x g c 0 5-0 1500-0 FORCE JUSTID      => ["5-0" "1500-0"]
        XTRIM x MAXLEN 2000 ACKED                   => :1000
        XTRIM x MAXLEN 100 ACKED                    => :998
        XLEN x                                      => :1002
        XRANGE x - + COUNT 3                        => [["5-0" [f v]] ["1500-0" [f v]] ["2001-0" [f v]]]
        XTRIM x MINID ~ 9999 LIMIT 0 ACKED          => :0
        XACK x g 5-0 1500-0                         => :2
        XGROUP SETID x g 2500-0                     => OK
        XTRIM x MINID 2400 ACKED                    => :401
        XADD x MAXLEN 0 ACKED 3001-0 f v            => "3001-0"
        XLEN x                                      => :501
        XTRIM x MAXLEN 100 DELREF                   => :401
    ''', 'alone'),
    ('XTRIM and XADD: arguments of the policies', '''
        XTRIM x MAXLEN 1 ACKED DELREF               => -ERR syntax error
        XTRIM x KEEPREF MAXLEN 1 KEEPREF            => -ERR syntax error
        XTRIM x ACKED DELREF                        => -ERR syntax error
        XTRIM x ACKED MAXLEN                        => -ERR syntax error
        XTRIM x KEEPREF LIMIT 1                     => -ERR syntax error, LIMIT cannot be used without specifying a trimming strategy
        XTRIM x MAXLEN 1 LIMIT 1 ACKED              => -ERR syntax error, LIMIT cannot be used without the special ~ option
        XTRIM x MAXLEN ACKED 1                      => -ERR value is not an integer or out of range
        XADD x ACKED KEEPREF * a 1                  => -ERR Invalid stream ID specified as stream command argument
        XADD x ACKED * a                            => -ERR wrong number of arguments for 'xadd' command
        XADD x MAXLEN 1 BOTH * a 1                  => -ERR Invalid stream ID specified as stream command argument
        EXISTS x                                    => :0
    '''),
    ('XREADGROUP CLAIM', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD x 2-0 a 2                              => "2-0"
        XADD x 3-0 a 3                              => "3-0"
        XGROUP CREATE x g 0                         => OK
        XREADGROUP GROUP g c CLAIM 0 COUNT 2 STREAMS x > => (x [["1-0" [a "1"] :0 :0] ["2-0" [a "2"] :0 :0]])
        XREADGROUP GROUP g d CLAIM 900000 STREAMS x > => (x [["3-0" [a "3"] :0 :0]])
        XREADGROUP GROUP g d CLAIM 900000 STREAMS x > => nil*
        XCLAIM x g c 0 1-0 IDLE 1000 JUSTID         => ["1-0"]
        XCLAIM x g c 0 2-0 IDLE 500000 RETRYCOUNT 7 => [["2-0" [a "2"]]]
        XADD x 4-0 a 4                              => "4-0"
        XREADGROUP GROUP g d CLAIM 1000 COUNT 3 STREAMS x > => (x [["2-0" [a "2"] ?: :7] ["1-0" [a "1"] ?: :1] ["4-0" [a "4"] :0 :0]])
        XPENDING x g                                => [:4 "1-0" "4-0" [[d "4"]]]
        XPENDING x g - + 9 d                        => [["1-0" d ?: :2] ["2-0" d ?: :8] ["3-0" d ?: :1] ["4-0" d ?: :1]]
        XREADGROUP GROUP g d CLAIM 9223372036854775807 STREAMS x > => nil*
        XREADGROUP GROUP g d CLAIM 5 STREAMS x 2-0  => (x [["3-0" [a "3"]] ["4-0" [a "4"]]])
        XACK x g 1-0 2-0 4-0                        => :3
        XREADGROUP GROUP g c COUNT 1 CLAIM 0 STREAMS x > => (x [["3-0" [a "3"] ?: :2]])
        XADD x 5-0 a 5                              => "5-0"
        XREADGROUP CLAIM 0 GROUP g c NOACK STREAMS x > => (x [["3-0" [a "3"] ?: :3] ["5-0" [a "5"] :0 :0]])
        XPENDING x g                                => [:1 "3-0" "3-0" [[c "1"]]]
        XINFO CONSUMERS x g                         => [{name c pending :1 idle ?: inactive ?:} {name d pending :0 idle ?: inactive ?:}]
        XDEL x 3-0                                  => :1
        XREADGROUP GROUP g d CLAIM 0 STREAMS x >    => nil*
        XPENDING x g                                => [:1 "3-0" "3-0" [[c "1"]]]
        XTRIM x MAXLEN 0                            => :4
        XREADGROUP GROUP g d CLAIM 0 STREAMS x >    => nil*
    '''),
    ('XREADGROUP CLAIM: new entries after the last one was set back', '''
        XADD x 1-0 a 1                              => "1-0"
        XGROUP CREATE x g 0                         => OK
        XREADGROUP GROUP g c STREAMS x >            => (x [["1-0" [a "1"]]])
        XGROUP SETID x g 0                          => OK
        XREADGROUP GROUP g d CLAIM 0 STREAMS x >    => (x [["1-0" [a "1"] ?: :1] ["1-0" [a "1"] :0 :0]])
        XPENDING x g - + 9                          => [["1-0" d ?: :1]]
        XREADGROUP GROUP g d CLAIM 0 STREAMS x x > > => (x [["1-0" [a "1"] ?: :1]])
        XREADGROUP GROUP g d CLAIM 0 STREAMS x x 0 > => (x [["1-0" [a "1"]]] x [["1-0" [a "1"] ?: :3]])
    '''),
    ('XREADGROUP CLAIM: no id is left after the last one of the group', '''
        XADD x 1-0 a 1                              => "1-0"
        XGROUP CREATE x g 0                         => OK
        XREADGROUP GROUP g c STREAMS x >            => (x [["1-0" [a "1"]]])
        XGROUP SETID x g 18446744073709551615-18446744073709551615 => OK
        XREADGROUP GROUP g d CLAIM 0 STREAMS x >    => (x [["1-0" [a "1"] ?: :1]])
        XREADGROUP GROUP g d STREAMS x >            => nil*
        XREADGROUP GROUP g d STREAMS x 18446744073709551615-18446744073709551615 => (x [])
        XADD x 18446744073709551615-18446744073709551615 a 2 => "18446744073709551615-18446744073709551615"
        XREADGROUP GROUP g d CLAIM 0 COUNT 2 STREAMS x > => (x [["1-0" [a "1"] ?: :2]])
        XGROUP SETID x g 1-0                        => OK
        XREADGROUP GROUP g d CLAIM 0 STREAMS x >    => (x [["1-0" [a "1"] ?: :3] ["18446744073709551615-18446744073709551615" [a "2"] :0 :0]])
        XREADGROUP GROUP g d CLAIM 0 COUNT 3 STREAMS x > => (x [["1-0" [a "1"] ?: :4] ["18446744073709551615-18446744073709551615" [a "2"] ?: :1]])
        XPENDING x g                                => [:2 "1-0" "18446744073709551615-18446744073709551615" [[d "2"]]]
        XREAD STREAMS x 18446744073709551615-18446744073709551615 => nil*
        XTRIM x MINID 18446744073709551615-18446744073709551615 => :1
        XDEL x 18446744073709551615-18446744073709551615 => :1
        XADD x * a 3                                => -ERR The stream has exhausted the last possible ID, unable to add more items
    '''),
    ('XREADGROUP CLAIM of several streams', '''
        XADD x 1-0 a 1                              => "1-0"
        XADD y 2-0 a 2                              => "2-0"
        XADD y 3-0 a 3                              => "3-0"
        XGROUP CREATE x g 0                         => OK
        XGROUP CREATE y g 0                         => OK
        XREADGROUP GROUP g c COUNT 1 STREAMS x y > > => (x [["1-0" [a "1"]]] y [["2-0" [a "2"]]])
        XREADGROUP GROUP g d CLAIM 0 STREAMS x y > > => (x [["1-0" [a "1"] ?: :1]] y [["2-0" [a "2"] ?: :1] ["3-0" [a "3"] :0 :0]])
        XREADGROUP GROUP g d CLAIM 0 COUNT 1 STREAMS x y > 2-0 => (x [["1-0" [a "1"] ?: :2]] y [["3-0" [a "3"]]])
    '''),
    ('XREADGROUP CLAIM: arguments', '''
        XADD x 1-0 a 1                              => "1-0"
        XGROUP CREATE x g 0                         => OK
        XREADGROUP GROUP g c CLAIM t STREAMS x >    => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM 5.5 STREAMS x >  => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM +10 STREAMS x >  => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM -0 STREAMS x >   => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM 9223372036854775808 STREAMS x > => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM -10 STREAMS x >  => -ERR min-idle-time must be a positive integer
        XREADGROUP GROUP g c CLAIM STREAMS x >      => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g c CLAIM 1 CLAIM COUNT 1 STREAMS x > => -ERR min-idle-time is not an integer
        XREADGROUP CLAIM GROUP g c COUNT 1 STREAMS x > => -ERR min-idle-time is not an integer
        XREADGROUP GROUP g CLAIM 50 c STREAMS x >   => -ERR syntax error
        XREADGROUP GROUP g c COUNT 1 STREAMS x CLAIM > => -ERR Unbalanced …
        XREADGROUP GROUP g c COUNT 1 STREAMS x > CLAIM 50 => -ERR Invalid stream ID specified as stream command argument
        XREADGROUP GROUP none c CLAIM 50 STREAMS x > => -NOGROUP No such key 'x' or consumer group 'none' in XREADGROUP with GROUP option
        XREADGROUP GROUP g c CLAIM 7 CLAIM 0 STREAMS x > => (x [["1-0" [a "1"] :0 :0]])
        XREAD COUNT 2 CLAIM 10 STREAMS x 0-0        => -ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.
    '''),
    ('XREADGROUP CLAIM with BLOCK waits until an entry may be claimed', '''
        XADD x 1-0 a 1                              => "1-0"
        XGROUP CREATE x g 0                         => OK
        XREADGROUP GROUP g c STREAMS x >            => (x [["1-0" [a "1"]]])
        XREADGROUP GROUP g d BLOCK 1 CLAIM 900000 STREAMS x > => nil*
        XREADGROUP GROUP g d BLOCK 0 CLAIM 100 STREAMS x > => (x [["1-0" [a "1"] ?: :1]])
        XREADGROUP GROUP g d BLOCK 60000 CLAIM 0 STREAMS x > => (x [["1-0" [a "1"] ?: :2]])
        XREADGROUP GROUP g d BLOCK 60000 CLAIM 50 NOACK STREAMS x > => (x [["1-0" [a "1"] ?: :3]])
        XGROUP CREATE y g 0 MKSTREAM                => OK
        XREADGROUP GROUP g d BLOCK 60000 CLAIM 100 STREAMS y x > > => (x [["1-0" [a "1"] ?: :4]])
        XPENDING x g - + 9                          => [["1-0" d ?: :5]]
    ''', 'alone'),
]
