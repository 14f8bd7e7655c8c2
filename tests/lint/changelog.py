#!/usr/bin/python3
"""changelog.py - docs/changelog.md has a section for the version, and names the number of each format and protocol.

Someone who upgrades reads there what programs of different versions refuse. A number that is raised without a line there
would surprise them: the newest section with the number's name must have its value.
"""

import re

from files import read, report

PAGE = 'docs/changelog.md'
NUMBERS = {'shared/version.h': ('PROXY_PROTOCOL', 'PROXY_PROTOCOL_OLDEST'), 'backend/peer/frame.h': ('PEER_PROTOCOL',),
           'backend/format/encoding.h': ('DATA_FORMAT',), 'backend/format/effects.h': ('EFFECTS_FORMAT',),
           'backend/backup/manifest.h': ('BACKUP_FORMAT',)}


def problems():
    page = read(PAGE)
    version = re.search(r'^#define SCREE_VERSION "([\d.]+)"', read('shared/version.h'), re.M)[1]
    sections = re.findall(r'^## (\S+)', page, re.M)
    if sections[:1] != [version]:
        yield '%s: expected the section ## %s first, for the version of shared/version.h' % (PAGE, version)
    for path, names in NUMBERS.items():
        for name in names:
            value = re.search(r'^\s+%s = (\d+),' % name, read(path), re.M)
            row = re.search(r'^\| `%s` \| (\d+) \|' % name, page, re.M)
            if not value:
                yield '%s: %s is not found: correct tests/lint/changelog.py' % (path, name)
            elif not row or row[1] != value[1]:
                yield '%s: `%s` is %s in %s: set its value in the first table, and write below it what that means for an upgrade' \
                    % (PAGE, name, value[1], path)


if __name__ == '__main__':
    report(list(problems()))
