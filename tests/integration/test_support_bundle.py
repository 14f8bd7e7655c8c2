#!/usr/bin/python3
"""config/support-bundle: one file with what is needed to find a fault, without secrets and data; what is missing is named."""

import os
import subprocess
import tarfile

from support import ROOT
from support.cluster import Cluster
from support.harness import Suite, check, check_equal
from support.resp import ReplyError

suite = Suite(__doc__)
SECRETS = {'token': 'Tok3nOfTheAdminPort', 'password': 'Passw0rdOfTheProxy', 'tenant': 'T0kenOfTheTenant', 'data': 'V4lueOfAKey'}


def bundle(cluster, *words, **env):
    path = os.path.join(cluster.folder, 'bundle.tar.gz')
    done = subprocess.run([os.path.join(ROOT, 'config', 'support-bundle'), '--out', path, *words], capture_output=True, text=True,
                          env=dict(os.environ, **env))
    check(done.returncode == 0, done.stderr)
    check_equal(os.stat(path).st_mode & 0o777, 0o600)
    with tarfile.open(path) as tar:
        return {name.split('/', 1)[1]: tar.extractfile(name).read().decode('utf-8', 'replace') for name in tar.getnames()}, done.stderr


@suite.case('the bundle has configuration, metrics, map, INFO, slow log and logs of all processes, and none of their secrets')
def _(run):
    options = {'proxy': {'requirepass': SECRETS['password'], 'admin-token': SECRETS['token']}, 'slowlog': {}}
    options.pop('slowlog')
    with Cluster(backends=1, partitions=2, proxies=1, proxy_options=options, namespaces={'shop': {'token': SECRETS['tenant']}},
                 backend_options={'backend': {'admin-token': SECRETS['token']}}) as cluster, cluster.connect() as client:
        proxy, backend = cluster.proxies[0], cluster.backends[0]
        check(isinstance(client.get('GET', 'k'), ReplyError), 'no login is needed')
        check_equal(client.get('AUTH', SECRETS['password']), b'OK')
        check_equal(client.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0'), b'OK')
        check_equal(client.get('SET', 'k', SECRETS['data']), b'OK')
        files, missing = bundle(cluster, '--admin', '127.0.0.1:%d' % proxy.admin, '--admin', '127.0.0.1:%d' % backend.admin,
                                '--admin', '127.0.0.1:1', '--proxy', '127.0.0.1:%d' % proxy.port,
                                '--log', proxy.log_path, backend.log_path, '/no/such.log',
                                SCREE_PASSWORD=SECRETS['password'], SCREE_ADMIN_TOKEN=SECRETS['token'])
        admin, inner = 'admin-127.0.0.1-%d/' % proxy.admin, 'admin-127.0.0.1-%d/' % backend.admin
        check('(hidden)' in files[admin + 'config'] and 'scree_proxy_requests_total' in files[admin + 'metrics'], 'the proxy')
        check('scree_backend_build_info' in files[inner + 'metrics'] and files[inner + 'readyz'] == 'ready\n', 'the backend')
        shown = {name.split('/')[1]: text for name, text in files.items() if name.startswith('proxy-')}
        check('scree_version:' in shown['info-everything'] and 'slots_to_move:' in shown['scree-map-status'], 'replies of the proxy')
        check('command=SET arguments=2' in shown['slowlog-get-128'], shown['slowlog-get-128'])
        check(sum('listening' in text for name, text in files.items() if name.startswith('logs/')) == 2, 'the logs')
        check('machine/disks' in files, str(sorted(files)))
        for where in ('127.0.0.1:1/', '/no/such.log'):
            check(where in files['about.txt'] and where in missing, files['about.txt'])
        for kind, secret in SECRETS.items():
            holders = [name for name, text in files.items() if secret in text]
            check_equal(holders, [], 'files that have the %s' % kind)


suite.main()
