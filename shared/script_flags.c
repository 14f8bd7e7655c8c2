#include "shared/script_flags.h"

#include <string.h>

bool script_text_only_reads(struct bytes script)
{
    static const char word[] = " flags=";
    const char *end = memchr(script.data, '\n', script.len);
    size_t len = end ? (size_t)(end - script.data) : script.len;
    if (len < 2 || memcmp(script.data, "#!", 2) != 0)
        return false;
    const char *at = memmem(script.data, len, word, sizeof word - 1);
    while (at) {
        at += *at == ' ' ? sizeof word - 1 : 1;
        size_t left = (size_t)(script.data + len - at);
        const char *comma = memchr(at, ',', left);
        struct bytes flag = {at, comma ? (size_t)(comma - at) : left};
        while (flag.len && (flag.data[flag.len - 1] == ' ' || flag.data[flag.len - 1] == '\r'))
            flag.len--;
        if (bytes_equal(flag, BYTES("no-writes")))
            return true;
        at = comma;
    }
    return false;
}
