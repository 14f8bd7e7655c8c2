#include "tests/sim/replica_file_mem.h"

#include "shared/check.h"
#include "tests/sim/sim_break.h"

#include <stdlib.h>
#include <string.h>

struct replica_file {
    struct replica_file *next;
    char *dir;
    struct replica_record record;
    bool is_open;
};

static struct replica_file *files;

static struct replica_file *file_at(const char *dir)
{
    struct replica_file *file = files;
    while (file && strcmp(file->dir, dir) != 0)
        file = file->next;
    return file;
}

void replica_file_mem_reset(void)
{
    while (files) {
        struct replica_file *file = files;
        CHECK(!file->is_open);
        files = file->next;
        free(file->dir);
        free(file);
    }
}

const struct replica_record *replica_file_mem_record(const char *dir)
{
    const struct replica_file *file = file_at(dir);
    return file ? &file->record : NULL;
}

enum replica_found replica_file_open(const char *dir, struct replica_file **file,
                                     struct replica_record *record, char *error, size_t size)
{
    (void)error, (void)size;
    *file = file_at(dir);
    if (!*file)
        return REPLICA_NONE;
    CHECK(!(*file)->is_open);
    (*file)->is_open = true;
    *record = (*file)->record;
    return REPLICA_IS_OPEN;
}

struct replica_file *replica_file_make(const char *dir, const struct replica_record *record,
                                       char *error, size_t size)
{
    struct replica_file *file = file_at(dir);
    (void)error, (void)size;
    if (!file) {
        file = calloc(1, sizeof *file);
        CHECK(file);
        file->dir = strdup(dir);
        CHECK(file->dir);
        file->next = files;
        files = file;
    }
    CHECK(!file->is_open);
    file->is_open = true;
    file->record = *record;
    return file;
}

bool replica_file_save(struct replica_file *file, const struct replica_record *record, char *error,
                       size_t size)
{
    (void)error, (void)size;
    if (sim_broken != BREAK_VOTE_UNSAVED)
        file->record = *record;
    return true;
}

void replica_file_close(struct replica_file *file)
{
    if (file)
        file->is_open = false;
}
