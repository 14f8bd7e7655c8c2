"""console.py - what a document shows of a terminal is done again, and must look the same.

    ```console
    $ redis-cli -p 7379 GET user:1            # a comment
    "ada"
    ```

Blocks marked `console` are run in one shell, from the first to the last. Under a command stands what it prints: `…` in a
line is any text, a line `…` any lines, but no error. A command without such lines must succeed. Where the comment says
`soon`, the command is repeated until it prints that. Ports from 7300 to 7599 become others, which are free.
"""

import os
import re
import signal
import subprocess
import threading
import time

from support import harness
from support.harness import Failure, patience

PORT = re.compile(r'(?<![\d.])7[345]\d\d(?!\d)')
PORTS = 300
END = '\x01'
ERRORS = ('(error)', 'command not found', 'No such file', 'usage: ')


def commands_of(path):
    """[(line number, command, [expected lines])] of a document's console blocks."""
    found, is_console = [], False
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip('\n')
            if line.startswith('```'):
                is_console = line == '```console'
            elif is_console and line.startswith('$ '):
                found.append((number, line[2:], []))
            elif is_console and line.startswith('> ') and found[-1][1].endswith('\\'):
                found[-1] = (found[-1][0], found[-1][1] + '\n' + line[2:], [])
            elif is_console:
                found[-1][2].append(line)
    return found


def pattern_of(lines):
    parts = ['(?:.*\n)*' if line.strip() == '…' else '.*'.join(map(re.escape, line.rstrip().split('…'))) + '\n' for line in lines]
    return re.compile(''.join(parts) + r'\Z')


def unexpected_error(text, expected):
    """Is there an error that the document does not show? `…` is no room for one."""
    return any(word in text and word not in '\n'.join(expected) for word in ERRORS)


class Shell:
    """A bash in `folder`, its errors among its output; `ports`: the first of PORTS free ones."""

    def __init__(self, folder, ports):
        self.ports, self.folder = ports, folder
        self.child = subprocess.Popen(['bash', '--norc', '-O', 'expand_aliases'], cwd=folder, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding='utf-8',
                                      errors='replace', env=dict(os.environ, FAKETTY='1'), start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)  # what commands have left in the background, too
        except ProcessLookupError:
            pass
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def moved(self, text):
        return PORT.sub(lambda match: str(self.ports + int(match[0]) - 7300), text)

    def run(self, command, limit=90.0):
        """What it printed, and its exit code."""
        self.child.stdin.write('{\n%s\n} </dev/null\nprintf "\\n%s%%d\\n" $?\n' % (self.moved(command), END))
        self.child.stdin.flush()
        watch = threading.Timer(limit * harness.SLOW, self.child.kill)
        watch.start()
        lines = []
        for line in self.child.stdout:
            if line.startswith(END):
                watch.cancel()
                text = ''.join(lines)
                return (text[:-1] if text.endswith('\n\n') or text == '\n' else text), int(line[1:])
            lines.append(line)
        watch.cancel()
        raise Failure('%s: no end after %.0f s; it printed %r' % (command, limit * harness.SLOW, ''.join(lines)))

    def play(self, path, run):
        """Does what the document shows; fails with its line where the same is not to be seen."""
        for number, command, expected in commands_of(path):
            place = '%s:%d: %s' % (os.path.basename(path), number, command)
            began = time.monotonic()
            is_soon = re.search(r'#[^#]*\bsoon\b', command) is not None
            pattern = pattern_of(self.moved(line) for line in expected)
            while True:
                text, code = self.run(command)
                if (pattern.match(text) if expected else code == 0) and not unexpected_error(text, expected):
                    break
                if not is_soon or time.monotonic() - began > patience():
                    raise Failure('%s\n     printed (exit code %d):\n%s     and not:\n%s' % (place, code, text, '\n'.join(expected)))
                time.sleep(0.1)
            run.debug('%5.1f s  %s' % (time.monotonic() - began, place))
