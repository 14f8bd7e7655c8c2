#!/usr/bin/python3
"""Members of a group of copies follow the shard map while clients write."""

import shutil

from support.harness import Suite, check_equal, wait_for
from support.members import Members

suite = Suite(__doc__)


def hand_over(members, index):
    with members.leader() as client:
        check_equal(client.get('SCREE', 'LEADER', 'TO', members.address(index)), b'OK')
    wait_for(lambda: members.serves(index), 'copy %d to serve' % index)


@suite.case('a copy whose map and members name no address of its leader follows it')
def _(run):
    with Members() as members:
        leader = members.wait_leader()
        sleeper, leaver = [index for index in range(3) if index != leader]
        old_map = members.folder + '/old-shards.ini'
        shutil.copy(members.shards_path, old_map)
        members.backends[sleeper].kill9()
        newcomer = members.add()
        members.change([leader, newcomer, sleeper], asleep=sleeper)
        hand_over(members, newcomer)
        with members.copy(newcomer) as client:
            check_equal(client.get('SET', 'k', 'v'), b'OK')
        members.backends[sleeper].options = {'backend': dict(members.spare_options['backend'], shards=old_map)}
        members.backends[sleeper].write_config()
        members.backends[sleeper].start()
        members.backends[leaver].stop()
        members.wait_leader()
        members.wait_follows(sleeper)


if __name__ == '__main__':
    suite.main()
