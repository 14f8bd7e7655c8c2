#!/usr/bin/python3
"""pages.py [configuration|commands|versions] [--fix] - the generated page in docs/ equals the output of the programs.

Without a page all of them are compared. With --fix the page is written.
"""

import difflib
import os
import subprocess
import sys

from files import ROOT

PAGES = ('configuration', 'commands', 'versions')


def check_page(page):
    """0, or 1: the page is another one."""
    path = os.path.join(ROOT, 'docs', page + '.md')
    texts = []
    for program in ('scree-proxy', 'scree-backend'):
        binary = os.path.join(os.environ['SCREE_BIN'], program)
        done = subprocess.run([binary, '--print-docs', page], capture_output=True, check=True)
        texts.append(done.stdout.decode())
    if texts[0] != texts[1]:
        print('the two programs print different pages')
        return 1
    if '--fix' in sys.argv:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(texts[0])
        return 0
    have = open(path, encoding='utf-8').read() if os.path.exists(path) else ''
    for line in list(difflib.unified_diff(have.splitlines(), texts[0].splitlines(), path, 'printed', lineterm=''))[:40]:
        print(line)
    return 0 if have == texts[0] else 1


def main():
    pages = [word for word in sys.argv[1:] if word != '--fix']
    return max([check_page(page) for page in pages or PAGES])


if __name__ == '__main__':
    sys.exit(main())
