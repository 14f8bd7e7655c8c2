"""geo: every geo command of Redis 7.0."""

WEIGHT = 1
UNITS = ['m', 'km', 'ft', 'mi', 'KM']
NAMES = [b'p%d' % i for i in range(40)] + [b'', b'\x00', b'Palermo']
CENTERS = [('13.361389', '38.115556'), ('15.087269', '37.502669'), ('-122.4194', '37.7749'), ('0', '0'), ('179.99', '0.1'),
           ('-179.99', '-0.1'), ('30', '84.9'), ('-70', '-80.5'), ('100', '67')]


def point(c):
    if c.chance(0.04):
        return c.pick([['181', '0'], ['0', '86'], ['x', '0'], ['0', ''], ['-180', '-85.05112878'], ['nan', '0'],
                       ['180', '85.05112878'], ['inf', '1']])
    if c.chance(0.15):
        return [c.pick(CENTERS)[0], c.pick(CENTERS)[1]]
    x, y = c.pick(CENTERS)
    spread = c.pick([0.001, 0.1, 2, 30])
    return ['%.6f' % max(-180, min(180, float(x) + (c.rng.random() - 0.5) * spread)),
            '%.6f' % max(-85, min(85, float(y) + (c.rng.random() - 0.5) * spread))]


def name(c):
    return c.pick(NAMES)


def unit(c):
    return c.pick(UNITS) if c.chance(0.97) else c.pick(['yd', '', 'metres'])


def length(c):
    if c.chance(0.05):
        return c.pick(['-1', 'x', '', '0', 'inf', '1e9'])
    return c.pick(['0', '1', '100', '100.5', '5000', '200', '1000', '50000', '20000', '300000', '7000000'])


def geoadd(c):
    options = [c.case(option) for option, p in (('NX', .1), ('XX', .1), ('CH', .2)) if c.chance(p)]
    words = ['GEOADD', c.key()] + options
    for _ in range(c.number(1, 8) if c.chance(0.9) else c.number(10, 60)):
        words += point(c) + [name(c)]
    return words[:-1] if c.chance(0.03) else words


def options(c, may_show=True):
    """COUNT sorts and cuts. The order of members at equal distance is undefined, so COUNT without ANY is tested in
    behaviours_zsets.py."""
    words = []
    if c.chance(0.4) and not c.fields_many:
        is_any = c.chance(0.5)
        words += ['COUNT', c.pick(['0', '-1', 'x']) if c.chance(0.06) else c.number(1, 12) if is_any else 1000]
        words += ['ANY'] if is_any else []
    elif c.chance(0.03):
        words += ['ANY']
    words += [c.pick(['ASC', 'DESC'])] if c.chance(0.4) else []
    for option in ('WITHCOORD', 'WITHDIST', 'WITHHASH'):
        words += [c.case(option)] if may_show and c.chance(0.3) else []
    return words + (['NOPE'] if c.chance(0.02) else [])


def shape(c):
    return ['BYRADIUS', length(c), unit(c)] if c.chance(0.5) else ['BYBOX', length(c), length(c), unit(c)]


def center(c):
    return ['FROMMEMBER', name(c)] if c.chance(0.4) else ['FROMLONLAT'] + point(c)


def geosearch(c):
    parts = [center(c), shape(c), options(c)]
    if c.chance(0.04):
        parts[c.number(0, 2)] = c.pick([center, shape])(c)
    c.rng.shuffle(parts)
    return ['GEOSEARCH', c.key()] + parts[0] + parts[1] + parts[2]


def geosearchstore(c):
    target, source = c.keys_together(2)
    words = ['GEOSEARCHSTORE', target, source] + center(c) + shape(c) + options(c, c.chance(0.05))
    return words + (['STOREDIST'] if c.chance(0.4) else [])


def georadius(c):
    target, source = c.keys_together(2)
    is_member = c.chance(0.5)
    words = ['GEORADIUSBYMEMBER', source, name(c)] if is_member else ['GEORADIUS', source] + point(c)
    words += [length(c), unit(c)]
    if c.chance(0.4):
        words[0] += '_RO'
        return words + options(c)
    if c.chance(0.4):
        return words + options(c, c.chance(0.05)) + [c.pick(['STORE', 'STOREDIST']), target]
    return words + options(c)


COMMANDS = [
    (8, geoadd),
    (3, lambda c: ['GEODIST', c.key(), name(c), name(c)] + ([unit(c)] if c.chance(0.6) else [])),
    (2, lambda c: ['GEOPOS', c.key()] + [name(c) for _ in range(c.number(0, 4))]),
    (2, lambda c: ['GEOHASH', c.key()] + [name(c) for _ in range(c.number(0, 4))]),
    (6, geosearch),
    (3, geosearchstore),
    (5, georadius),
]

MANY_KEYS = {'GEOSEARCHSTORE', 'GEORADIUS', 'GEORADIUSBYMEMBER'}
