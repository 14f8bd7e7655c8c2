#include "config/users_file.h"

#include "shared/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4 << 20, REASON_MAX = 512 };

/* Reads the whole file; the caller frees the text. NULL: the reason is in error[size]. */
static char *read_users_file(const char *path, size_t *len, char *error, size_t size)
{
    char *text = malloc(FILE_BYTES_MAX);
    CHECK(text);
    FILE *file = fopen(path, "r");
    *len = file ? fread(text, 1, FILE_BYTES_MAX, file) : 0;
    bool good = file && !ferror(file);
    if (!good)
        (void)snprintf(error, size, "%s: %s", path, strerror(errno));
    else if (*len == FILE_BYTES_MAX)
        (void)snprintf(error, size, "%s: is too long", path);
    if (file)
        (void)fclose(file);
    if (good && *len < FILE_BYTES_MAX)
        return text;
    free(text);
    return NULL;
}

struct acl *users_load(const char *path, bool all_channels, char digest[SHA256_HEX_LEN],
                       char *error, size_t size)
{
    char reason[REASON_MAX];
    size_t len;
    char *text = read_users_file(path, &len, error, size);
    if (!text)
        return NULL;
    struct acl *acl = acl_parse((struct bytes){text, len}, all_channels, reason, sizeof reason);
    if (digest)
        sha256_hex((struct bytes){text, len}, digest);
    free(text);
    if (!acl)
        (void)snprintf(error, size, "%s: %s", path, reason);
    return acl;
}

static bool write_and_sync(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t done = write(fd, text, len);
        if (done < 0)
            return false;
        text += done;
        len -= (size_t)done;
    }
    return fsync(fd) == 0;
}

static bool replace_file(const char *path, const char *text, size_t len)
{
    char *fresh;
    CHECK(asprintf(&fresh, "%s.new", path) > 0);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write_and_sync(fd, text, len);
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(fresh, path) == 0;
    free(fresh);
    return good;
}

bool users_save(const char *path, const struct acl *acl, char digest[SHA256_HEX_LEN])
{
    struct out out;
    out_init(&out);
    acl_print(acl, &out);
    struct bytes text = out_take(&out);
    bool good = replace_file(path, text.data, text.len);
    if (digest)
        sha256_hex(text, digest);
    int reason = errno;
    free((char *)text.data);
    errno = reason;
    return good;
}
