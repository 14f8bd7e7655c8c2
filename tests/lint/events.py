#!/usr/bin/python3
"""events.py - docs/log.md has every event that the programs log, and no other.

An operator searches the page for what the log shows. Names are read from the second argument of log_event (both of them in
`is_low ? "disk_low" : "disk_has_room"`), of crash_line, and of listener_log and log_forced, which have the name from
their callers.
"""

import re

from files import read, report, sources

CALL = re.compile(r'\b(?:log_event|listener_log|log_forced|crash_line)\(\s*(?:[^,"]+),\s*([^,;]+?)[,)]')
NAME = re.compile(r'"([a-z_]+)"')
PAGE = 'docs/log.md'


def main():
    logged = {}
    for path in sources('.c'):
        if path.startswith(('backend/', 'proxy/', 'shared/', 'config/')):
            for call in CALL.finditer(read(path)):
                for name in NAME.findall(call.group(1)):
                    logged.setdefault(name, path)
    listed = set()
    for line in read(PAGE).splitlines():
        if line.startswith('| `'):
            listed |= set(re.findall(r'`([a-z_]+)`', line.split('|')[1]))
    problems = ['%s: the event %s is not in %s' % (logged[name], name, PAGE) for name in sorted(set(logged) - listed)]
    problems += ['%s: no program logs %s' % (PAGE, name) for name in sorted(listed - set(logged))]
    report(problems)


if __name__ == '__main__':
    main()
