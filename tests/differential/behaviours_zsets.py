"""behaviours_zsets: sorted sets and geo positions. (title, script[, only these targets])"""

CASES = [
    ('sorted sets: infinities, NaN, and printed scores', '''
        ZADD z inf a -inf b 1e-300 c 0.1 d 3.0 e 1e22 f
        ZRANGE z 0 -1 WITHSCORES
        ZINCRBY z -inf a
        ZSCORE z a
        ZADD z nan a
        ZADD z INCR NX 5 a
        ZADD z GT LT 5 a
        ZADD z NX XX 5 a
        ZADD z INCR 1 a 2 b
        ZUNION 1 z WEIGHTS 0 WITHSCORES
        ZUNIONSTORE {z}u 2 z z WEIGHTS 1 -1
        ZRANGE {z}u 0 -1 WITHSCORES
        ZSCAN z 0
    '''),
    ('sorted sets: invalid and unusual ranges', '''
        ZADD z 0 a 1 b
        ZRANGEBYSCORE z ( 5
        ZRANGEBYSCORE z (( 5
        ZRANGEBYLEX z a b
        ZRANGEBYLEX z (a +
        ZRANGE z 0 -1 LIMIT 0 -1
        ZRANGE z 0 -1 LIMIT 0 1
        ZRANGE z 0 -1 BYLEX WITHSCORES
        ZRANGE z 0 5 BYSCORE LIMIT -1 5
        ZRANGE z 5 0 BYSCORE REV
        ZPOPMIN z 0
        ZPOPMIN z -1
        ZREMRANGEBYRANK z 0 -1
        EXISTS z
    '''),
    ('geo: errors and empty replies', '''
        GEOADD g 200 0 a
        GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        GEOADD g 1 1
        GEODIST g Palermo Catania yd
        GEODIST g Palermo Catania KM
        GEODIST g Palermo nobody
        GEOHASH g Palermo nobody
        GEOPOS g Palermo nobody
        GEOPOS none a
        GEOSEARCH g FROMMEMBER nobody BYRADIUS 1 km
        GEOSEARCH g BYRADIUS 1 km
        GEOSEARCH g FROMLONLAT 15 37
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ANY
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST WITHHASH WITHCOORD
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km COUNT 1
        GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km COUNT 1 DESC WITHDIST
        GEORADIUS g 15 37 200 km STORE {g}h WITHDIST
        GEORADIUS g 15 37 200 km STOREDIST {g}h
        ZRANGE {g}h 0 -1 WITHSCORES
        GEOSEARCHSTORE {g}h g FROMLONLAT 0 0 BYRADIUS 1 m
        EXISTS {g}h
    '''),
]
