/*
 * geo.h - what commands about places share: points of members, arguments, replies.
 */
#pragma once

#include "backend/commands/zset.h"
#include "backend/format/geohash.h"

struct geo_point geo_of_score(double score);
/* A member's point: OK, ERR_NOT_FOUND, or ERR_STORE (replied). */
int geo_of_member(struct call *call, struct entry *entry, struct bytes member,
                  struct geo_point *point);
/* Reads longitude and latitude from two arguments; replies what is wrong with them. */
bool geo_parse_point(struct call *call, uint32_t at, struct geo_point *point);
/* Reads m, km, ft or mi: metres of one; replies the error. */
bool geo_parse_unit(struct call *call, uint32_t at, double *unit);
void geo_reply_distance(struct call *call, double distance);
void geo_reply_point(struct call *call, struct geo_point point);
