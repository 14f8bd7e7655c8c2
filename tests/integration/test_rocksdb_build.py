#!/usr/bin/python3
"""Which RocksDB a backend reports."""

import glob
import os
import platform
import re
import subprocess

from support.cluster import Cluster, binary
from support.harness import Suite, check, check_equal

suite = Suite(__doc__)


def engine_of(text):
    return dict(re.findall(r'^store_engine(\w*):(.*)$', text.replace('\r', ''), re.M))


@suite.case('INFO, --version and metrics report the version, assertions and checksums of the library that is linked')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        engine = engine_of(cluster.connect().get('INFO', 'scree').decode())
        with open(glob.glob(os.path.join(cluster.backends[0].data, 'partition-0/OPTIONS-*'))[0]) as file:
            own = re.search(r'rocksdb_version=(\S+)', file.read()).group(1)
        metrics = cluster.backends[0].http('/metrics')[1]
    check_equal(engine[''], 'RocksDB ' + own, 'the version that the library writes into its own files')
    with open(binary('scree-backend'), 'rb') as file:
        program = file.read()
    names = re.findall(rb'/db/[\w/]+\.cc\0', program)  # an assertion has the name of its file
    check_equal(engine['_assertions'], 'on' if len(names) > 10 else 'off', 'with %d names' % len(names))
    if platform.machine() == 'x86_64':
        instructions = re.findall(rb'\xf2[\x48-\x4f]\x0f\x38\xf1', program)  # crc32 of 8 bytes
        check_equal(engine['_crc32c'], 'hardware' if len(instructions) > 50 else 'software',
                    'with %d instructions' % len(instructions))
    words = (engine[''], engine['_assertions'], engine['_crc32c'])
    done = subprocess.run([binary('scree-backend'), '--version'], capture_output=True, text=True)
    check_equal(done.stdout.splitlines()[1:], ['%s, assertions %s, CRC32C by %s' % words])
    check('engine="%s",engine_assertions="%s",engine_crc32c="%s"} 1' % words in metrics, 'not in scree_backend_build_info')
    run.note('%s, assertions %s, CRC32C by %s' % words)


suite.main()
