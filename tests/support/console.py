"""console.py - runs the console blocks of a document, and compares their output.

    ```console
    $ redis-cli -p 7379 GET user:1            # a comment
    "ada"
    ```

Blocks marked `console` run in one shell, in the document's order. The lines below a command are its expected output:
`…` in a line stands for any text, a line `…` for any lines without errors. A command without such lines must succeed.
If the comment contains `soon`, the command is repeated until its output fits. Ports from 7300 to 7599 are replaced by
free ones.
"""

import os
import re
import signal
import subprocess
import threading
import time

from support import harness
from support.harness import PATIENCE, Failure, patience

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
    """Does the output contain an error that the document does not show? `…` does not stand for errors."""
    return any(word in text and word not in '\n'.join(expected) for word in ERRORS)


class Shell:
    """A bash in `folder`, with stderr in its output; `ports`: the first of PORTS free ports."""

    def __init__(self, folder, ports):
        self.ports, self.folder = ports, folder
        self.child = subprocess.Popen(['bash', '--norc', '-O', 'expand_aliases'], cwd=folder, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding='utf-8',
                                      errors='replace', env=dict(os.environ, FAKETTY='1'), start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)  # also kills processes that commands left in the background
        except ProcessLookupError:
            pass
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()

    def moved(self, text):
        return PORT.sub(lambda match: str(self.ports + int(match[0]) - 7300), text)

    def run(self, command, limit=3 * PATIENCE):
        """The output and the exit code of the command."""
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
        """Runs the document's commands; fails at the first whose output differs from the document."""
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
