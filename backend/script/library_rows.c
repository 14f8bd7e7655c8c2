/*
 * library_rows.c - the rows of the libraries of functions.
 *
 *   CF_SYSTEM   'f' | library name                         → code of a library in the default namespace
 *               'F' | u8 ns_len | namespace | library name → code of a library in this namespace
 *
 * A namespace's libraries are loaded on first use, and again after its Lua state was freed. A call loads as many as its time allows, at least
 * one; the next call goes on:
 *
 *   rows   a   b   c   d       c needs more time than a call has: so it is the first one of its call
 *          call 1  2   call 3
 */
#include "backend/script/vm.h"

#include "backend/context/partition.h"
#include "backend/format/encoding.h"
#include "backend/storage/overlay.h"
#include "shared/log.h"

enum {
    ERROR_MAX = 512,
    STORED_LOAD_MS =
        4 * LIBRARY_LOAD_MS /* its code may do more than when it was new: names of objects differ */
};

/* Lower bound of the rows of the namespace's libraries. */
static struct bytes first_row(struct arena *arena, struct bytes name)
{
    return encode_function_key(arena, name, BYTES(""));
}

static struct bytes behind_rows(struct arena *arena, struct bytes name)
{
    return encode_function_key(arena, name, BYTES("\x7f"));
}

void functions_delete_rows(struct partition *partition, struct bytes name)
{
    overlay_delete_range(partition->overlay, CF_SYSTEM, first_row(&partition->running.arena, name),
                         behind_rows(&partition->running.arena, name));
}

/* The first library of a call may need more than command-time-limit: else it, and those behind it, could never be loaded. As always, others
 * are served, who may end the call. */
static struct library *load_library(struct partition *partition, struct scripts *scripts,
                                    struct bytes code, bool is_first, char error[ERROR_MAX])
{
    struct call_budget *budget = &partition->running.budget;
    if (!is_first || !budget->call)
        return library_load(scripts, code, STORED_LOAD_MS, error, ERROR_MAX);
    budget_measure(budget);
    uint64_t limit_us = budget->limit_us;
    budget->limit_us = 0;
    struct library *library = library_load(scripts, code, STORED_LOAD_MS, error, ERROR_MAX);
    budget->limit_us = limit_us;
    return library;
}

/* ERR_OVER: the call must end. */
static int load_row(struct partition *partition, struct scripts *scripts, struct bytes code,
                    bool is_first)
{
    char error[ERROR_MAX];
    struct library *library = load_library(partition, scripts, code, is_first, error);
    if (library && library_add(scripts, library, false, error, sizeof error))
        return OK;
    if (library)
        library_free(scripts, library);
    if (partition->running.budget.end)
        return ERR_OVER;
    log_event(LOG_ERROR, "library_lost",
              "reason=\"a stored library cannot be loaded, so its functions are missing: %s\"",
              error);
    return OK;
}

/* Goes on behind the rows that earlier calls are done with. */
static int load_missing(struct partition *partition, struct scripts *scripts,
                        struct overlay_iter *iter)
{
    const uint32_t done = scripts->rows_done;
    uint32_t row = 0;
    for (; overlay_iter_valid(iter); overlay_iter_next(iter), row++) {
        if (row < done)
            continue;
        int err = load_row(partition, scripts, overlay_iter_value(iter), row == done);
        if (err != OK)
            return err;
        scripts->rows_done = row + 1;
    }
    return overlay_iter_error(iter);
}

int functions_load(struct partition *partition, struct bytes name)
{
    struct scripts *scripts = scripts_open(partition->scripts, name);
    if (functions_are_loaded(scripts))
        return OK;
    struct arena arena;
    arena_init(&arena);
    struct overlay_iter *iter = overlay_iter_new(
        partition->overlay, CF_SYSTEM, first_row(&arena, name), behind_rows(&arena, name));
    overlay_iter_seek_first(iter);
    int err = overlay_iter_valid(iter) && partition->running.busy_error ? ERR_NOT_FOUND : OK;
    if (err == OK)
        err = load_missing(partition, scripts, iter);
    overlay_iter_free(iter);
    arena_fini(&arena);
    functions_set_loaded(scripts, err == OK);
    return err;
}
