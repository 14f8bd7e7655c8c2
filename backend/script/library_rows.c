/*
 * library_rows.c - the rows of the libraries of functions.
 *
 *   CF_SYSTEM   'f' | library name                         → code of a library in the default namespace
 *               'F' | u8 ns_len | namespace | library name → code of a library in this namespace
 *
 * A namespace's libraries are loaded on first use, and again after its Lua state was freed.
 */
#include "backend/script/script.h"

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

/* Has an earlier call, which had to end before all libraries were loaded, loaded this one? */
static bool is_loaded_already(const struct scripts *scripts, struct bytes code)
{
    char name[LIBRARY_NAME_MAX];
    char error[ERROR_MAX];
    return library_name(code, name, error, sizeof error) && library_find(scripts, bytes_of(name));
}

/* ERR_OVER: the call must end. */
static int load_row(struct partition *partition, struct scripts *scripts, struct bytes code)
{
    char error[ERROR_MAX];
    if (is_loaded_already(scripts, code))
        return OK;
    struct library *library = library_load(scripts, code, STORED_LOAD_MS, error, sizeof error);
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
    for (; err == OK && overlay_iter_valid(iter); overlay_iter_next(iter))
        err = load_row(partition, scripts, overlay_iter_value(iter));
    if (err == OK) /* the next attempt goes on with the libraries that are missing */
        err = overlay_iter_error(iter);
    overlay_iter_free(iter);
    arena_fini(&arena);
    functions_set_loaded(scripts, err == OK);
    return err;
}
