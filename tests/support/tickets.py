"""tickets.py - an event whose seats are sold: its keys, and the transactions on them (redis-py).

    seats:EVENT        2 bits for each seat: 00 free, 01 reserved, 10 sold        SETBIT, GETRANGE
    event:EVENT        JSON: sections with their figures                          JSON.SET, JSON.GET, JSON.NUMINCRBY
    booking:EVENT:ID   hash with an expiry time                                   HSET, EXPIRE
    timers:EVENT       hash: when each booking began                              HSETNX
    index:EVENT        sorted set of bookings by that time                        ZADD
"""

import json

from support.harness import check_equal

SECTIONS = 4
FREE, RESERVED, SOLD = 0, 1, 2
BOOKING_SECONDS = 86400  # later than any round of a test ends, also on a slow machine


class Event:
    def __init__(self, name, seats_of_section=120, booking_seconds=BOOKING_SECONDS):
        """`seats_of_section`: a multiple of four."""
        self.name, self.seats_of_section, self.booking_seconds = name, seats_of_section, booking_seconds
        self.seats, self.document, self.timers, self.index = (
            '%s:%s' % (kind, name) for kind in ('seats', 'event', 'timers', 'index'))
        self.sections = ['%s-%d' % (chr(65 + i // 2), i) for i in range(SECTIONS)]

    def booking(self, ident):
        return 'booking:%s:%s' % (self.name, ident)

    def create(self, client):
        document = {'name': self.name, 'sections': {
            section: {'price': 10.5 + i, 'stats': {'available': self.seats_of_section, 'reserved': 0, 'sold': 0}}
            for i, section in enumerate(self.sections)}}
        pipe = client.pipeline(transaction=True)
        pipe.execute_command('JSON.SET', self.document, '$', json.dumps(document))
        pipe.setbit(self.seats, SECTIONS * self.seats_of_section * 2 - 1, 0)
        check_equal(pipe.execute(), [b'OK', 0], 'a new event')

    def free_seats(self, bits, section):
        """Numbers of the free seats, from the bytes of the section's seats."""
        places = self.seats_in(section)
        return [seat for seat in places if seat_state(bits, seat - places.start) == FREE]

    def seats_in(self, section):
        return range(section * self.seats_of_section, (section + 1) * self.seats_of_section)

    def range_of(self, section):
        """The section's bytes in the seat map: four seats to a byte."""
        return section * self.seats_of_section // 4, (section + 1) * self.seats_of_section // 4 - 1

    def reserve(self, pipe, section, seats, ident, seller, now):
        path = "$.sections['%s'].stats" % self.sections[section]
        for seat in seats:
            pipe.setbit(self.seats, seat * 2 + 1, 1)
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.available', -len(seats))
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.reserved', len(seats))
        pipe.hset(self.booking(ident), mapping={'seller': seller, 'section': section, 'seats': ','.join(map(str, seats))})
        pipe.expire(self.booking(ident), self.booking_seconds)
        pipe.hsetnx(self.timers, ident, now)
        pipe.zadd(self.index, {ident: now})

    def sell(self, pipe, section, seats):
        path = "$.sections['%s'].stats" % self.sections[section]
        for seat in seats:
            pipe.setbit(self.seats, seat * 2, 1)
            pipe.setbit(self.seats, seat * 2 + 1, 0)
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.reserved', -len(seats))
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.sold', len(seats))

    def cancel(self, pipe, section, seats, ident):
        """Frees the seats of a reservation."""
        path = "$.sections['%s'].stats" % self.sections[section]
        for seat in seats:
            pipe.setbit(self.seats, seat * 2 + 1, 0)
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.reserved', -len(seats))
        pipe.execute_command('JSON.NUMINCRBY', self.document, path + '.available', len(seats))
        pipe.delete(self.booking(ident))
        pipe.hdel(self.timers, ident)
        pipe.zrem(self.index, ident)

    def look(self, pipe):
        pipe.get(self.seats)
        pipe.execute_command('JSON.GET', self.document, '$')
        pipe.hlen(self.timers)
        pipe.zcard(self.index)

    def judge(self, answers):
        """The error in the replies to look(); None: they fit together."""
        bits, text, timers, bookings = answers
        document = json.loads(text)[0]
        if timers != bookings:
            return '%d timers, %d bookings' % (timers, bookings)
        for number, section in enumerate(self.sections):
            states = [seat_state(bits, seat) for seat in self.seats_in(number)]
            stats = document['sections'][section]['stats']
            have = {'available': states.count(FREE), 'reserved': states.count(RESERVED), 'sold': states.count(SOLD)}
            if have != stats:
                return '%s: seats %r, document %r' % (section, have, stats)
        return None


def seat_state(bits, seat):
    return bits[seat // 4] >> (6 - seat % 4 * 2) & 3


def choose(rng, free):
    return sorted(rng.sample(free, min(len(free), rng.randint(1, 4))))
