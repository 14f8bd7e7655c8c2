"""behaviours_scripting: Lua scripts and functions. Only direct: through a proxy, keys have to be declared."""


def evals(scripts):
    """One EVAL for each line of `scripts`."""
    words = [line.strip().replace('\\', '\\\\').replace('"', '\\"') for line in scripts.strip().splitlines()]
    return '\n'.join('EVAL "%s" 0' % word for word in words)


CASES = [
    ('scripts: redis.call, redis.pcall and their errors', evals(r'''
        return redis.call()
        return redis.call("nope")
        return redis.call("get")
        return redis.call("subscribe","a")
        return redis.pcall("subscribe","a")
        return redis.call({})
        return redis.call("set","a",{})
        return redis.call("set","a",nil)
        redis.call("set","s","x") return redis.call("hget","s","a")
        return redis.pcall("hget","s","a")
        redis.call("set","k","v") error("x")
        return type(redis.call("get","none"))
        return redis.call("ping")
        return redis.call("multi")
        return redis.call("eval","return 1",0)
        return redis.call("config","get","maxmemory")
        return redis.call("config","nope")
        return redis.call("config")
        return redis.call("client","nope")
        return redis.call("incr","s")
        local ok,e=pcall(redis.call,"incr","s") return type(e)..tostring(e.err)
        return {pcall(redis.call,"incr","s")}
        local e=redis.pcall("incr","s") local t={} for k,v in pairs(e) do t[#t+1]=k.."="..tostring(v) end table.sort(t) return t
        local e=redis.pcall("nope") local t={} for k,v in pairs(e) do t[#t+1]=k.."="..tostring(v) end table.sort(t) return t
        local ok,e=pcall(redis.call,"nope") local t={} for k,v in pairs(e) do t[#t+1]=k.."="..tostring(v) end table.sort(t) return t
        local ok,e=pcall(redis.call,"incr","s") local t={} for k,v in pairs(e) do t[#t+1]=k.."="..tostring(v) end table.sort(t) return t
        local ok,e=pcall(redis.call,"incr","s") error(e)
        return redis.call("blpop","zz",0)
        return redis.call("expire","none","abc")
        return redis.pcall()
        return redis.pcall({})
        return redis.call("set","num",3.7),redis.call("get","num")
        redis.call("set","num",3.7) return redis.call("get","num")
        redis.call("set","num",10) return redis.call("get","num")
        redis.call("set","num",1e20) return redis.call("get","num")
        redis.call("set","num",0.1) return redis.call("get","num")
        redis.call("set","num",12345678901234567) return redis.call("get","num")
        redis.call("set","num",-0.0) return redis.call("get","num")
        redis.call("set","num",0/0) return redis.call("get","num")
        redis.call("set","num",1/0) return redis.call("get","num")
        return redis.call("hgetall","none")
        redis.call("hset","h","f","v") return redis.call("hgetall","h")
        redis.setresp(3) return redis.call("hgetall","h")
        redis.setresp(3) return redis.call("get","none")
        redis.setresp(3) local r = redis.call("get","none") return type(r)
        redis.setresp(3) local r = redis.call("hgetall","h") return r.map.f
        redis.call("hset",KEYS[1],"a")
        return redis.call("hset","h")
        redis.call=1
        return coroutine.wrap(function() return redis.call("ping") end)()
        return redis.call("set","a","b")
        return redis.pcall("set","a","b")
        return redis.call("set","a")
        return redis.call("GET","s","extra")
        return redis.call("object","help")[1]
        return redis.call("object","nope","s")
        return redis.call("script","load","x")
        return redis.call("script","nope")
        return redis.call("quit")
        return redis.call("watch","a")
        return redis.call("auth","a")
        return redis.call("hello")
        return redis.call("wait",0,0)
        return redis.call("select",1)
        return redis.call("incrbyfloat","fl",0.1)
        return {redis.call("get","none"),1}
        return {1,redis.call("get","none"),1}'''), ['direct']),
    ('scripts: the sandbox, and errors of Lua', evals(r'''
        local a = 
        return {ok="a\r\nb"}
        return {err="a\r\nb"}
        return {err=1}
        return {ok=1}
        math.randomseed(7) return math.random(100000)
        return math.random(5,4)
        return math.random(0)
        return loadstring(string.dump(function() return 1 end))()
        return {loadstring("\27Lua")}
        return {loadstring("x x")}
        return {loadstring("x x", "=me")}
        return function() end
        return KEYS[1]
        return pcall
        local ok,e=pcall(function() error("q") end) return e
        local ok,e=pcall(function() return x end) local t={} if type(e)=="table" then for k,v in pairs(e) do t[#t+1]=k.."="..tostring(v) end return t end return e
        error("a\nb")
        error("ERR foo")
        error("boo", 0)
        error("boo", 2)
        error(12)
        error({err="plain"})
        error({err="-plain"})
        error({err="ERR x", source="src", line="7"})
        local x = x.y.z
        local x = {} return x.y.z
        return 1+{}
        return string.rep("a",3,4)
        return #string.rep("ab",1000)
        local n=0 for k in pairs(_G) do if k ~= "os" then n=n+1 end end return n
        return rawget(_G,"redis") == redis
        return rawget(redis,"LOG_DEBUG")
        return #redis
        return _G._G == _G
        return _G.KEYS == KEYS
        KEYS[1]="x" return KEYS[1]
        KEYS="x" return KEYS
        table.x=1
        string.x=1
        _G.y=1
        rawset(redis,"a",1)
        setmetatable(redis,{})
        setmetatable(KEYS,{}) return 1
        return getfenv(1)==_G
        print(1)
        return require
        table.sort(redis)
        table.remove(_G)
        table.setn(redis,1)
        table.foreach(redis,function(k,v) return k end) return 1
        return table.maxn(redis)
        return unpack(redis)
        ipairs(redis) return 1
        return xpcall(function() error("a") end, function(e) return "h:"..e end)
        return {pcall(error,{err="X"})}
        return coroutine.wrap(function() error("x") end)()
        local co=coroutine.create(function() error("x") end) return {coroutine.resume(co)}
        coroutine.yield(1)
        return string.format("%q","a\0b")
        return tostring(1e15)
        return tostring(123456789012345678)
        return tostring(0.1)
        return 10/3
        return {tostring(10/3)}
        return string.find("abc",("a?"):rep(10))
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return 1
        return x
        return ("x"):bad()
        return {err="ERR abc"}
        return {err="abc"}
        return {err="-abc def"}
        return {err=""}
        return {ok="fine",err="both"}'''), ['direct']),
    ('scripts: the other functions of redis', evals(r'''
        return redis.error_reply("My Err")
        return redis.error_reply("-My Err")
        return redis.error_reply("My")
        return redis.error_reply("-")
        return redis.error_reply("")
        return redis.error_reply()
        return redis.error_reply(1)
        return redis.status_reply("FINE")
        return redis.status_reply(1)
        return redis.sha1hex()
        return redis.sha1hex("a")
        return redis.sha1hex(1)
        return redis.log()
        return redis.log(1)
        return redis.log("a","b")
        return redis.log(9,"b")
        return redis.log(1,"b")
        return redis.log(1,{})
        return redis.set_repl(9)
        return redis.set_repl()
        return redis.set_repl(1)
        return redis.replicate_commands()
        return redis.acl_check_cmd("get","a")
        return redis.acl_check_cmd("nope")
        return redis.acl_check_cmd("config|get")
        return redis.acl_check_cmd()
        return redis.register_function("a",function() end)
        return redis.set_repl("a")
        return redis.acl_check_cmd({})
        return redis.acl_check_cmd("set",{})
        return redis.sha1hex({})
        return redis.status_reply()
        redis.error_reply({})
        return redis.error_reply("ERR x","y")
        return {redis.error_reply("x"),redis.status_reply("y")}'''), ['direct']),
    ('scripts: Lua values as replies', evals(r'''
        return {1,2,nil,3}
        return 3.99
        return -3.99
        return 1e300
        return 0/0
        return 2^63
        return {double=3.5}
        return {double="x"}
        return {map={a=1}}
        return true
        return false
        return {set={a=true}}
        return {big_number="123"}
        return {verbatim_string={format="txt",string="hi"}}
        return nil
        return redis.setresp(4)
        return redis.setresp()
        return redis.setresp(3)
        return redis.setresp("3")
        return load(function() return nil end)
        return {1,{2,{3}},"x",true,false,3.7}
        return tostring(nil)..nil
        return unpack({1,2,3},-2,2147483647)
        return {unpack({1,2,3})}
        return tostring(redis)~=nil
        return getmetatable(_G) == nil
        return getmetatable(redis) == nil
        return next(redis) ~= nil
        return newproxy(true)
        return table.getn({1,2})
        return string.format("%d",3.99)'''), ['direct']),
    ('scripts: cjson and bit', evals(r'''
        return cjson.encode({1,2,{a=1}})
        return cjson.encode({a=cjson.null})
        return cjson.decode("[1,2.5,null,true]")
        return cjson.decode("{bad")
        return cjson.encode({[1]=1,[100]=2})
        return cjson.encode({[1]=1,[5]=2})
        return cjson.encode(function() end)
        return cjson.decode('{"a":[1,2]}').a
        return cjson.encode({})
        return cjson.encode(1/0)
        return cjson.encode(0.1)
        return cjson.encode("/")
        return bit.tohex(65535,4)
        return bit.band(255,15)
        return {bit.tohex(1,-2147483648),bit.tohex(-1,-3),bit.tohex(255,0),bit.tohex(255,9),bit.tohex(-1,2147483647)}
        return bit.tobit("0x10")
        return bit.tobit({})
        return bit.tobit()
        return {bit.tobit(1e300),bit.tobit(2.5),bit.tobit(3.5),bit.tobit(-2^40-1),bit.tobit(2^31),bit.tobit(0/0)}
        return {bit.rol(0x12345678,12),bit.ror(0x12345678,12),bit.ror(1,0),bit.rol(1,32),bit.rol(1,-1)}
        return {bit.arshift(-256,8),bit.rshift(-256,8),bit.lshift(-256,33),bit.bswap(0x12345678),bit.bnot(0)}
        return {bit.band(1),bit.bor(1,2,4),bit.bxor(1,3,7),bit.band(-1,"7",3)}
        return cjson.encode({1,nil,3,"e\127\1/\t"})
        return cjson.encode("a",2)
        return cjson.encode()
        return cjson.encode({[1]=1,[11]=2})
        return cjson.encode({[1]=1,[1e15]=2})
        return cjson.encode({[1.5]=1,[true]=3})
        return cjson.encode({[-0.1]=1})
        return cjson.encode({[{}]=1})
        local t={} t[1]=t return cjson.encode(t)
        cjson.encode_max_depth(5) local t={} t[1]=t local ok,e=pcall(cjson.encode,t) cjson.encode_max_depth(1000) return e
        return cjson.decode("nul")
        return cjson.decode("")
        return cjson.decode(" ")
        return cjson.decode("1e999")
        return cjson.decode("0x1F")
        return cjson.decode("[inf,nan,-Infinity, 01]")
        return cjson.decode("+1")
        return cjson.decode("-")
        return cjson.decode("1 2")
        return cjson.decode('{"a":1,}')
        return cjson.decode("[1,]")
        return cjson.decode("[,1]")
        return cjson.decode("{1:1}")
        return cjson.decode('{"a" 1}')
        return cjson.decode('{"a":}')
        return cjson.decode('{"a":1]')
        return cjson.decode('["\\u00zz"]')
        return cjson.decode('["\\ud800x"]')
        return cjson.decode('["\\udc00"]')
        return cjson.decode('["\\ud83d\\ude00\\u00e9\\u20ac\\n\\/"]')
        return cjson.decode('["\\x"]')
        return cjson.decode('["abc')
        return cjson.decode("a\0")
        return cjson.decode("[1,2\0,3]")
        return cjson.decode('["a\0b"]')
        return cjson.decode(12)
        return cjson.decode({})
        return cjson.decode()
        return cjson.decode(("["):rep(1001))
        return cjson.decode(("["):rep(1000)..("]"):rep(1000))[1][1][1] ~= nil
        return cjson.encode_sparse_array(1)
        return {cjson.new().encode_sparse_array(true,0,-1)}
        return {cjson.encode_sparse_array(1,2,3,4)}
        return {cjson.encode_max_depth(),cjson.decode_max_depth(),cjson.encode_number_precision(),cjson.encode_keep_buffer()}
        return cjson.encode_max_depth(2^31)
        return cjson.encode_max_depth(0)
        return cjson.decode_max_depth("x")
        return cjson.encode_number_precision(15)
        return cjson.encode_keep_buffer(1)
        return cjson.encode_invalid_numbers("x")
        return cjson.decode_invalid_numbers("null")
        local j=cjson.new() j.encode_invalid_numbers("null") return {j.encode({1/0,-1/0,0/0}),pcall(cjson.encode,1/0)}
        local j=cjson.new() j.encode_invalid_numbers(true) return {j.encode({1/0,-1/0,0/0}),tostring(j.encode_invalid_numbers("off"))}
        local j=cjson.new() j.decode_invalid_numbers(false) return {pcall(j.decode,"0x10")}
        local j=cjson.new() j.decode_invalid_numbers(false) return {pcall(j.decode,"[nan]")}
        local j=cjson.new() j.encode_number_precision(3) return {j.encode(1.23456),cjson.encode(1.23456),cjson.encode(1e100),cjson.encode(-0.5)}
        local j=cjson.new() j.encode_sparse_array(true,1,1) return {j.encode({[1]=1,[3]=2}),j.encode({[2]=1})}
        local j=cjson.new() j.encode_sparse_array(false,0) return #j.encode({[1000]=1})
        local t={} for k,v in pairs(cjson.new()) do t[#t+1]=k.."="..type(v) end table.sort(t) return t
        return {cjson._NAME,cjson._VERSION,type(cjson.null),tostring(cjson.null==cjson.decode("null"))}
        return cjson.encode({a={b={1,"x",{c=cjson.null}}}})'''), ['direct']),
    ('scripts: errors in replies count in errorstats, those of commands once', 'CONFIG RESETSTAT\n' + evals(r'''
        return redis.error_reply("MYERR x")
        return redis.error_reply("x")
        return {err="nocode"}
        return {err=""}
        return {err="-DASH x"}
        return {1,{err="DEEP a"},{err="DEEP b"}}
        error({err="RAISED y"})
        error("plain")
        redis.call("set","s","x") return redis.call("incr","s")
        return redis.pcall("incr","s")
        local x=redis.pcall("incr","s") return redis.error_reply(x.err)
        local ok,e=pcall(redis.call,"incr","s") error(e)
        return redis.pcall("nope")
        return redis.call("get")
        return nope''') + '\nINFO errorstats', ['direct']),
    ('scripts: commands that scripts may not call', evals(r'''
        return redis.call("XREAD","BLOCK","0","STREAMS","s","$")
        return redis.call("xread","COUNT","1","BLOCK","100","STREAMS","s","0")
        return redis.call("XREADGROUP","GROUP","g","c","BLOCK","0","STREAMS","s",">")
        return redis.pcall("xread","block","x","streams","s","$")
        return redis.call("xread","streams","s","$")
        return redis.call("cluster","reset")
        return redis.call("cluster","reset","hard","x")
        return redis.call("failover")
        return redis.call("replicaof","no","one")
        return redis.call("psync","a","1")
        return redis.call("psync")
        return redis.call("sync")'''), ['direct']),
    ('scripts: long lists and deep tables', evals(r'''
        local t={} for i=1,7999 do t[i]=1 end return select("#",unpack(t))
        local t={} for i=1,8000 do t[i]=1 end return select("#",unpack(t))
        local t={} for i=1,7000 do t[i]=i end return {unpack(t)}
        local t={} for i=1,7000 do t[i]="k"..i end return redis.call("del",unpack(t))
        local t={} for i=1,7999 do t[i]="k"..i end return redis.call("del",unpack(t))
        local t={} for i=1,7999 do t[i]=i end return redis.call("lpush","l",unpack(t))
        local t={} for i=1,7999 do t[i]="k" end return redis.pcall("mget",unpack(t))[1]
        local t={} for i=1,7999 do t[i]="k" end return redis.pcall("nope",unpack(t))
        return {pcall(unpack,{},1,1e8)}
        return {pcall(unpack,{},-1e8,1)}'''), ['direct']),
    ('scripts: patterns, and functions of table', evals(r'''
        return {string.find("hello","l+")}
        return {string.find("hello","l",1,true)}
        return {string.find("hello","")}
        return {string.find("hello","",10)}
        return {string.find("hello","",-2)}
        return {string.find("hello","h",-100)}
        return {string.find("a.b",".",1,true)}
        return {string.find("a\0b","\0")}
        return {string.find("a\0b.","%z")}
        return {string.find("abc","b()")}
        return {string.find("abc","()b(c)")}
        return {string.match("key = value","^(%w+)%s*=%s*(%w+)$")}
        return {string.match("abc","(a)(b)(c)")}
        return {string.match("abc","x")}
        return {string.match("  trim  ","^%s*(.-)%s*$")}
        return {string.match("THE (quick) fox","%((%a+)%)")}
        return {string.match("f(a(b)c)d","%b()")}
        return {string.match("THE (quick) fox","%f[%a]%a+",5)}
        return {string.match("abab","(ab)%1")}
        return {string.match("x]y","[]]")}
        return {string.match("x-y","[a%-]")}
        return {string.match("x^y","[x^]+")}
        return {string.match("abc","[^a]+")}
        return {string.match("aaa","a-b?$")}
        return {string.match("2024-01-02","(%d+)-(%d+)-(%d+)")}
        return {string.match(12345,"%d%d")}
        return {string.match("abc","")}
        return {string.match("a$","a$$")}
        return {string.match("a$b","a$b")}
        return string.match("a","%")
        return string.match("a","[a")
        return string.match("a","[a%")
        return string.match("a","(a")
        return string.match("a","a)")
        return string.match("a","%1")
        return string.match("a","(a)%2")
        return string.match("a","()%1")
        return string.match("a","%b")
        return string.match("a","%f")
        return string.match("a",("(a)"):rep(33))
        return string.match()
        return string.match("a")
        return string.match({},"a")
        return string.find(nil,"a")
        return string.find("a","a",{})
        return {string.gsub("hello world","o","0")}
        return {string.gsub("hello","","-")}
        return {string.gsub("hello","l*","x")}
        return {string.gsub("hello world","(%w+)","<%1>")}
        return {string.gsub("hello","l","%0%0",1)}
        return {string.gsub("abc","%w","%%%0")}
        return {string.gsub("abc","b","%2")}
        return {string.gsub("abc","b","%x%")}
        return {string.gsub("abc","^a","x")}
        return {string.gsub("aaa","^a","x")}
        return {string.gsub("$name is $age","%$(%w+)",{name="x",age=7})}
        return {string.gsub("abc","%w",function(c) if c=="b" then return "X" end end)}
        return {string.gsub("abc","(a)(b)",function(x,y) return y..x end)}
        return {string.gsub("abc","a",function() return {} end)}
        return {string.gsub("abc","a",true)}
        return {string.gsub("abc","a")}
        return {string.gsub("abc",".","x",0)}
        return {string.gsub("abc",".","x",-1)}
        return {string.gsub("abc",".","x","2")}
        return {string.gsub("abc","(b",'x')}
        return {string.gsub("abc","()",'%1')}
        local t={} for a,b in string.gmatch("k=v, x=y","(%w+)=(%w+)") do t[#t+1]=a..b end return t
        local t={} for a in string.gmatch("abc","") do t[#t+1]=a.."." end return t
        local t={} for a in string.gmatch("abc","()") do t[#t+1]=a end return t
        local t={} for a in string.gmatch("^a^b","^%a") do t[#t+1]=a end return t
        local t={} for a in string.gfind("a1b2","%d") do t[#t+1]=a end return t
        return string.gmatch("a","[")
        return string.gmatch("a","[")()
        return string.gmatch("a")
        return ("x"):rep(3)..("x"):rep(0)..("x"):rep(-1)..(""):rep(5)..("ab"):rep(2.7)
        return ("x"):rep()
        return ("x"):rep({})
        local t={3,1,2} table.sort(t) return t
        local t={} for i=1,200 do t[i]=(i*7919)%101 end table.sort(t) return t
        local t={} for i=1,200 do t[i]=(i*7919)%101 end table.sort(t,function(a,b) return a>b end) return t
        local t={} for i=1,100 do t[i]=tostring((i*7919)%101) end table.sort(t) return t
        local t={1,"a"} table.sort(t) return t
        local t={} for i=1,100 do t[i]=i%2==0 and i or "a" end table.sort(t) return t
        local t={} for i=1,100 do t[i]=i end table.sort(t,function() return true end) return #t
        return table.sort()
        return table.sort({},1)
        local t={1,2,3} table.insert(t,1,0) table.insert(t,9) table.insert(t,3,7) return t
        local t={1,2} table.insert(t,5,9) return {#t,t[5]}
        local t={1,2} table.insert(t,0,9) return {t[0],t[1],t[2],t[3]}
        return table.insert({})
        return table.insert({},1,2,3)
        return table.insert(nil,1)
        return table.insert({},"x",1)
        local t={1,2,3} return {table.remove(t,1),table.remove(t),table.remove(t),table.remove(t),#t}
        local t={1,2,3} return {table.remove(t,7),table.remove(t,0),table.remove(t,-1),#t}
        return table.remove()
        return table.remove({},"x")
        local t={} table.foreach({a=1},function(k,v) t[1]=k t[2]=v end) return t
        return table.foreach({a=1},function(k,v) return k end)
        return table.foreachi({5,6,7},function(i,v) if i==2 then return v end end)
        return table.foreach({},1)
        return table.foreachi(1)
        return collectgarbage("x")
        return collectgarbage("count") > 0
        return collectgarbage(1)
        return {collectgarbage(),collectgarbage("collect"),collectgarbage("stop"),collectgarbage("restart")}
        local n=0 return load(function() n=n+1 return ({"return ","1","+1"})[n] end)()
        return {load(function() return {} end)}
        return {load(function() error("x") end)}
        return {loadstring("return 1 1")}'''), ['direct']),
    ('scripts: cmsgpack', evals(r'''
        return cmsgpack.pack(1,"a",{1,2},{a=1},nil,true,1.5)
        return {cmsgpack.unpack(cmsgpack.pack(1,"a",{1,2},true,1.5,-1,-200,70000,-70000,5e9))}
        return cmsgpack.unpack("\217")
        return cmsgpack.unpack("\217\5a")
        return cmsgpack.unpack("\193")
        return {cmsgpack.unpack_one("\1\2\3")}
        return {cmsgpack.unpack_one("\1\2\3",1)}
        return {cmsgpack.unpack_one("\1\2\3",3)}
        return {cmsgpack.unpack_one("\1\2\3",5)}
        return {cmsgpack.unpack_one("\1\2\3",-1)}
        return {cmsgpack.unpack_limit("\1\2\3",2)}
        return {cmsgpack.unpack_limit("\1\2\3",2,1)}
        return {cmsgpack.unpack_limit("\1\2\3",0)}
        return {cmsgpack.unpack_limit("\1\2\3",-1)}
        return {cmsgpack.unpack("")}
        return cmsgpack.pack()
        return cmsgpack.pack({})
        return cmsgpack.pack({1,nil,3})
        return cmsgpack.pack({[1]="a",[2]="b",[4]="c"})
        return cmsgpack.pack({a={b={c={d=1}}}})
        local t={} for i=1,40 do t={t} end return cmsgpack.pack(t)
        local t={} t.a=t return cmsgpack.pack(t)
        return cmsgpack.pack(function() end)
        return cmsgpack.pack(string.rep("x",40))
        return cmsgpack.pack(string.rep("x",300))
        return #cmsgpack.pack(string.rep("x",70000))
        return cmsgpack.pack(3.0,3.5,0.1,1e300,-1,-32,-33,-128,-129,-32768,-32769,127,128,255,256,65535,65536,4294967295,4294967296,2^53,-2^40,1/0)
        return cmsgpack.unpack("\129\1\2")[1]
        return cmsgpack.unpack("\145")
        return cmsgpack.unpack("\221\255\255\255\255\1")
        return {cmsgpack.unpack("\192\194\195\204\255\208\255\202\63\128\0\0")}
        return cmsgpack.unpack({})
        return cmsgpack.unpack()
        return cmsgpack.unpack("\199\1\1\1")
        return cmsgpack.unpack("\196\3abc")'''), ['direct']),
    ('scripts: struct', evals(r'''
        return struct.pack("HH",1,2)
        return struct.pack(">I2i4",1,-2)
        return struct.pack("<bBhHlLiI",1,2,3,4,5,6,7,8)
        return struct.pack("fd",1.5,2.5)
        return struct.pack("s","abc")
        return struct.pack("c3","abcdef")
        return struct.pack("c0","abcdef")
        return struct.pack("c9","abc")
        return struct.pack("!4bi",1,2)
        return struct.pack("!bxi",1,2)
        return struct.pack("Bc0",3,"abc")
        return {struct.unpack("Bc0","\3abcd")}
        return {struct.unpack("s","abc\0def")}
        return {struct.unpack("s","abc")}
        return {struct.unpack("HH","\1\0\2\0")}
        return {struct.unpack("H","\1")}
        return {struct.unpack("i4","\255\255\255\255")}
        return {struct.unpack(">I8","\0\0\0\0\0\0\1\0")}
        return {struct.unpack("c0","a")}
        return {struct.unpack("c-1","a")}
        return {struct.unpack("i33","a")}
        return {struct.unpack("i3","abc")}
        return {struct.unpack("H","\1\2\3",2)}
        return {struct.unpack("H","\1\2\3",0)}
        return {struct.unpack("H","\1\2\3",-1)}
        return {struct.unpack("H","\1\2\3",9)}
        return {struct.unpack("T","\1\2\3\4\5\6\7\8")}
        return struct.size("bhilLT")
        return struct.size("!8bi8")
        return struct.size("s")
        return struct.size("c0")
        return struct.size("c5")
        return struct.size("z")
        return struct.size("!3")
        return struct.size("!64")
        return struct.size("I2147483647")
        return struct.size("c2147483647c2147483647")
        return struct.pack("z",1)
        return struct.pack("i")
        return struct.pack("i","x")
        return struct.pack("I1",300)
        return struct.pack("i1",-1)
        return struct.pack("I8",-1)
        return struct.pack("i8",2^62)
        return struct.unpack("d","\0\0\0\0\0\0\248\63")'''), ['direct']),
    ('scripts: numbers of keys, SHA-1s and the first line', r'''
        EVAL "return 1" x
        EVAL "return 1" -1
        EVAL "return 1" 2 a
        EVAL "return 1"
        EVAL "return {KEYS,ARGV}" 2 a b c
        EVAL "return {KEYS,ARGV}" 0
        SCRIPT LOAD "return 1"
        SCRIPT LOAD "bad bad"
        SCRIPT LOAD "#!lua flags=zz\nreturn 1"
        SCRIPT LOAD "#!lua flags=no-writes\nreturn 1"
        SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db E0E1F9FABFC9D4800C877A703B823AC0578FF8DB x
        SCRIPT EXISTS
        EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
        EVALSHA x 0
        EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
        EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 0
        EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        SCRIPT FLUSH x
        SCRIPT FLUSH sync x
        SCRIPT FLUSH async
        SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        SCRIPT KILL
        SCRIPT nope
        EVAL_RO "return redis.call('set','a','b')" 0
        EVAL_RO "return redis.call('publish','a','b')" 0
        EVAL_RO "return redis.pcall('set','a','b')" 0
        EVAL_RO "#!lua\nreturn redis.call('set','a','b')" 0
        EVAL "#!lua\nreturn 1" 0
        EVAL "#!lua name=a\nreturn 1" 0
        EVAL "#!lua flags=no-writes\nreturn redis.call('set','a','b')" 0
        EVAL "#!lua flags=no-writes\nreturn redis.call('nope')" 0
        EVAL "#!lua flags=nope\nreturn 1" 0
        EVAL "#!lua flags=no-writes,allow-oom,allow-stale,no-cluster,allow-cross-slot-keys\nreturn 1" 0
        EVAL "#!lua bad=1\nreturn 1" 0
        EVAL "#!lua flags=\nreturn 1" 0
        EVAL "#!lua \"flags=no-writes\"\nreturn 1" 0
        EVAL "#!lua   \nreturn 1" 0
        EVAL "#! lua\nreturn 1" 0
        EVAL "#!python\nreturn 1" 0
        EVAL "#!lua" 0
        EVAL "#!lua \"\nreturn 1" 0
        EVAL "#!lua\n\nreturn x" 0
        EVAL "\nreturn x" 0''', ['direct']),
    ('scripts: the writes of a failing script stay, those of a failing command are rolled back', r'''
        EVAL "redis.call('set','k','v') error('x')" 0
        GET k
        EVAL "redis.call('set','k','w') redis.call('hset','k','f','v')" 0
        GET k
        EVAL "redis.call('rpush','l',1) redis.pcall('mset','k','1','l') redis.call('append','k','!') redis.call('nope')" 0
        GET k
        LRANGE l 0 -1
        MULTI
        EVAL "redis.call('set','k','1') redis.call('incr','l')" 0
        INCR k
        SCRIPT LOAD "return 5"
        EVALSHA nope 0
        EXEC
        GET k
        SELECT 2
        EVAL "redis.call('select',5) redis.call('set','five','5') return redis.call('get','five')" 0
        GET five
        SELECT 5
        GET five
        SELECT 0
        2: WATCH k
        EVAL "redis.call('set','k','x')" 1 k
        2: MULTI
        2: GET k
        2: EXEC''', ['direct']),
    ('functions', r'''
        FUNCTION FLUSH
        FUNCTION LOAD x
        FUNCTION LOAD "#!lua"
        FUNCTION LOAD "#!lua\nx"
        FUNCTION LOAD "#!lua name=a b\n"
        FUNCTION LOAD "#!lua foo=a\n"
        FUNCTION LOAD "#!lua name=a name=b\n"
        FUNCTION LOAD "#!js name=a\nx"
        FUNCTION LOAD "#!lua name=\n"
        FUNCTION LOAD "#!lua name=a-b\nx=1"
        FUNCTION LOAD "#!lua name=lib\nreturn 1"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('f')"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function()"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',1)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('a-b',function() end)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('',function() end)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function() end) redis.register_function('f',function() end)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f'}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{callback=function() end}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=1}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=function() end,foo=1}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=function() end,flags=1}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=function() end,flags={'bad'}}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{function_name='f',callback=function() end,flags={1}}"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function(1)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('a',function() end,1)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function{[1]=1}"
        FUNCTION LOAD "#!lua name=lib\nredis.call('ping')"
        FUNCTION LOAD "#!lua name=lib\nx=1"
        FUNCTION LOAD "#!lua name=lib\nreturn x"
        FUNCTION LOAD "#!lua name=lib\nlocal y = ="
        FUNCTION LOAD "#!lua name=lib\nerror('boo')"
        FUNCTION LOAD "#!lua name=lib\nredis.setresp(3)"
        FUNCTION LOAD "#!lua name=lib\nreturn math.random()"
        FUNCTION LOAD "#!lua name=lib\nlocal n=0 redis.register_function('cnt',function() n=n+1 return n end)"
        FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function() end)"
        FUNCTION LOAD "#!lua name=lib2\nredis.register_function('cnt',function() end)"
        FUNCTION LOAD nope "#!lua name=lib2\nredis.register_function('cnt',function() end)"
        FUNCTION LOAD REPLACE
        FUNCTION LOAD "#!lua name=two\nredis.register_function{function_name='ro',callback=function(k,a) return redis.call('set','a','b') end,flags={'no-writes'},description='desc'}"
        FUNCTION LOAD "#!lua name=three\nredis.register_function('f',function(k,a) return {k,a} end)"
        FUNCTION LOAD "#!lua name=four\nredis.register_function('err',function() error('x') end)"
        FUNCTION LOAD "#!lua name=five\nredis.register_function('glob',function() return KEYS end)"
        FUNCTION LOAD "#!lua name=six\nredis.register_function('rf',function() redis.register_function('z',function() end) end)"
        FUNCTION LOAD "#!lua name=seven\nredis.register_function('keys_of',function() local t={} for k in pairs(redis) do t[#t+1]=k end table.sort(t) return t end)"
        FUNCTION LOAD "#!lua name=eight\nredis.register_function{function_name='get8',callback=function(k) return redis.call('get',k[1]) end,flags={'no-writes','allow-stale'}}"
        FCALL f 2 a b c
        FCALL F 0
        FCALL none 0
        FCALL f x
        FCALL f -1
        FCALL f 3 a
        FCALL_RO f 0
        FCALL_RO ro 0
        FCALL ro 0
        FCALL_RO get8 1 nokey
        FCALL cnt 0
        FCALL cnt 0
        FCALL err 0
        FCALL glob 0
        FCALL rf 0
        FCALL keys_of 0
        FUNCTION LIST LIBRARYNAME lib*
        FUNCTION LIST WITHCODE LIBRARYNAME t*o
        FUNCTION LIST WITHCODE WITHCODE
        FUNCTION LIST LIBRARYNAME
        FUNCTION LIST NOPE
        FUNCTION LIST LIBRARYNAME a LIBRARYNAME b
        FUNCTION STATS
        FUNCTION KILL
        FUNCTION DELETE none
        FUNCTION DELETE lib
        FCALL cnt 0
        FUNCTION FLUSH x
        FUNCTION FLUSH async sync
        FUNCTION RESTORE x
        FUNCTION RESTORE x nope
        FUNCTION RESTORE x flush y
        FUNCTION nope
        FUNCTION FLUSH ASYNC
        FUNCTION LIST
        FUNCTION DUMP
        FUNCTION LOAD "#!lua name=one\nredis.register_function('one',function() return 1 end)"
        FUNCTION DUMP
        FUNCTION FLUSH SYNC
        FCALL one 0''', ['direct']),
]
