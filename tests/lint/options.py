#!/usr/bin/python3
"""options.py - every option of the .def files is used by the program to which it belongs.

An option that the program does not read would have no effect.
"""

import re

from files import read, report, sources

ROW = re.compile(r'^(?:[A-Z]+_)?OPTION\((\w+), (\w+),', re.M)
READ_BY_LOADER = {'include'}  # read by its name in config/config_file.c
SUFFIX = {'BYTES': '_bytes', 'AUTO_BYTES': '_bytes', 'MS': '_ms'}


def main():
    problems = []
    for program in ('proxy', 'backend'):
        text = '\n'.join(read(path) for path in sources('.c', '.h')
                         if path.startswith((program + '/', 'config/reload.c', 'config/program.c', 'config/tls_files.c', 'config/memory_plan.c')))
        for match in ROW.finditer(read('config/%s_options.def' % program)):
            member = match.group(2) + SUFFIX.get(match.group(1), '')
            if match.group(2) not in READ_BY_LOADER and not re.search(r'(->|\.)%s\b' % member, text):
                problems.append('config/%s_options.def: %s is used nowhere in %s/' % (program, member, program))
    report(problems)


if __name__ == '__main__':
    main()
