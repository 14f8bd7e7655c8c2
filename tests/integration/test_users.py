#!/usr/bin/python3
"""Users of the proxy: the ACL file and its reload, logins beside namespaces, equal rights at every worker, secrets that
are never shown.
"""

import os
import re
import socket

from support import ROOT
from support.cluster import Cluster, Oracle, metric
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Closed, ReplyError

suite = Suite(__doc__)

FILE = '''# who may what
user default on >outside ~* &* +@all
user reader on >pw ~r:* +@read +@connection
user admin on >root ~* &* +@all
'''


class Users:
    """A cluster whose proxies share one ACL file."""

    def __init__(self, text=FILE, proxies=1, namespaces=None, **options):
        options['aclfile'] = 'users.acl'
        self.cluster = Cluster(backends=1, partitions=2, proxies=proxies, namespaces=namespaces or {},
                               proxy_options={'proxy': options})
        self.path = os.path.join(self.cluster.folder, 'users.acl')
        self.write(text)

    def write(self, text):
        with open(self.path + '.tmp', 'w') as file:
            file.write(text)
        os.rename(self.path + '.tmp', self.path)

    def read(self):
        with open(self.path) as file:
            return file.read()

    def enter(self, *login, proxy=0):
        connection = self.cluster.connect(proxy)
        if login:
            check_equal(connection.get('AUTH', *login), b'OK', 'AUTH %s' % ' '.join(login))
        return connection

    def __enter__(self):
        self.cluster.__enter__()
        return self

    def __exit__(self, *why):
        return self.cluster.__exit__(*why)


def is_error(reply, code):
    return isinstance(reply, ReplyError) and str(reply).split()[0] == code


def is_closed(connection):
    try:
        connection.get('PING')
    except (Closed, OSError):
        return True
    return False


@suite.case('the file is read at the start, when it changes, and by ACL LOAD; an invalid one changes nothing')
def _(run):
    with Users() as users:
        admin, reader = users.enter('admin', 'root'), users.enter('reader', 'pw')
        check_equal(admin.get('ACL', 'USERS'), [b'admin', b'default', b'reader'])
        check_equal(reader.get('GET', 'r:1'), None, 'an allowed read')
        check(is_error(reader.get('SET', 'r:1', 'x'), 'NOPERM'), 'a write')
        check(is_error(reader.get('GET', 'x'), 'NOPERM'), 'another key')
        users.write(FILE.replace('+@read', '+@read +set'))
        wait_for(lambda: reader.get('SET', 'r:1', 'x') == b'OK', 'the new rule')
        users.write(FILE + 'user broken +nonsense\n')
        proxy = users.cluster.proxies[0]
        wait_for(lambda: metric(proxy.http('/metrics')[1], 'scree_proxy_reload_failures_total'), 'the refusal')
        check(b'users.acl: line 5' in proxy.log(), 'the reason is in the log')
        error = admin.get('ACL', 'LOAD')
        check(isinstance(error, ReplyError) and 'line 5' in str(error) and 'no change' in str(error), repr(error))
        check_equal(reader.get('SET', 'r:1', 'y'), b'OK', 'the old rules hold')
        users.write(FILE.replace('user reader', 'user writer'))
        wait_for(lambda: b'writer' in admin.get('ACL', 'USERS'), 'the new user')
        wait_for(lambda: is_closed(reader), 'the removed user to be cut off')
        check_equal(admin.get('PING'), b'PONG', 'who is still there stays')


@suite.case('the example in config/ is a valid ACL file')
def _(run):
    with open(os.path.join(ROOT, 'config', 'users.acl')) as file:
        text = file.read()
    with Users(text) as users:
        shop, report = users.enter('shop', 'change me'), users.enter('report', 'change me')
        check_equal(shop.get('SET', 'shop:1', 'x'), b'OK')
        check(is_error(shop.get('KEYS', '*'), 'NOPERM'), 'KEYS is dangerous')
        check_equal(report.get('GET', 'shop:1'), b'x')
        check(is_error(report.get('SET', 'shop:1', 'y'), 'NOPERM'), 'not to write')
        check_equal(report.get('SET', 'report:1', 'y'), b'OK')
        check(is_error(users.enter().get('PING'), 'NOAUTH'), 'nobody')


@suite.case('SETUSER is effective at every worker when it replies, stays over other reloads, and is in the file after SAVE')
def _(run):
    with Users() as users:
        admin = users.enter('admin', 'root')
        others = [users.enter('reader', 'pw') for _ in range(8)]
        for round_number in range(30):
            allow = round_number % 2 == 0
            check_equal(admin.get('ACL', 'SETUSER', 'reader', '+set' if allow else '-set'), b'OK')
            said = [other.get('SET', 'r:1', 'x') for other in others]
            check(all((one == b'OK') == allow for one in said), 'round %d: %r' % (round_number, said))
        check_equal(admin.get('ACL', 'SETUSER', 'bob', 'on', '>b', '~*', '+get'), b'OK')
        users.cluster.proxies[0].reload()
        wait_for(lambda: b'reloaded' in users.cluster.proxies[0].log(), 'the reload')
        check(b'bob' in admin.get('ACL', 'USERS'), 'a reload keeps who is not in the file')
        check('bob' not in users.read(), 'the file is as it was')
        check_equal(admin.get('ACL', 'SAVE'), b'OK')
        check('user bob on #' in users.read(), users.read())
        check_equal(admin.get('ACL', 'LOAD'), b'OK')
        check(b'bob' in admin.get('ACL', 'USERS'), 'and now it is in the file')
        reply = admin.pipeline([['ACL', 'SETUSER', 'admin', '-get'], ['GET', 'x']])
        check(reply[1][0] == '-' and reply[1][1].startswith(b'NOPERM'), 'the next request of a pipeline: %r' % (reply,))


@suite.case("DELUSER replies, then closes the user's connections, also its own")
def _(run):
    with Users() as users:
        admin, reader = users.enter('admin', 'root'), users.enter('reader', 'pw')
        check_equal(reader.get('PING'), b'PONG')
        check_equal(admin.get('ACL', 'DELUSER', 'reader', 'nobody', 'admin'), 2)
        check(is_closed(reader), 'reader')
        check(is_closed(admin), 'admin')
        check(is_error(users.enter('outside').get('ACL', 'DELUSER', 'default'), 'ERR'), 'default stays')


@suite.case('users and tokens: each secret gives access only to its own namespace and rights')
def _(run):
    namespaces = {'one': {'token': 'token-one', 'users': 'alice  bob'}, 'test_*': {'token': 'token-test'}}
    text = FILE + 'user alice on >a ~k* +@all\nuser one on >user-one ~* +@all\n'
    with Users(text, namespaces=namespaces) as users:
        token, alice, outside = users.enter('token-one'), users.enter('alice', 'a'), users.enter('outside')
        check_equal(token.get('SET', 'k', 'mine'), b'OK')
        check_equal(token.get('ACL', 'WHOAMI'), b'one', 'the own user of a namespace')
        check_equal(alice.get('GET', 'k'), b'mine', 'alice lives in the namespace')
        check_equal(alice.get('ACL', 'WHOAMI'), b'alice')
        check(is_error(alice.get('GET', 'x'), 'NOPERM'), 'with her own rules')
        check_equal(outside.get('GET', 'k'), None)
        check_equal(users.enter('one', 'user-one').get('GET', 'k'), None, 'a user with the name of a namespace')
        check_equal(users.enter('one', 'token-one').get('GET', 'k'), b'mine', 'the token with the name')
        check_equal(users.enter('test_7', 'token-test').get('ACL', 'WHOAMI'), b'test_7')
        for client in (token, alice):
            for words in (['LIST'], ['USERS'], ['GETUSER', 'reader'], ['SETUSER', 'x'], ['DELUSER', 'reader'],
                          ['LOAD'], ['SAVE'], ['LOG'], ['DRYRUN', 'reader', 'GET', 'x']):
                check(is_error(client.get('ACL', *words), 'NOPERM'), 'ACL %r of a tenant' % words)
            check_equal(len(client.get('ACL', 'GENPASS')), 64)
        for login in (['one', 'a'], ['alice', 'token-one'], ['alice', ''], ['user-one'], ['reader', 'PW']):
            check(is_error(users.enter().get('AUTH', *login), 'WRONGPASS'), 'AUTH %r' % login)
        check(is_error(users.enter().get('GET', 'k'), 'NOAUTH'), 'without a login')
        listed = users.enter('outside').get('CLIENT', 'LIST').decode()
        check(all(' user=%s ' % name in listed for name in ('one', 'alice', 'default')), listed)
        check_equal(outside.get('CLIENT', 'KILL', 'USER', 'alice'), 1)
        check(is_closed(alice), 'alice was killed')
        check(is_error(outside.get('CLIENT', 'KILL', 'USER', 'nobody'), 'ERR'), 'an unknown user')


@suite.case('scripts stay within their namespace and the rules of their user')
def _(run):
    namespaces = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}
    text = FILE + 'user script on >s ~k* +eval +get +fcall +function\n'
    with Users(text, namespaces=namespaces) as users:
        two, one, script = users.enter('token-two'), users.enter('token-one'), users.enter('script', 's')
        two.get('SET', 'k', 'theirs')
        for words in ("'SCREE', 'USE', 'two', '0'", "'SCREE', 'AS', 'x', '+@all', 'GET', 'k'", "'SCREE', 'DROP', '0'"):
            check(is_error(one.get('EVAL', 'return redis.call(%s)' % words, 0), 'ERR'), words)
        check_equal(one.get('EVAL', "return redis.call('GET', 'k')", 1, 'k'), None, 'still in its namespace')
        check_equal(script.get('EVAL', "return redis.call('GET', 'k')", 1, 'k'), None)
        for words in ("'GET', 'x'", "'SET', 'k', '1'"):
            reply = script.get('EVAL', 'return redis.call(%s)' % words, 1, 'k')
            check('The user executing the script' in str(reply), '%s: %r' % (words, reply))
        check_equal(users.enter('outside').get('EVAL', "return redis.call('SET', 'x', '1')", 1, 'x'), b'OK',
                    'the rules are of one request only')


@suite.case('ACL LOG is shared by all workers and shards')
def _(run):
    with Users(FILE + 'user script on >s ~k* +eval +get +acl\n') as users:
        admin, script = users.enter('admin', 'root'), users.enter('script', 's')
        for key in range(20):  # on both shards
            reply = script.get('EVAL', "return redis.pcall('SET', KEYS[1], 'x')", 1, 'k%d' % key)
            check('The user executing the script' in str(reply), repr(reply))
        check(is_error(script.get('SET', 'k', 'x'), 'NOPERM'), 'SET')
        check(is_error(script.get('SET', 'k', 'x'), 'NOPERM'), 'SET')
        for client in (admin, users.cluster.connect(proto=3)):
            if client is not admin:
                client.call('AUTH', 'admin', 'root')
            log = [entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2]))
                   for entry in client.get('ACL', 'LOG', '100')]
            told = sorted((entry[b'count'], entry[b'reason'], entry[b'context'], entry[b'object'], entry[b'username'])
                          for entry in log)  # within a millisecond the order is undefined
            check_equal(told, [(2, b'command', b'toplevel', b'set', b'script'), (20, b'command', b'lua', b'set', b'script')])
        check_equal(len(admin.get('ACL', 'LOG', '1')), 1)
        check_equal(admin.get('ACL', 'LOG', '-1'), [])
        check(is_error(admin.get('ACL', 'LOG', 'x'), 'ERR'), 'no number')
        check_equal(admin.get('ACL', 'LOG', 'RESET'), b'OK')
        check_equal(admin.get('ACL', 'LOG'), [])


@suite.case('a file behind swapped symlinks is reloaded, as Kubernetes mounts a secret')
def _(run):
    with Users() as users:
        folder = users.cluster.folder
        for version, text in (('v1', FILE), ('v2', FILE + 'user late on >l +ping\n')):
            os.mkdir(os.path.join(folder, version))
            with open(os.path.join(folder, version, 'users.acl'), 'w') as file:
                file.write(text)
        os.symlink('v1', os.path.join(folder, '..data'))
        os.symlink('..data/users.acl', users.path + '.link')
        os.rename(users.path + '.link', users.path)
        admin = users.enter('admin', 'root')
        check_equal(admin.get('ACL', 'LOAD'), b'OK')
        os.symlink('v2', os.path.join(folder, '..data.new'))
        os.rename(os.path.join(folder, '..data.new'), os.path.join(folder, '..data'))
        wait_for(lambda: b'late' in admin.get('ACL', 'USERS'), 'the new secret')


@suite.case('no secret is shown: CONFIG GET, SLOWLOG, CLIENT LIST, the log')
def _(run):
    with Users(requirepass='sesame-1', **{'slowlog-log-slower-than': '0'}) as users:
        admin = users.enter('admin', 'root')
        admin.get('AUTH', 'reader', 'wrong-secret-1')
        admin.get('HELLO', '2', 'AUTH', 'reader', 'wrong-secret-2')
        check_equal(admin.get('ACL', 'SETUSER', 'bob', '>secret-3'), b'OK')
        check_equal(admin.get('CONFIG', 'SET', 'requirepass', 'secret-4'), b'OK')
        told = [admin.get('CONFIG', 'GET', '*'), admin.get('SLOWLOG', 'GET', '1000'), admin.get('CLIENT', 'LIST'),
                admin.get('ACL', 'LOG'), admin.get('INFO', 'everything'), users.cluster.proxies[0].log(),
                users.cluster.proxies[0].http('/metrics')[1]]
        for place, text in zip(('CONFIG', 'SLOWLOG', 'CLIENT', 'ACL', 'INFO', 'log', 'metrics'), told):
            for secret in ('sesame', 'secret-1', 'secret-2', 'secret-3', 'secret-4', 'root', users.cluster.secret):
                found = re.search(r'\b%s\b' % re.escape(secret) if secret == 'root' else re.escape(secret), str(text))
                check(not found, '%s tells %s: %r' % (place, secret, text))
        config = admin.get('CONFIG', 'GET', 'requirepass')
        check_equal(config, [b'requirepass', b'(redacted)'])


def from_elsewhere(port, request=b'PING\r\n'):
    """The bytes a server on the loopback interface sends to a client with the address 127.0.0.2."""
    with socket.create_connection(('127.0.0.1', port), 10, ('127.0.0.2', 0)) as client:
        client.sendall(request)
        return client.recv(4096)


@suite.case('protected-mode: without a password only clients of 127.0.0.1 are served')
def _(run):
    with Oracle() as oracle:
        denied = from_elsewhere(oracle.port, b'')
    check(denied.startswith(b'-DENIED'), 'what Redis says: %r' % denied)
    with Cluster(backends=1, partitions=1, proxies=1, namespaces={'bound': {}}, listeners={'open': 'bound'}) as cluster:
        client = cluster.connect()
        check_equal(client.get('CONFIG', 'GET', 'protected-mode'), [b'protected-mode', b'yes'])
        port = cluster.proxies[0].port
        check_equal(from_elsewhere(port, b''), denied, 'from another host')
        check_equal(from_elsewhere(cluster.proxies[0].listener_ports['open']), b'+PONG\r\n', 'a listener')
        check_equal(client.get('CONFIG', 'SET', 'protected-mode', 'no'), b'OK')
        check_equal(from_elsewhere(port), b'+PONG\r\n', 'after CONFIG SET')
        check_equal(client.get('CONFIG', 'SET', 'protected-mode', 'yes'), b'OK')
        check_equal(client.get('ACL', 'SETUSER', 'default', '>pw'), b'OK')
        check(from_elsewhere(port).startswith(b'-NOAUTH'), 'with a password')
        check_equal(client.get('ACL', 'SETUSER', 'default', 'nopass'), b'OK')
        check_equal(from_elsewhere(port, b''), denied, 'without it again')


@suite.case('requirepass is the password of default: after a reload, after CONFIG SET, and with an ACL file that has none')
def _(run):
    with Users('user reader on >pw ~r:* +@read\n', requirepass='one') as users:
        proxy = users.cluster.proxies[0]
        check(is_error(users.enter().get('PING'), 'NOAUTH'), 'a file without default does not give access')
        admin = users.enter('one')
        check_equal(admin.get('CONFIG', 'SET', 'requirepass', 'two'), b'OK')
        check(is_error(users.enter().get('AUTH', 'one'), 'WRONGPASS'), 'the old one')
        check_equal(users.enter('default', 'two').get('PING'), b'PONG')
        proxy.options['proxy']['requirepass'] = 'three'
        proxy.write_config()
        wait_for(lambda: users.cluster.connect().get('AUTH', 'three') == b'OK', 'the reload')
        # each connection is at another worker, which may take the file later
        wait_for(lambda: is_error(users.enter().get('AUTH', 'two'), 'WRONGPASS'), 'the one before to be refused')
        check_equal(admin.get('PING'), b'PONG', 'who is in stays in')
        check_equal(admin.get('CONFIG', 'SET', 'requirepass', ''), b'OK')
        check_equal(users.enter().get('PING'), b'PONG', 'none is needed')


@suite.case('a user writes to no keys but its own, however often a request names a destination')
def _(run):
    requests = [['GEORADIUS', 'own:g', 15, 37, 200, 'km', 'STORE', 'own:a', 'STORE', 'others'],
                ['GEORADIUS', 'own:g', 15, 37, 200, 'km', 'STOREDIST', 'own:a', 'STORE', 'others'],
                ['GEORADIUS', 'own:g', 15, 37, 200, 'km', 'STORE', 'own:a', 'STOREDIST', 'others'],
                ['GEORADIUSBYMEMBER', 'own:g', 'p', 200, 'km', 'STORE', 'own:a', 'STORE', 'others'],
                ['SORT', 'own:l', 'STORE', 'own:a', 'STORE', 'others'],
                ['SORT', 'own:l', 'STORE', 'BY', 'STORE', 'others'],
                ['XREADGROUP', 'GROUP', 'streams', 'own:x', 'COUNT', 1, 'STREAMS', 'others', '>'],
                ['XREADGROUP', 'GROUP', 'g', 'c', 'GROUP', 'streams', 'own:x', 'STREAMS', 'others', '>']]
    with Users(FILE + 'user own on >own ~own:* +@all\n') as users:
        with users.enter('admin', 'root') as root:
            backend = users.cluster.partition(users.cluster.shard_of('others'))
            for client in (root, backend):
                check_equal(client.get('SET', 'others', 'safe'), b'OK')
            check_equal(backend.get('ACL', 'SETUSER', 'own', 'on', '>own', '~own:*', '+@all'), b'OK')
            with users.enter('own', 'own') as proxied, users.cluster.partition(users.cluster.shard_of('others')) as direct:
                check_equal(direct.get('AUTH', 'own', 'own'), b'OK')
                for way, client in (('proxy', proxied), ('partition', direct)):
                    client.call('GEOADD', 'own:g', 13.361389, 38.115556, 'p')
                    client.call('RPUSH', 'own:l', 2, 1)
                    for words in requests:
                        check(is_error(client.get(*words), 'NOPERM'), '%s: %r' % (way, words))
            check_equal(root.get('GET', 'others'), b'safe')
            backend.close()


def log_lines(process, event):
    return [line for line in process.log().decode().splitlines() if ' %s ' % event in line]


@suite.case("the log of the program that a client uses shows administrators' commands and failed logins")
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        proxy, backend = cluster.proxies[0], cluster.backends[0]
        with cluster.connect() as client:
            for words in (['CONFIG', 'SET', 'slowlog-max-len', '100'], ['CONFIG', 'GET', 'slowlog-max-len'],
                          ['ACL', 'SETUSER', 'eve', 'on', '>eves-password', '~a*', '+get'], ['SET', 'k', 'v'],
                          ['SCREE', 'BACKUP', 'STATUS'], ['SCREE', 'COMPACT', 'START'], ['SCREE', 'OWNERS'], ['FLUSHALL', 'x\ny']):
                client.call(*words)
            client.get('FLUSHALL')
            commands = [line.split('command=')[1] for line in log_lines(proxy, 'admin_command')]
            check_equal(commands, ['"config|set slowlog-max-len 100"', '"acl|setuser (redacted) (redacted) (redacted) (redacted) (redacted)"',
                                   '"scree|compact START"', '"flushall x\\ny"', '"flushall"'])
            check_equal(log_lines(backend, 'admin_command'), [], 'the shard logs what only proxies know')
            address = client.get('CLIENT', 'INFO').decode().split(' addr=')[1].split()[0]
            check(all('user="default" client=%s ' % address in line for line in log_lines(proxy, 'admin_command')), 'who')
            check('NOPERM' not in str(client.call('AUTH', 'eve', 'wrong')), 'a login fails')
            wait_for(lambda: log_lines(proxy, 'login_failed'), 'the line')
            check('user="eve" client=%s times=1' % address in log_lines(proxy, 'login_failed')[0], log_lines(proxy, 'login_failed'))
            client.get('AUTH', 'eve', 'eves-password')

            def refused():
                client.call('FLUSHALL')  # a line a second, and that of the login was just written
                return log_lines(proxy, 'access_refused')
            wait_for(refused, 'the refusal')
            check('reason=command object="flushall"' in log_lines(proxy, 'access_refused')[0], 'what')
            check_equal(len(log_lines(proxy, 'admin_command')), 5, 'what is refused is not logged as done')
        with cluster.partition(0) as direct:
            direct.get('CONFIG', 'SET', 'slowlog-max-len', '128')
            check('command="config|set slowlog-max-len 128"' in log_lines(backend, 'admin_command')[0], 'at the port of a partition')
        for process in (proxy, backend):
            check(b'eves-password' not in process.log(), 'a password is in the log of %s' % process.name)


@suite.case('AUTH with an unknown name, where no login is needed, ends the login and says so; a wrong password of a known one does not')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        for login in (['AUTH', 'nobody', 'x'], ['HELLO', '3', 'AUTH', 'nobody', 'x']):
            with cluster.connect() as client:
                refused = client.call(*login)
                check(refused[1].startswith(b'WRONGPASS invalid username-password pair or user is disabled. There is no user'), refused)
                check(is_error(client.get('GET', 'k'), 'NOAUTH'), 'without a login')
                check_equal(client.call('RESET'), ('+', b'RESET'))
                check_equal(client.get('GET', 'k'), None)
        with cluster.connect() as client:
            client.call('AUTH', 'default', 'x')
            check_equal(client.get('GET', 'k'), None, 'after a login as default')


if __name__ == '__main__':
    suite.main()
