#!/usr/bin/python3
"""config/push: backups and the archive in an object store, a real S3 server: restored from there, whatever broke while they were pushed; what
is missing there never looks whole, and is said.
"""

import contextlib
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from unittest import mock

from support.archive import Place, erase, moment, start, tool, wait_archived
from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.objects import RETRIES, Store, damaged_parts

suite = Suite(__doc__)
KEYS = 300


def cluster_of(place):
    return Cluster(backends=1, partitions=2, proxies=1, linked=True, backend_options=place.options)


def fill(client, text):
    return client.pipeline([['SET', 'key:%d' % i, text + 'x' * 300] for i in range(KEYS)])


def backup(client, name):
    check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'WAIT', 'LEASE', '15000'), ('$', name.encode()))


def pushed(folder):
    """Up to when the store has everything, as PUSHED says."""
    with open(os.path.join(folder, 'PUSHED')) as file:
        return int(re.search(r'^until-s (\d+)$', file.read(), re.M)[1])


def good(result):
    check_equal(result[0], 0, result[1])
    return result[1]


def refused(result, words):
    code, said = result
    check(code == 1 and words in said, 'expected %r: %d %s' % (words, code, said))


def pulled(store, place):
    folder = os.path.join(place.path, 'pulled')
    return folder, store.pull(folder)


def check_values(cluster, text):
    with cluster.connect() as client:
        found = client.pipeline([['GET', 'key:%d' % i] for i in range(KEYS)])
    check_equal({reply for reply in found}, {('$', text.encode() + b'x' * 300)})


def restore(cluster, folder, name, to):
    erase(cluster)
    good(tool('--config', cluster.backends[0].config_path, '--restore', os.path.join(folder, 'backups', name), '--archive',
              os.path.join(folder, 'archive'), '--to', to))
    start(cluster)


@suite.case('a drill: all machines and disks are lost, and the moment before a FLUSHALL comes back out of the object store')
def _(run):
    with Store() as store, Place() as place, cluster_of(place) as cluster:
        with cluster.connect() as client:
            fill(client, 'old')
            backup(client, 'base')
            good(store.push('backups', place.backups))
            fill(client, 'between')
            good(store.push('archive', place.archive))  # files that are closed later
            fill(client, 'new')
            when = moment()
            client.call('FLUSHALL')
        wait_archived(cluster)
        began = time.time()
        good(store.push('archive', place.archive))
        push_s = time.time() - began
        check(pushed(place.archive) >= int(began), 'PUSHED')
        erase(cluster)
        shutil.rmtree(place.backups)
        shutil.rmtree(place.archive)
        began = time.time()
        folder, names = pulled(store, place)
        pull_s = time.time() - began
        good(tool('--verify-backup', os.path.join(folder, 'backups')))
        good(tool('--list-times', os.path.join(folder, 'backups'), '--archive', os.path.join(folder, 'archive')))
        restore(cluster, folder, 'base', when)
        check_values(cluster, 'new')
        run.note('%d objects; archive pushed in %.1f s, all pulled in %.1f s, serving %.1f s after the pull began' %
                 (len(names), push_s, pull_s, time.time() - began))


@suite.case('uploads that break, 503s and kill -9 at random moments: never does a part look whole that is not; the next push ends it')
def _(run):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            for name in ('one', 'two'):
                fill(client, name)
                backup(client, name)
        kills = random.Random(40)
        for _ in range(sized(4, long=60)):
            push = subprocess.Popen(store.words('backups', place.backups), env=store.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    start_new_session=True)
            time.sleep(kills.uniform(0.1, 1.5))
            os.killpg(push.pid, signal.SIGKILL)
            push.wait()
            check_equal(damaged_parts(pulled(store, place)[0]), [])
        faults = 0
        for kind in ('busy', 'torn'):
            store.fault(kind, share=0.4)
            store.push('backups', place.backups, **RETRIES)
            faults += store.fault('none')
            check_equal(damaged_parts(pulled(store, place)[0]), [], kind)
        good(store.push('backups', place.backups))
        folder, names = pulled(store, place)
        check_equal(len([name for name in names if name.endswith('MANIFEST.sha256')]), 4)
        good(tool('--verify-backup', os.path.join(folder, 'backups')))
        os.unlink(glob.glob(os.path.join(folder, 'backups/two/*/CURRENT'))[0])  # the check is no formality
        check_equal(len(damaged_parts(folder)), 1)
        run.note('%d faults' % faults)


@suite.case('a store that takes no data file gets no manifest: the push fails, PUSHED says "never", and then the time of the push that succeeds')
def _(_):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            backup(client, 'base')
        store.fault('torn', path='.batches')
        refused(store.push('backups', place.backups, **RETRIES), 'rclone copy')
        check_equal((pushed(place.backups), [name for name in pulled(store, place)[1] if 'MANIFEST.' in name]), (1, []))
        store.fault('busy')
        refused(store.push('backups', place.backups, **RETRIES), '503')
        store.fault('none')
        began = int(time.time())
        good(store.push('backups', place.backups))
        check(pushed(place.backups) >= began, 'PUSHED')
        check_equal(damaged_parts(pulled(store, place)[0]), [])
        store.fault('busy')  # a store that is lost later stops the time, too
        before = pushed(place.backups)
        refused(store.push('backups', place.backups, **RETRIES), '503')
        check_equal(pushed(place.backups), before)


@suite.case('a backup that is deleted while it is pushed does not end up whole; another one of the same name does not replace the first')
def _(_):
    with Store() as store, Place() as place, cluster_of(place) as cluster, cluster.connect() as client:
        backup(client, 'base')
        lost = glob.glob(os.path.join(place.backups, 'base/*/CURRENT'))[0]
        os.rename(lost, lost + '.away')
        refused(store.push('backups', place.backups), 'the store has not all of CURRENT')
        os.rename(lost + '.away', lost)
        good(store.push('backups', place.backups))
        before = store.rclone('cat', 's3:bucket/scree/backups', '--include', 'MANIFEST.sha256')
        client.call('SCREE', 'BACKUP', 'DELETE', 'base')
        fill(client, 'other')
        backup(client, 'base')
        backup(client, 'later')
        refused(store.push('backups', place.backups), 'the store has another backup of this name, which stays')
        check_equal(store.rclone('cat', 's3:bucket/scree/backups/base', '--include', 'MANIFEST.sha256'), before)
        check_equal(damaged_parts(pulled(store, place)[0]), [])
        check_equal(len(glob.glob(os.path.join(place.path, 'pulled/backups/later/*/MANIFEST.sha256'))), 2, 'what comes after it is pushed')


def closed_and_growing(store, place):
    names = [os.path.relpath(name, 'archive') for name in pulled(store, place)[1]]
    return ({name for name in names if name.endswith('.log')}, {name for name in names if name.endswith('.part')})


@suite.case('the archive: files that grow are pushed, a restore reads them beside those that they became, and prune deletes them')
def _(_):
    with Store() as store, Place() as place:
        place.options['backend']['archive-close'] = '1h'
        with cluster_of(place) as cluster, cluster.connect() as client:
            backup(client, 'base')
            good(store.push('backups', place.backups))
            fill(client, 'a')
            wait_archived(cluster)
            good(store.push('archive', place.archive))
            closed, first = closed_and_growing(store, place)
            check_equal(({name for name in closed if not name.startswith('partition-')}, len(first)), (set(), 2))  # from before the shards had names
            cluster.backends[0].kill9()
            cluster.backends[0].start()
            wait_for(lambda: set(fill(client, 'b')) == {('+', b'OK')} and not any(os.path.exists(os.path.join(place.archive, name)) for name in first),
                     'the files to be closed')
            here = {os.path.relpath(path, place.archive) for path in place.files()}
            wait_archived(cluster)
            check_equal(good(store.push('archive', place.archive)), '')
            closed, growing = closed_and_growing(store, place)
            check_equal((closed, first & growing), (here, first))
            good(store.push('prune', None, '--keep', '1'))
            check_equal(closed_and_growing(store, place), (here, growing - first))
            folder = pulled(store, place)[0]
            good(tool('--list-times', os.path.join(folder, 'backups'), '--archive', os.path.join(folder, 'archive')))


@suite.case('the archive: a closed file that the store has otherwise is refused, and PUSHED keeps its time')
def _(_):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            fill(client, 'a')
            closed = wait_for(place.files, 'a closed file')
            good(store.push('archive', place.archive))
        before = pushed(place.archive)
        with open(closed[0], 'ab') as file:  # others may have been closed since the push
            file.write(b'damaged')
        refused(store.push('archive', place.archive), 'immutable')
        check_equal(pushed(place.archive), before)


@suite.case('prune: the newest backups stay, with the archive from the oldest of them on; from what stays, later moments are restored')
def _(_):
    with Store() as store, Place() as place, cluster_of(place) as cluster:
        with cluster.connect() as client:
            refused(store.push('prune', None, '--keep', '1'), 'no whole backup')
            for name in ('one', 'two', 'three'):
                fill(client, name)
                wait_archived(cluster)
                wait_for(place.files, 'a closed file, which ends before the last backup')
                backup(client, name)
                good(store.push('backups', place.backups))
            fill(client, 'last')
            when = moment()
            fill(client, 'after')
        wait_archived(cluster)
        good(store.push('archive', place.archive))
        before = pulled(store, place)[1]
        said = good(store.push('prune', None, '--keep', '1', '--dry-run'))
        check_equal((pulled(store, place)[1], 'would delete one/' in said, 'would delete three/' in said), (before, True, False))
        good(store.push('prune', None, '--keep', '5'))
        good(store.push('prune', None, '--keep', '1', '--keep-days', '1'))
        check_equal({name for name in pulled(store, place)[1] if name.startswith('backups/')}, {name for name in before if name.startswith('backups/')})
        check('deleting one/' in good(store.push('prune', None, '--keep', '1')), 'prune')
        folder, names = pulled(store, place)
        check_equal({name.split('/')[1] for name in names if name.startswith('backups/')}, {'three'})
        check([name for name in before if name.endswith('.log') and name not in names], 'nothing of the archive went')
        restore(cluster, folder, 'three', when)
        check_values(cluster, 'last')


@suite.case('a backup of which one shard is missing in the store counts for nothing: it is not kept in place of a whole one')
def _(_):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            for name in ('one', 'two'):
                backup(client, name)
        shutil.move(glob.glob(os.path.join(place.backups, 'two/*'))[0], place.path)
        good(store.push('backups', place.backups))
        check('two is not a whole backup, and stays' in good(store.push('prune', None, '--keep', '1')), 'prune')
        check_equal(len([name for name in pulled(store, place)[1] if name.endswith('MANIFEST.sha256')]), 3)


def without_two(store, place, lost):
    """Of the backups one and two the store has both, but no file `lost` of the newer one."""
    with cluster_of(place) as cluster, cluster.connect() as client:
        for name in ('one', 'two'):
            backup(client, name)
    good(store.push('backups', place.backups))
    path = glob.glob(os.path.join(place.backups, 'two/*', lost))[0]
    store.rclone('deletefile', 's3:bucket/scree/backups/' + os.path.relpath(path, place.backups))


@suite.case('a backup of which the store has lost a file counts for nothing: no whole one is deleted for it')
def _(_):
    with Store() as store, Place() as place:
        without_two(store, place, 'CURRENT')
        check(re.search('two is not a whole backup: the store lacks b0p[01]/CURRENT, and stays', good(store.push('prune', None, '--keep', '1'))), 'prune')
        check_equal({name.split('/')[1] for name in pulled(store, place)[1]}, {'one', 'two'})


def taken_later(place, name, ms):
    """Makes a backup on the disk so much younger: prune lets an hour pass for clocks that differ."""
    for path in glob.glob(os.path.join(place.backups, name, '*')):
        with open(path + '/MANIFEST.json') as file:
            manifest = json.load(file)
        manifest['taken_ms'] += ms
        text = json.dumps(manifest).encode()
        with open(path + '/MANIFEST.json', 'wb') as file:
            file.write(text)
        with open(path + '/MANIFEST.sha256', 'w') as file:
            file.write('%s  MANIFEST.json\n' % hashlib.sha256(text).hexdigest())


@suite.case('prune: an old backup that lacks a file stays, because a listing may be wrong; an old one without any digest goes')
def _(_):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            for name in ('lost', 'torn', 'last'):
                backup(client, name)
        taken_later(place, 'last', 2 * 3600 * 1000)
        good(store.push('backups', place.backups))
        lost = glob.glob(os.path.join(place.backups, 'lost/*/CURRENT'))[0]
        store.rclone('deletefile', 's3:bucket/scree/backups/' + os.path.relpath(lost, place.backups))
        store.rclone('delete', 's3:bucket/scree/backups/torn', '--include', 'MANIFEST.sha256')
        check('lost is not a whole backup: the store lacks ' in good(store.push('prune', None, '--keep', '1')), 'prune')
        check_equal({name.split('/')[1] for name in pulled(store, place)[1]}, {'lost', 'last'})


@contextlib.contextmanager
def meanwhile(store, word, script):
    """In the block, rclone runs the script before each of its commands with this word."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'rclone')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\nPATH=%s\ncase "$1 $*" in %s) (%s);; esac\nexec rclone "$@"\n' % (store.env['PATH'], word, script))
        os.chmod(path, 0o755)
        with mock.patch.dict(store.env, PATH='%s:%s' % (folder, store.env['PATH'])):
            yield


@suite.case('prune and a push of the same backup at once, whose keys may not delete: no backup looks whole without its files, and the next push mends it')
def _(_):
    with Store() as store, Place() as place:
        with cluster_of(place) as cluster, cluster.connect() as client:
            for name in ('one', 'two'):
                backup(client, name)
        good(store.push('backups', place.backups))
        digests = 'rclone copy --ignore-times --include "MANIFEST.sha256" %s/one s3:bucket/scree/backups/one' % place.backups
        with meanwhile(store, 'delete*', digests):  # the push takes the files that it finds, and puts the digests there again
            good(store.push('prune', None, '--keep', '1'))
        check_equal({name.split('/')[1] for name in pulled(store, place)[1]}, {'two'})
        files = 'rclone delete --user-agent "other keys" --include "/one/*/CURRENT" s3:bucket/scree/backups'
        store.fault('kept')
        with meanwhile(store, 'copyto*MANIFEST.sha256', files):
            refused(store.push('backups', place.backups, RCLONE_IGNORE_EXISTING='true'), 'the store has not all of CURRENT')
        folder = pulled(store, place)[0] + '/backups'
        check_equal(damaged_parts(folder + '/one'), [])
        refused(tool('--verify-backup', folder), 'the manifest is incomplete or damaged')
        check('pushed one/' in good(store.push('backups', place.backups)), 'the next push')
        check_equal(damaged_parts(pulled(store, place)[0] + '/backups'), [])
        check_equal(len(glob.glob(folder + '/one/*/CURRENT')), 2)


def write_closed(place, folder, days):
    """The names of closed files that are so many days old."""
    os.makedirs(os.path.join(place.archive, folder))
    names = ['%s/%020d-%020d.log' % (folder, 10 * i + 1, 10 * i + 10) for i in range(len(days))]
    for name, age in zip(names, days):
        path = os.path.join(place.archive, name)
        with open(path, 'w') as file:
            file.write(name)
        os.utime(path, times=(time.time() - age * 86400,) * 2)
    return names


def files_here(place):
    return sorted(os.path.relpath(path, place.archive) for path in glob.glob(os.path.join(place.archive, '**/*.log'), recursive=True))


@suite.case('the archive on the disk: --forget-days deletes old files that the store has, but never the newest one of a log')
def _(_):
    with Store() as store, Place() as place:
        old, copy = write_closed(place, 'a/1', [9, 8, 1, 0]), write_closed(place, 'b/2/c', [9, 8])
        store.fault('busy')
        refused(store.push('archive', place.archive, '--forget-days', '7', **RETRIES), '503')
        store.fault('none')
        check_equal(files_here(place), old + copy, 'nothing goes that is not pushed')
        check('deleted 3 closed files here' in good(store.push('archive', place.archive, '--forget-days', '7')), 'push')
        check_equal(files_here(place), old[2:] + copy[1:])
        check_equal(pulled(store, place)[1], sorted('archive/' + name for name in old + copy))
        check_equal(good(store.push('archive', place.archive, '--forget-days', '1')), '', 'once a day, when all files are compared')


@suite.case('a number of days or backups that is negative or no number is refused before anything is deleted')
def _(_):
    with Store() as store, Place() as place:
        names = write_closed(place, 'a/1', [9, 8, 0])
        for words, env in ((['--forget-days', '-1'], {}), (['--forget-days', '1.5'], {}), (['--every', '0'], {}), ([], {'SCREE_PUSH_FORGET_DAYS': 'week'})):
            code, said = store.push('archive', place.archive, *words, **env)
            check(code == 2 and 'expected a number from ' in said, (words, code, said))
        check_equal(files_here(place), names)
        for env in ({'SCREE_PUSH_KEEP': '-1'}, {'SCREE_PUSH_KEEP_DAYS': '7d'}):
            code, said = store.push('prune', None, **env)
            check(code == 2 and 'expected a number from ' in said, (env, code, said))


@suite.case('the archive: when rclone only says that it has copied, nothing goes on the disk, and PUSHED keeps its time')
def _(_):
    with Store() as store, Place() as place:
        names, words = write_closed(place, 'a/1', [9, 8, 7, 0]), 'the store does not list it with its length'
        refused(store.push('archive', place.archive, '--forget-days', '7', RCLONE_DRY_RUN='true'), words)
        check_equal((files_here(place), pushed(place.archive)), (names, 1))
        good(store.push('archive', place.archive))
        before = pushed(place.archive)
        write_closed(place, 'b/2', [0])
        refused(store.push('archive', place.archive, RCLONE_DRY_RUN='true'), words)
        check_equal(pushed(place.archive), before)
        with open(os.path.join(place.archive, names[0]), 'a') as file:
            file.write('longer')
        refused(store.push('archive', place.archive, RCLONE_IGNORE_EXISTING='true'), '%s: %s' % (names[0], words))


@suite.case('--every goes on after a push that failed')
def _(_):
    with Store() as store, Place() as place:
        os.makedirs(os.path.join(place.archive, 'a/b'))
        name = 'a/b/%020d-%020d.log' % (1, 2)
        with open(os.path.join(place.archive, name), 'w') as file:
            file.write('a file')
        store.fault('busy')
        push = subprocess.Popen(store.words('archive', place.archive, '--every', '1'), env=dict(store.env, **RETRIES), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
        try:
            for line in push.stderr:
                if 'exit status' in line:
                    break
            check_equal(pushed(place.archive), 1)
            store.fault('none')
            wait_for(lambda: pushed(place.archive) > 1, 'a push that copies everything')
            check_equal(pulled(store, place)[1], ['archive/' + name])
            push.terminate()
            check_equal(push.wait(patience()), 143, 'SIGTERM has a handler: the first process of a container would not be ended otherwise')
        finally:
            push.kill()
            push.communicate()


@suite.case('the backend shows up to when the store has everything; 0 while nothing is pushed; its tools take PUSHED for no backup')
def _(_):
    with Store() as store, Place() as place, cluster_of(place) as cluster:
        backend = cluster.backends[0]

        def shown():
            text = backend.http('/metrics')[1]
            return tuple(metric(text, 'scree_backend_%s_pushed_timestamp_seconds' % name) for name in ('backup', 'archive'))
        check_equal(shown(), (0, 0))
        with cluster.connect() as client:
            backup(client, 'base')
        wait_archived(cluster)
        good(store.push('backups', place.backups))
        good(store.push('archive', place.archive))
        backend.stop()
        backend.start()
        wait_for(lambda: shown() == (pushed(place.backups), pushed(place.archive)), 'the times')
        good(tool('--verify-backup', place.backups))
        check('PUSHED' not in good(tool('--list-times', place.backups, '--archive', place.archive)), 'list-times')


if __name__ == '__main__':
    suite.main()
