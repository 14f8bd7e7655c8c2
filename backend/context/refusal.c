#include "backend/context/refusal.h"

#include "shared/check.h"

#include <string.h>

struct refusal refusal_busy(const char *busy_error)
{
    const char word[] = "BUSY ";
    CHECK(strncmp(busy_error, word, strlen(word)) == 0);
    return REFUSAL(BUSY, busy_error + strlen(word));
}

size_t refusal_write(struct refusal refusal, char to[REFUSAL_BYTES_MAX])
{
    size_t len = strnlen(refusal.text, REFUSAL_BYTES_MAX - 1);
    CHECK(refusal.code > NOT_REFUSED && refusal.code < REFUSED_END);
    to[0] = (char)refusal.code;
    memcpy(to + 1, refusal.text, len);
    return 1 + len;
}

enum refusal_code refusal_read(struct bytes *payload)
{
    if (!payload->len)
        return REFUSED_OTHER;
    uint8_t code = (uint8_t)payload->data[0];
    payload->data++;
    payload->len--;
    return code > NOT_REFUSED && code < REFUSED_END ? (enum refusal_code)code : REFUSED_OTHER;
}

struct bytes refusal_shown(enum refusal_code code, struct bytes sentence)
{
    return code == REFUSED_BUSY ? BYTES("a slow script is running there") : sentence;
}
