/*
 * test_types.c - every data type has the functions that commands need.
 */
#include "backend/commands/types.h"

#include "shared/check.h"

#include <stdio.h>
#include <string.h>

static void test_every_type_is_saved_and_loaded(void)
{
    for (unsigned type = 0; type < TYPE_COUNT; type++) {
        const struct type_functions *functions = type_functions_of((enum type)type);
        const struct type_row *row = &type_rows[type];
        CHECK(!functions == !row->name);
        if (!functions)
            continue;
        bool is_read = functions->rdb_types || functions->module;
        CHECK(functions->save && functions->encoding);
        CHECK(is_read == (functions->load != NULL));
        /* no load function: it is loaded as another type */
        CHECK(is_read || row->opens_as != TYPE_NONE);
    }
}

static void test_no_two_types_read_the_same_form(void)
{
    uint32_t seen = 0;
    for (unsigned type = 0; type < TYPE_COUNT; type++) {
        const struct type_functions *functions = type_functions_of((enum type)type);
        if (!functions)
            continue;
        CHECK(!(seen & functions->rdb_types));
        CHECK(!(functions->rdb_types & RDB_FORM(RDB_TYPE_MODULE_2)));
        seen |= functions->rdb_types;
    }
    CHECK(seen >> RDB_TYPE_LAST == 1); /* later types are refused */
}

int main(void)
{
    test_every_type_is_saved_and_loaded();
    test_no_two_types_read_the_same_form();
    (void)puts("types: ok");
    return 0;
}
