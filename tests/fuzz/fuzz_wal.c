/*
 * fuzz_wal.c - a WAL with a damaged file: the batches read are appended ones, in order and from the first one on;
 * batches that are appended afterwards are read after them.
 *
 *   input:  number of batches | place | 3 bytes for the position place * 8 | rest
 *
 * The rest is cut into this number of batches, and the three bytes replace bytes of a file at the position. With place
 * 255, the whole input is the file.
 */
#include "backend/wal/wal.h"
#include "shared/check.h"
#include "shared/error.h"
#include "shared/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCHES_MAX = 16, HEAD = 5, RAW = 255 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/scree-fuzz-XXXXXX";
static struct bytes appended[BATCHES_MAX + 2]; /* by index; data NULL: any bytes */
static uint64_t count;                         /* batches read */
static bool is_raw;

static bool see(void *owner, uint64_t index, struct bytes batch, char *reason, size_t len)
{
    (void)owner, (void)reason, (void)len;
    CHECK(index == ++count || is_raw);
    count = index;
    if (index < BATCHES_MAX + 2 && appended[index].data)
        CHECK(bytes_equal(appended[index], batch));
    return true;
}

static struct wal *open_wal(void)
{
    char error[512];
    struct wal_options options = {.path = dir, .file_bytes = 200};
    count = 0;
    struct wal *wal = wal_open(&options, see, NULL, error, sizeof error);
    CHECK(wal || strstr(error, "newer"));
    return wal;
}

/* Calls `visit` for each file; removes the files when `visit` is NULL. */
static void each_file(void (*visit)(const char *path, const uint8_t *data), const uint8_t *data)
{
    char path[512];
    DIR *from = opendir(dir);
    CHECK(from);
    for (struct dirent *entry; (entry = readdir(from));) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.' && visit)
            visit(path, data);
        else if (entry->d_name[0] != '.')
            CHECK(unlink(path) == 0);
    }
    (void)closedir(from);
}

static void damage(const char *path, const uint8_t *data)
{
    struct stat found;
    CHECK(stat(path, &found) == 0);
    off_t place = (off_t)data[1] * 8;
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0);
    if (place + 3 <= found.st_size)
        CHECK(pwrite(fd, data + 2, 3, place) == 3);
    CHECK(close(fd) == 0);
}

static void make_raw(const uint8_t *data, size_t size)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%020u.batches", dir, 1);
    int fd = open(path, O_WRONLY | O_CREAT, 0640);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

static void make_log(const uint8_t *data, size_t size)
{
    char error[512];
    uint64_t batches = data[0] % (BATCHES_MAX + 1);
    size_t len = batches ? (size - HEAD) / batches : 0;
    struct wal *wal = open_wal();
    CHECK(wal);
    for (uint64_t i = 1; i <= batches; i++) {
        appended[i] = (struct bytes){(const char *)data + HEAD + (i - 1) * len, len};
        CHECK(wal_append(wal, appended[i], false, error, sizeof error) == OK);
    }
    wal_close(wal);
    each_file(damage, data);
}

static void remove_dir(void)
{
    each_file(NULL, NULL);
    (void)rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_made;
    char error[512];
    if (size < HEAD)
        return 0;
    if (!is_made)
        CHECK(mkdtemp(dir) && atexit(remove_dir) == 0);
    is_made = true;
    log_set_level(LOG_ERROR);
    each_file(NULL, NULL);
    memset(appended, 0, sizeof appended);
    is_raw = data[1] == RAW;
    if (is_raw)
        make_raw(data, size);
    else
        make_log(data, size);
    struct wal *wal = open_wal();
    if (!wal)
        return 0;
    uint64_t last = count;
    CHECK(wal_last(wal) == last);
    if (last <= BATCHES_MAX)
        appended[last + 1] = BYTES("new");
    CHECK(wal_append(wal, BYTES("new"), data[0] & 1, error, sizeof error) == OK);
    wal_close(wal);
    wal = open_wal();
    CHECK(!wal || count == last + 1);
    wal_close(wal);
    return 0;
}
