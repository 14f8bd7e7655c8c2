"""scripting: EVAL and its variants with commands of other groups, including errors and conversions."""

WEIGHT = 2

VALUES = ['1', '-7', '3.99', '"x"', '""', '"a\\0b"', 'true', 'false', 'nil', '{}', '{1,2,nil,4}', '{"a",{1,{2}}}',
          '{ok="fine"}', '{err="ERR e"}', '{err="plain"}', '{double=1.5}', '{map={a=1}}', '{set={a=true}}',
          '{big_number="12"}', '{verbatim_string={format="txt",string="v"}}', '2^40', '1e17', '0.1', 'KEYS', 'ARGV',
          'KEYS[1]', 'ARGV[1]', '#ARGV', 'cjson.encode(ARGV)', 'cmsgpack.pack(ARGV)', 'redis.sha1hex(KEYS[1] or "")',
          'redis.error_reply("E x")', 'redis.status_reply("S")', 'tostring(1/3)', 'function() end']
CALLS = ['"set",KEYS[1],ARGV[1]', '"get",KEYS[1]', '"incr",KEYS[1]', '"incrbyfloat",KEYS[1],0.1', '"append",KEYS[1],"x"',
         '"hset",KEYS[1],"f",ARGV[1]', '"hget",KEYS[1],"f"', '"hmget",KEYS[1],"f","f1"', '"hincrby",KEYS[1],"f",3', '"del",KEYS[1]',
         '"exists",KEYS[1]', '"type",KEYS[1]', '"mget",KEYS[1],KEYS[1]', '"mset",KEYS[1],1,KEYS[1],2', '"rename",KEYS[1],KEYS[1]',
         '"strlen",KEYS[1]', '"getrange",KEYS[1],0,3', '"setrange",KEYS[1],2,"zz"', '"persist",KEYS[1]', '"expire",KEYS[1],99999',
         '"getdel",KEYS[1]', '"hlen",KEYS[1]', '"hdel",KEYS[1],"f"', '"echo","x"', '"ping"', '"nope"', '"get"', '"multi"',
         '"set",KEYS[1],{}', '"set",KEYS[1],nil', '"eval","return 1",0', '"set",KEYS[1],3.7', '"set",KEYS[1],"v","nx"',
         '"setnx",KEYS[1],1e20', '"hello",3', '"config","get","x"']
ERRORS = ['error("boo")', 'error({err="ERR t"})', 'return nosuch', 'x = 1', 'redis.x = 1', 'local a = ', 'return 1+{}',
          'return ("x"):bad()', 'return redis.call()', 'error("z",0)', 'return struct.unpack("i","")',
          'return cmsgpack.unpack("\\217")', 'return cjson.decode("{")']


def statement(c):
    kind = c.number(0, 9)
    call = 'redis.%s(%s)' % (c.pick(['call', 'call', 'pcall']), c.pick(CALLS))
    if kind < 6:
        return call
    if kind < 8:
        return c.pick(['pcall(function() %s end)', 'coroutine.wrap(function() %s end)()', 'xpcall(function() %s end, error)',
                       'coroutine.resume(coroutine.create(function() %s end))']) % call
    return 'local v = %s' % call


def script(c):
    words = ['redis.setresp(3)'] if c.chance(0.15) else []
    words += [statement(c) for _ in range(c.number(0, 3))]
    if c.chance(0.12):
        words.append(c.pick(ERRORS))
    elif c.chance(0.6):
        words.append('return redis.%s(%s)' % (c.pick(['call', 'pcall']), c.pick(CALLS)))
    elif c.chance(0.3):
        words.append('return {%s,redis.pcall(%s)}' % (c.pick(VALUES), c.pick(CALLS)))
    else:
        words.append('return ' + c.pick(VALUES))
    text = ' '.join(words)
    if c.chance(0.08):
        text = c.pick(['#!lua\n', '#!lua flags=no-writes\n', '#!lua flags=allow-oom\n', '#!lua x=y\n', '#!js\n']) + text
    return text


def arguments(c):
    """One key and one argument; sometimes a wrong number of keys."""
    key = c.key()
    if c.chance(0.04):
        return [c.pick(['x', '-1', '9', '', '1.5']), key]
    return ['1', key, c.value(b'small')]


COMMANDS = [
    (14, lambda c: ['EVAL', script(c)] + arguments(c)),
    (4, lambda c: ['EVAL_RO', script(c)] + arguments(c)),
    (2, lambda c: [c.pick(['EVALSHA', 'EVALSHA_RO']), c.pick(['x', 'f' * 40])] + arguments(c)),
]

MANY_KEYS = {'EVAL', 'EVAL_RO', 'EVALSHA', 'EVALSHA_RO'}
