#include "backend/store/foreign.h"

#include "shared/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct foreign {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *read_options;
    int lock_file; /* -1: the directory has none */
    unsigned count;
    const char *names[FOREIGN_FAMILIES_MAX]; /* of the handles */
    rocksdb_column_family_handle_t *handles[FOREIGN_FAMILIES_MAX];
    const char *const *families; /* the caller's */
    char error[FOREIGN_ERROR_MAX];
};

struct foreign_rows {
    struct foreign *foreign;
    rocksdb_iterator_t *it; /* NULL: the directory lacks the family */
    bool has_moved;         /* the iterator stands on the row that comes next */
};

static void foreign_failed(char error[FOREIGN_ERROR_MAX], const char *path, const char *reason)
{
    (void)snprintf(error, FOREIGN_ERROR_MAX, "%.100s: %.140s", path, reason);
}

/* ---- the lock ---- */

/* A backup has no file LOCK, because nothing has opened it. */
static bool lock_directory(struct foreign *foreign, const char *path, char error[FOREIGN_ERROR_MAX])
{
    char name[PATH_MAX];
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    foreign->lock_file = -1;
    if (snprintf(name, sizeof name, "%s/LOCK", path) >= (int)sizeof name) {
        foreign_failed(error, path, "the path is too long");
        return false;
    }
    foreign->lock_file = open(name, O_RDONLY | O_CLOEXEC);
    if (foreign->lock_file < 0 && errno == ENOENT)
        return true;
    if (foreign->lock_file < 0 || fcntl(foreign->lock_file, F_SETLK, &whole) != 0) {
        bool is_used = errno == EAGAIN || errno == EACCES;
        foreign_failed(
            error, path,
            foreign->lock_file >= 0 && is_used
                ? "a program uses this directory: stop it, or let it write a backup (BGSAVE)"
                : strerror(errno));
        return false;
    }
    return true;
}

/* ---- opening ---- */

static bool is_wanted_family(const struct foreign *foreign, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(foreign->families[i], name) == 0)
            return true;
    return false;
}

/* Takes the wanted families that the directory has; RocksDB needs "default" always. */
static void choose_families(struct foreign *foreign, unsigned count, char **found,
                            size_t found_count)
{
    for (size_t i = 0; i < found_count && foreign->count < FOREIGN_FAMILIES_MAX; i++)
        if (is_wanted_family(foreign, count, found[i]) || strcmp(found[i], "default") == 0)
            foreign->names[foreign->count++] = strdup(found[i]);
    rocksdb_list_column_families_destroy(found, found_count);
}

static bool open_families(struct foreign *foreign, const char *path, char **reason)
{
    const rocksdb_options_t *options[FOREIGN_FAMILIES_MAX];
    for (unsigned i = 0; i < foreign->count; i++)
        options[i] = foreign->options;
    foreign->db = rocksdb_open_for_read_only_column_families(foreign->options, path,
                                                             (int)foreign->count, foreign->names,
                                                             options, foreign->handles, 0, reason);
    return !*reason;
}

static bool open_foreign_directory(struct foreign *foreign, const char *path, unsigned count,
                                   char error[FOREIGN_ERROR_MAX])
{
    char *reason = NULL;
    size_t found_count = 0;
    if (!lock_directory(foreign, path, error))
        return false;
    char **found = rocksdb_list_column_families(foreign->options, path, &found_count, &reason);
    if (!reason) {
        choose_families(foreign, count, found, found_count);
        (void)open_families(foreign, path, &reason);
    } else {
        rocksdb_list_column_families_destroy(found, found_count);
    }
    if (reason)
        foreign_failed(error, path, reason);
    bool is_open = !reason;
    rocksdb_free(reason);
    return is_open;
}

struct foreign *foreign_open(const char *path, const char *const *families, unsigned count,
                             char error[FOREIGN_ERROR_MAX])
{
    struct foreign *foreign = calloc(1, sizeof *foreign);
    CHECK(foreign && count <= FOREIGN_FAMILIES_MAX - 1);
    foreign->families = families;
    foreign->options = rocksdb_options_create();
    rocksdb_options_set_max_open_files(foreign->options, 512);
    rocksdb_options_set_skip_stats_update_on_db_open(foreign->options, 1);
    /* By default RocksDB stops at a damaged record of its log without a word, and all rows behind it would be missing. */
    rocksdb_options_set_wal_recovery_mode(foreign->options,
                                          rocksdb_tolerate_corrupted_tail_records_recovery);
    foreign->read_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(foreign->read_options, 1);
    if (open_foreign_directory(foreign, path, count, error))
        return foreign;
    foreign_close(foreign);
    return NULL;
}

void foreign_close(struct foreign *foreign)
{
    for (unsigned i = 0; i < foreign->count; i++) {
        if (foreign->db)
            rocksdb_column_family_handle_destroy(foreign->handles[i]);
        free((char *)foreign->names[i]);
    }
    if (foreign->db)
        rocksdb_close(foreign->db);
    rocksdb_readoptions_destroy(foreign->read_options);
    rocksdb_options_destroy(foreign->options);
    if (foreign->lock_file >= 0)
        (void)close(foreign->lock_file);
    free(foreign);
}

const char *foreign_error(const struct foreign *foreign)
{
    return foreign->error;
}

static rocksdb_column_family_handle_t *find_family(const struct foreign *foreign, unsigned family)
{
    for (unsigned i = 0; i < foreign->count; i++)
        if (strcmp(foreign->names[i], foreign->families[family]) == 0)
            return foreign->handles[i];
    return NULL;
}

bool foreign_has(const struct foreign *foreign, unsigned family)
{
    return find_family(foreign, family) != NULL;
}

/* ---- rows ---- */

struct foreign_rows *foreign_rows_new(struct foreign *foreign, unsigned family)
{
    struct foreign_rows *rows = calloc(1, sizeof *rows);
    rocksdb_column_family_handle_t *handle = find_family(foreign, family);
    CHECK(rows);
    rows->foreign = foreign;
    if (handle)
        rows->it = rocksdb_create_iterator_cf(foreign->db, foreign->read_options, handle);
    foreign_rows_seek(rows, BYTES(""));
    return rows;
}

void foreign_rows_free(struct foreign_rows *rows)
{
    if (rows->it)
        rocksdb_iter_destroy(rows->it);
    free(rows);
}

void foreign_rows_seek(struct foreign_rows *rows, struct bytes key)
{
    if (rows->it)
        rocksdb_iter_seek(rows->it, key.data, key.len);
    rows->has_moved = true;
}

static void keep_read_failure(struct foreign_rows *rows)
{
    char *reason = NULL;
    rocksdb_iter_get_error(rows->it, &reason);
    if (reason && !*rows->foreign->error)
        (void)snprintf(rows->foreign->error, FOREIGN_ERROR_MAX, "%s", reason);
    rocksdb_free(reason);
}

bool foreign_rows_next(struct foreign_rows *rows, struct bytes *key, struct bytes *value)
{
    if (!rows->it)
        return false;
    if (!rows->has_moved && rocksdb_iter_valid(rows->it))
        rocksdb_iter_next(rows->it);
    rows->has_moved = false;
    if (!rocksdb_iter_valid(rows->it)) {
        keep_read_failure(rows);
        return false;
    }
    key->data = rocksdb_iter_key(rows->it, &key->len);
    value->data = rocksdb_iter_value(rows->it, &value->len);
    return true;
}
