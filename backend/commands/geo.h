/*
 * geo.h - shared by the geo commands: points of members, arguments.
 */
#pragma once

#include "backend/commands/zset.h"
#include "backend/format/geohash.h"

struct geo_point geo_of_score(double score);
/* The point of a member: OK, ERR_NOT_FOUND, or a read failure (replied). */
int geo_of_member(struct call *call, struct entry *entry, struct bytes member,
                  struct geo_point *point);
/* Parses longitude and latitude from two arguments; false: an error was replied. */
bool geo_parse_point(struct call *call, uint32_t at, struct geo_point *point);
/* Parses m, km, ft or mi into the unit's length in metres; false: an error was replied. */
bool geo_parse_unit(struct call *call, uint32_t at, double *unit);
void geo_reply_distance(struct call *call, double distance);
void geo_reply_point(struct call *call, struct geo_point point);
