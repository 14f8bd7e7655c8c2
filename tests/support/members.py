"""members.py - copies that vote, whose map changes while they serve.

    with Members() as members:
        members.change(members.order + [members.add()])   # an empty backend more, in a new map; waits until its members are those of the map
"""

import contextlib
import signal

from support.cluster import Backend
from support.copies import Voters
from support.harness import wait_for
from support.resp import Closed, ReplyError


class Members(Voters):
    """Voters whose first map has `copies` backends, and later ones more or fewer."""

    def __init__(self, **options):
        super().__init__(**options)
        self.spare_options = self.backends[0].options

    def add(self, **extra):
        """The index of a new backend with an empty disk, which runs when a map names it (`change`)."""
        backend = Backend(self, len(self.backends), {**self.spare_options, 'backend': {**self.spare_options['backend'], **extra}})
        self.backends.append(backend)
        return backend.index

    def address(self, index):
        return '%s:%d' % self.backends[index].addresses[0][:2]

    def reload(self):
        """Writes the map of `order`, and has all programs that run read it."""
        self.write_shards()
        for process in self.backends + self.proxies:
            if process.alive():
                process.signal(signal.SIGHUP)

    def change(self, order, asleep=None):
        """The map names these backends from now on; waits until they are the voters, and no others are members. Starts those that do not
        run, all but `asleep`."""
        self.order = list(order)
        self.reload()
        for index in self.order:
            if index != asleep and not self.backends[index].alive():
                self.start_retrying(self.backends[index])
        self.wait_members(*self.order)

    def members(self):
        """{address: kind} of the members, by the copy that serves; {} while none does."""
        with contextlib.suppress(OSError, Closed, ReplyError):
            leader = self.serving()
            lines = [] if leader is None else self.replicas(leader)[1]
            return {line['address']: line['kind'] for line in lines if line['kind'] != 'none'}
        return {}

    def wait_members(self, *indexes):
        """Waits until these are the members, and all vote."""
        wished = dict.fromkeys((self.address(index) for index in indexes), 'voter')
        wait_for(lambda: self.members() == wished, 'copies %s to be the members' % (indexes,), pause=0.05)
