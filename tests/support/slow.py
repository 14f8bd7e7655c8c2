"""slow.py - long-running scripts in tests."""

import threading
import time

from support.harness import check, patience, wait_for
from support.resp import Connection, ReplyError

BUSY_SCRIPT = b'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.'
BUSY_FUNCTION = b'BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.'
NOTBUSY = b'NOTBUSY No scripts in execution right now.'
FOREVER = 'while true do end'


def text(reply):
    """The text of an error as bytes; any other reply unchanged."""
    if isinstance(reply, ReplyError):
        words = str(reply)
        return words.encode() if isinstance(words, str) else words
    return reply


class Background:
    """A command on a connection of its own; `before` are commands sent in the same packet."""

    def __init__(self, address, *words, before=(), proto=2):
        self.replies = []
        self.connection = Connection(address, patience(), proto)
        self.count = len(before) + 1
        self.connection.send_many(list(before) + [words])
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for _ in range(self.count):
            self.replies.append(self.connection.read())

    def finish(self):
        """The last reply."""
        self.thread.join(patience())
        check(not self.thread.is_alive(), 'the command did not end')
        check(len(self.replies) == self.count, 'only %d of %d replies came' % (len(self.replies), self.count))
        self.connection.close()
        kind, payload = self.replies[-1]
        return int(payload) if kind == ':' else payload


def is_busy(client):
    reply = text(client.get('PING'))
    return isinstance(reply, bytes) and reply.startswith(b'BUSY')


def wait_busy(client):
    wait_for(lambda: is_busy(client), 'BUSY')


def begin_until(is_seen, begin):
    """A command that ends by itself, while it runs: begin() begins it, again if it ended before is_seen() was true."""
    def seen():
        slow = begin()
        while slow.thread.is_alive():
            if is_seen():
                return slow
            time.sleep(0.01)
        slow.finish()
        return None
    return wait_for(seen, 'what a running command shows')


def wait_free(client):
    wait_for(lambda: not is_busy(client), 'the end of the script')
