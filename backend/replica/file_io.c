#include "backend/replica/file_io.h"

#include <errno.h>
#include <unistd.h>

bool file_write_at(int fd, struct bytes data, uint64_t at)
{
    for (size_t done = 0; done < data.len;) {
        ssize_t put = pwrite(fd, data.data + done, data.len - done, (off_t)(at + done));
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0)
            done += (size_t)put;
    }
    return true;
}

bool file_read_at(int fd, char *to, size_t *len, uint64_t at)
{
    size_t wanted = *len;
    for (*len = 0; *len < wanted;) {
        ssize_t got = pread(fd, to + *len, wanted - *len, (off_t)(at + *len));
        if (got < 0 && errno != EINTR)
            return false;
        if (got == 0)
            return true;
        if (got > 0)
            *len += (size_t)got;
    }
    return true;
}
