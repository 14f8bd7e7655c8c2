/*
 * cjson.h - the inside of the module `cjson`: what its two directions share.
 */
#pragma once

#include "backend/script/vm.h"

/* What scripts can choose by cjson.encode_max_depth and its sisters. */
struct cjson_settings {
    int sparse_convert; /* very sparse arrays become objects; 0: they are an error */
    int sparse_ratio;
    int sparse_safe;
    int encode_max_depth;
    int decode_max_depth;
    int encode_invalid_numbers; /* 0: an error, 1: as inf and nan, 2: null */
    int decode_invalid_numbers; /* are they numbers? */
    int number_precision;
    int keep_buffer; /* has no effect: where the text is built belongs to the state */
};

struct cjson_settings *cjson_settings_of(lua_State *lua);
/* cjson.decode */
int cjson_decode(lua_State *lua);
