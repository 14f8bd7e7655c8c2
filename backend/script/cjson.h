/*
 * cjson.h - settings and functions shared by the encoder and the decoder of the module `cjson`.
 */
#pragma once

#include "backend/script/vm.h"

/* Settings that scripts change by cjson.encode_max_depth and similar functions. */
struct cjson_settings {
    int sparse_convert; /* 1: very sparse arrays become objects; 0: they are an error */
    int sparse_ratio;
    int sparse_safe;
    int encode_max_depth;
    int decode_max_depth;
    int encode_invalid_numbers; /* 0: an error, 1: as inf and nan, 2: null */
    int decode_invalid_numbers; /* 1: decoded as numbers; 0: an error */
    int number_precision;
    int keep_buffer; /* has no effect: the buffer belongs to the Lua state */
};

struct cjson_settings *cjson_settings_of(lua_State *lua);
/* cjson.decode */
int cjson_decode(lua_State *lua);
