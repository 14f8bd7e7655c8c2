#include "backend/backup/manifest.h"

#include "backend/backup/disk_file.h"
#include "backend/format/json/json_doc.h"
#include "shared/check.h"
#include "shared/digest.h"
#include "shared/path.h"
#include "shared/version.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char json_name[] = "MANIFEST.json";
static const char digest_name[] = "MANIFEST.sha256";
static const char mark_name[] = "UNFINISHED";
enum { MARK_LINE_MAX = 32 };

enum { DIGEST_LINE_MAX = 128 };

/* ---- in memory ---- */

struct manifest *manifest_new(void)
{
    struct manifest *manifest = calloc(1, sizeof *manifest);
    CHECK(manifest);
    manifest_set(&manifest->backup, "");
    manifest_set(&manifest->id, "");
    manifest_set(&manifest->shard, "");
    manifest_set(&manifest->map, "");
    manifest_set(&manifest->slots, "");
    return manifest;
}

void manifest_free(struct manifest *manifest)
{
    if (!manifest)
        return;
    for (size_t i = 0; i < manifest->count; i++)
        free(manifest->files[i].name);
    free(manifest->files);
    free(manifest->backup);
    free(manifest->id);
    free(manifest->shard);
    free(manifest->map);
    free(manifest->slots);
    free(manifest);
}

void manifest_set(char **text, const char *value)
{
    char *copy = strdup(value);
    CHECK(copy);
    free(*text);
    *text = copy;
}

struct backup_file *manifest_add(struct manifest *manifest, const char *name)
{
    if ((manifest->count & (manifest->count - 1)) == 0) { /* full: grows at powers of two */
        size_t room = manifest->count ? manifest->count * 2 : 1;
        manifest->files = realloc(manifest->files, room * sizeof manifest->files[0]);
        CHECK(manifest->files);
    }
    struct backup_file *file = &manifest->files[manifest->count++];
    *file = (struct backup_file){0};
    manifest_set(&file->name, name);
    return file;
}

const struct backup_file *manifest_find(const struct manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    return NULL;
}

uint64_t manifest_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->count; i++)
        bytes += manifest->files[i].size;
    return bytes;
}

bool manifest_is_own(const char *name)
{
    return strcmp(name, json_name) == 0 || strcmp(name, digest_name) == 0 ||
           strcmp(name, mark_name) == 0;
}

/* ---- as text ---- */

static json_t *to_json(const struct manifest *manifest)
{
    json_t *files = json_array();
    for (size_t i = 0; i < manifest->count; i++) {
        const struct backup_file *file = &manifest->files[i];
        json_t *item =
            json_pack("{s:s, s:I, s:I, s:s}", "name", file->name, "size", (json_int_t)file->size,
                      "mtime_ns", (json_int_t)file->mtime_ns, "sha256", file->sha256);
        CHECK(json_array_append_new(files, item) == 0);
    }
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:o}", "format",
                  *manifest->slots ? BACKUP_FORMAT : 1, "program", SCREE_VERSION, "backup",
                  manifest->backup, "id", manifest->id, "shard", manifest->shard, "partition",
                  (json_int_t)manifest->partition, "data_format", (json_int_t)manifest->data_format,
                  "taken_ms", (json_int_t)manifest->taken_ms, "batch_index",
                  (json_int_t)manifest->batch_index, "map", manifest->map, "files", files);
    CHECK(root);
    char log_id[17];
    (void)snprintf(log_id, sizeof log_id, "%016llx", (unsigned long long)manifest->log_id);
    CHECK(json_object_set_new(root, "log_id", json_string(log_id)) == 0);
    CHECK(json_object_set_new(root, "hybrid_us", json_integer((json_int_t)manifest->hybrid_us)) ==
          0);
    char copy[17];
    (void)snprintf(copy, sizeof copy, "%016llx", (unsigned long long)manifest->copy);
    if (manifest->copy)
        CHECK(json_object_set_new(root, "copy", json_string(copy)) == 0);
    if (*manifest->slots)
        CHECK(json_object_set_new(root, "slots", json_string(manifest->slots)) == 0);
    return root;
}

static bool write_two(const char *dir, const char *text, char *error, size_t size)
{
    char path[PATH_MAX];
    char line[DIGEST_LINE_MAX];
    char digest[SHA256_HEX_LEN];
    sha256_hex((struct bytes){text, strlen(text)}, digest);
    int len = snprintf(line, sizeof line, "%.*s  %s\n", SHA256_HEX_LEN, digest, json_name);
    return disk_path(path, dir, json_name, error, size) &&
           disk_write(path, (struct bytes){text, strlen(text)}, error, size) &&
           disk_path(path, dir, digest_name, error, size) &&
           disk_write(path, (struct bytes){line, (size_t)len}, error, size);
}

bool manifest_begin(const char *dir, uint64_t copy, char *error, size_t size)
{
    char path[PATH_MAX];
    char line[MARK_LINE_MAX];
    int len = snprintf(line, sizeof line, "copy %016llx\n", (unsigned long long)copy);
    if (!disk_path(path, dir, mark_name, error, size) ||
        !disk_write(path, (struct bytes){line, copy ? (size_t)len : 0}, error, size))
        return false;
    return path_sync(dir) || disk_failed(dir, error, size);
}

/* The mark of a backup that is being deleted has other text. */
bool manifest_is_of_other(const char *dir, uint64_t copy)
{
    char path[PATH_MAX];
    char line[MARK_LINE_MAX];
    char reason[64];
    struct bytes text;
    if (!copy || !disk_path(path, dir, mark_name, reason, sizeof reason) ||
        !disk_read(path, sizeof line - 1, &text, reason, sizeof reason))
        return false;
    (void)snprintf(line, sizeof line, "%.*s", (int)text.len, text.len ? text.data : "");
    free((char *)text.data);
    uint64_t marked = strncmp(line, "copy ", 5) == 0 ? strtoull(line + 5, NULL, 16) : 0;
    return marked && marked != copy;
}

static bool has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    char reason[64];
    return disk_path(path, dir, name, reason, sizeof reason) && path_exists(path);
}

bool manifest_is_begun(const char *dir)
{
    return has(dir, mark_name);
}

static bool remove_mark(const char *dir, char *error, size_t size)
{
    char path[PATH_MAX];
    if (!disk_path(path, dir, mark_name, error, size))
        return false;
    return unlink(path) == 0 || errno == ENOENT || disk_failed(path, error, size);
}

bool manifest_write(const struct manifest *manifest, const char *dir, char *error, size_t size)
{
    struct arena arena; /* memory of jansson, which frees nothing here */
    arena_init(&arena);
    json_use(&arena);
    json_t *root = to_json(manifest);
    char *text = json_dumps(root, JSON_INDENT(1));
    CHECK(text);
    bool good = path_sync(dir); /* makes the names of the files durable */
    if (!good)
        (void)snprintf(error, size, "%s: %s", dir, strerror(errno));
    good = good && write_two(dir, text, error, size);
    if (good && !path_sync(dir)) {
        (void)snprintf(error, size, "%s: %s", dir, strerror(errno));
        good = false;
    }
    json_use(NULL);
    arena_fini(&arena);
    return good && remove_mark(dir, error, size);
}

static bool parse_files(struct manifest *manifest, json_t *files)
{
    size_t i;
    json_t *item;
    if (json_array_size(files) > BACKUP_FILES_MAX)
        return false;
    json_array_foreach(files, i, item)
    {
        const char *name;
        const char *sha256;
        json_int_t size;
        json_int_t mtime_ns;
        if (json_unpack(item, "{s:s, s:I, s:I, s:s}", "name", &name, "size", &size, "mtime_ns",
                        &mtime_ns, "sha256", &sha256) != 0 ||
            !backup_name_valid(bytes_of(name)) || manifest_is_own(name) || size < 0 ||
            strlen(sha256) != SHA256_HEX_LEN)
            return false;
        struct backup_file *file = manifest_add(manifest, name);
        file->size = (uint64_t)size;
        file->mtime_ns = (uint64_t)mtime_ns;
        memcpy(file->sha256, sha256, SHA256_HEX_LEN);
    }
    return true;
}

static bool from_json(struct manifest *manifest, json_t *root)
{
    const char *backup;
    const char *id;
    const char *shard;
    const char *map;
    const char *slots = "";
    const char *log_id = "";
    const char *copy = "";
    json_int_t hybrid_us = 0;
    json_int_t partition;
    json_int_t data_format;
    json_int_t taken_ms;
    json_int_t batch_index;
    json_t *files;
    if (json_unpack(root, "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s?s, s?s, s?I, s?s}",
                    "backup", &backup, "id", &id, "shard", &shard, "map", &map, "partition",
                    &partition, "data_format", &data_format, "taken_ms", &taken_ms, "batch_index",
                    &batch_index, "files", &files, "slots", &slots, "log_id", &log_id, "hybrid_us",
                    &hybrid_us, "copy", &copy) != 0 ||
        !json_is_array(files))
        return false;
    manifest_set(&manifest->backup, backup);
    manifest_set(&manifest->id, id);
    manifest_set(&manifest->shard, shard);
    manifest_set(&manifest->map, map);
    manifest_set(&manifest->slots, slots);
    manifest->partition = (uint64_t)partition;
    manifest->data_format = (uint64_t)data_format;
    manifest->taken_ms = (uint64_t)taken_ms;
    manifest->batch_index = (uint64_t)batch_index;
    manifest->log_id = strtoull(log_id, NULL, 16);
    manifest->hybrid_us = (uint64_t)hybrid_us;
    manifest->copy = strtoull(copy, NULL, 16);
    return backup_name_valid(bytes_of(backup)) && backup_name_valid(bytes_of(shard)) &&
           strlen(slots) <= BACKUP_SLOTS_MAX && parse_files(manifest, files);
}

/* Is MANIFEST.sha256 the digest of `text`? */
static bool digest_fits(const char *dir, struct bytes text)
{
    char path[PATH_MAX];
    char line[DIGEST_LINE_MAX];
    char digest[SHA256_HEX_LEN];
    char reason[64];
    struct bytes stored;
    if (!disk_path(path, dir, digest_name, reason, sizeof reason) ||
        !disk_read(path, DIGEST_LINE_MAX, &stored, reason, sizeof reason))
        return false;
    sha256_hex(text, digest);
    int len = snprintf(line, sizeof line, "%.*s  %s\n", SHA256_HEX_LEN, digest, json_name);
    bool fits = bytes_equal(stored, (struct bytes){line, (size_t)len});
    free((char *)stored.data);
    return fits;
}

bool manifest_is_sealed(const char *dir)
{
    char path[PATH_MAX];
    char reason[64];
    struct bytes text;
    if (!disk_path(path, dir, json_name, reason, sizeof reason) ||
        !disk_read(path, BACKUP_MANIFEST_MAX, &text, reason, sizeof reason))
        return false;
    bool is_sealed = digest_fits(dir, text);
    free((char *)text.data);
    return is_sealed;
}

static struct manifest *parse(const char *dir, struct bytes text, char *error, size_t size)
{
    json_error_t where;
    struct arena arena;
    arena_init(&arena);
    json_use(&arena);
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    struct manifest *manifest = manifest_new();
    int format = 0;
    bool good = root && json_unpack(root, "{s:i}", "format", &format) == 0;
    if (good && format > BACKUP_FORMAT) {
        (void)snprintf(error, size, "%s: backup format %d is newer than this program's %d", dir,
                       format, BACKUP_FORMAT);
        good = false;
    } else if (!good || !from_json(manifest, root)) {
        (void)snprintf(error, size, "%s: the manifest does not have the expected fields", dir);
        good = false;
    }
    json_use(NULL);
    arena_fini(&arena);
    if (good)
        return manifest;
    manifest_free(manifest);
    return NULL;
}

struct manifest *manifest_read(const char *dir, char *error, size_t size)
{
    char path[PATH_MAX];
    struct bytes text;
    struct manifest *manifest = NULL;
    if (!disk_path(path, dir, json_name, error, size) ||
        !disk_read(path, BACKUP_MANIFEST_MAX, &text, error, size))
        return NULL;
    if (digest_fits(dir, text))
        manifest = parse(dir, text, error, size);
    else
        (void)snprintf(error, size, "%s: the manifest is incomplete or damaged", dir);
    free((char *)text.data);
    return manifest;
}

/* Renames a file to the mark; *is_any is set if the file existed. */
static bool turn_into_mark(const char *dir, const char *name, bool *is_any)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    char reason[64];
    if (!disk_path(from, dir, name, reason, sizeof reason) ||
        !disk_path(to, dir, mark_name, reason, sizeof reason))
        return false;
    bool is_done = rename(from, to) == 0;
    *is_any |= is_done;
    return is_done || errno == ENOENT;
}

bool manifest_remove(const char *dir)
{
    bool is_any = manifest_is_begun(dir);
    if (!turn_into_mark(dir, digest_name, &is_any) || !turn_into_mark(dir, json_name, &is_any))
        return false;
    if (!is_any) {
        errno = ENOENT;
        return false;
    }
    return path_sync(dir);
}
