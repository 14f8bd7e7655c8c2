#include "tests/sim/sim_cut.h"

#include "backend/replica/snapshot_message.h"
#include "backend/storage/storage.h"
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_OF_A_CUT = 4 };

static char root[] = "/dev/shm/scree-cuts-XXXXXX";
static bool has_no_room;
static unsigned cuts;

void sim_cuts_begin(void)
{
    CHECK(mkdtemp(root));
}

void sim_cuts_end(void)
{
    CHECK(path_remove(root));
}

void sim_cuts_reset(void)
{
    has_no_room = false;
    cuts = 0;
    CHECK(path_remove(root) && mkdir(root, 0700) == 0);
}

const char *sim_cuts_root(void)
{
    return root;
}

unsigned sim_cuts_count(void)
{
    return cuts;
}

void sim_cuts_set_room(bool has_room)
{
    has_no_room = !has_room;
}

/* ---- files ------------------------------------------------------------------------------------- */

static void write_file(const char *dir, const char *name, const void *data, size_t len)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(data, 1, len, file) == len && fclose(file) == 0);
}

static bool read_name(const char *dir, char name[SIM_CUT_NAME_BYTES + 1])
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/CURRENT", dir);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    CHECK(fread(name, 1, SIM_CUT_NAME_BYTES, file) == SIM_CUT_NAME_BYTES && fclose(file) == 0);
    name[SIM_CUT_NAME_BYTES] = '\0';
    return true;
}

bool sim_cut_name(const char *dir, char name[SIM_CUT_NAME_BYTES + 1])
{
    char command[2 * PATH_MAX];
    (void)snprintf(command, sizeof command, "test `ls %s | wc -l` = %d", dir, FILES_OF_A_CUT);
    CHECK(system(command) == 0);
    return read_name(dir, name);
}

/* Files with other names than CURRENT have the contents of their names. */
static void write_tables(const char *dir)
{
    static char data[2 * SNAPSHOT_PIECE_MAX];
    for (unsigned i = 0; i < FILES_OF_A_CUT - 1; i++) {
        char name[32];
        unsigned number = i < 2 ? i : 100 + cuts;
        (void)snprintf(name, sizeof name, "%06u.sst", number);
        memset(data, (int)number, sizeof data);
        write_file(dir, name, data, (size_t)number * 7919 % sizeof data);
    }
}

/* ---- what is replaced -------------------------------------------------------------------------- */

int __real_storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size);
int __wrap_storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size);
uint64_t __real_wal_committed_at(const char *path);
uint64_t __wrap_wal_committed_at(const char *path);
uint64_t __real_path_free_bytes(const char *path);
uint64_t __wrap_path_free_bytes(const char *path);

void sim_cut_storage(struct storage *storage, const char *name)
{
    char error[200];
    CHECK(__real_storage_checkpoint(storage, name, error, sizeof error) == OK);
}

int __wrap_storage_checkpoint(struct storage *storage, const char *path, char *error, size_t size)
{
    char name[SIM_CUT_NAME_BYTES + 1];
    (void)snprintf(name, sizeof name, "cut.%012u", ++cuts);
    CHECK(mkdir(path, 0700) == 0);
    write_file(path, "CURRENT", name, SIM_CUT_NAME_BYTES);
    write_tables(path);
    return __real_storage_checkpoint(storage, name, error, size);
}

uint64_t __wrap_wal_committed_at(const char *path)
{
    char name[SIM_CUT_NAME_BYTES + 1];
    return __real_wal_committed_at(read_name(path, name) ? name : path);
}

uint64_t __wrap_path_free_bytes(const char *path)
{
    return has_no_room ? 1 : __real_path_free_bytes(path);
}
