#include "shared/bounce.h"

#include "shared/namespace.h"
#include "shared/number.h"
#include "shared/resp.h"
#include "shared/shard_map.h"

#include <inttypes.h>
#include <string.h>

#define WORD "BOUNCE 1"

enum { HEAD_MAX = 256, DATABASE_MAX = 255 };

void bounce_write(struct out *out, const struct bounce *bounce, struct out *requests)
{
    char head[HEAD_MAX];
    int len = snprintf(head, sizeof head, WORD " %u %u %u %" PRIu64 " %u %u %zu %zu %zu",
                       bounce->slot, bounce->first, bounce->last, bounce->epoch, bounce->db,
                       bounce->count, bounce->shard.len, bounce->address.len, bounce->space.len);
    if (bounce->why)
        len += snprintf(head + len, sizeof head - (size_t)len, " %u", bounce->why);
    head[len++] = '\n';
    size_t bytes =
        (size_t)len + bounce->shard.len + bounce->address.len + bounce->space.len + requests->bytes;
    out_printf(out, "!%zu\r\n", bytes);
    out_write(out, head, (size_t)len);
    out_write(out, bounce->shard.data, bounce->shard.len);
    out_write(out, bounce->address.data, bounce->address.len);
    out_write(out, bounce->space.data, bounce->space.len);
    out_move(out, requests);
    out_write(out, "\r\n", 2);
}

/* Takes `len` bytes from the front of *rest. False: it has fewer. */
static bool take_bytes(struct bytes *rest, size_t len, struct bytes *text)
{
    if (len > rest->len)
        return false;
    *text = (struct bytes){rest->data, len};
    *rest = (struct bytes){rest->data + len, rest->len - len};
    return true;
}

/* Takes the next number, of 0 .. max, of a line of numbers, each after a space. */
static bool take_number(struct bytes *line, uint64_t max, uint64_t *number)
{
    int64_t value;
    if (!line->len || *line->data != ' ')
        return false;
    const char *digits = line->data + 1;
    const char *end = memchr(digits, ' ', line->len - 1);
    size_t len = end ? (size_t)(end - digits) : line->len - 1;
    if (!number_parse_int64((struct bytes){digits, len}, &value) || value < 0 ||
        (uint64_t)value > max)
        return false;
    *line = (struct bytes){digits + len, line->len - 1 - len};
    *number = (uint64_t)value;
    return true;
}

/* Takes the line of numbers, and the three texts after it. */
static bool take_head(struct bytes *rest, struct bounce *bounce)
{
    static const uint64_t most[] = {SLOT_COUNT - 1, SLOT_COUNT - 1,     SLOT_COUNT - 1,
                                    INT64_MAX,      DATABASE_MAX,       BOUNCE_REQUESTS_MAX,
                                    SHARD_NAME_MAX, BOUNCE_ADDRESS_MAX, NAMESPACE_NAME_MAX};
    enum { NUMBERS = sizeof most / sizeof most[0] };
    uint64_t numbers[NUMBERS];
    struct bytes line;
    const char *end = rest->len ? memchr(rest->data, '\n', rest->len) : NULL;
    if (!end || !take_bytes(rest, (size_t)(end - rest->data), &line) || line.len < strlen(WORD) ||
        memcmp(line.data, WORD, strlen(WORD)) != 0)
        return false;
    line = (struct bytes){line.data + strlen(WORD), line.len - strlen(WORD)};
    for (int i = 0; i < NUMBERS; i++)
        if (!take_number(&line, most[i], &numbers[i]))
            return false;
    uint64_t why = BOUNCE_OWNER;
    if (line.len && !take_number(&line, BOUNCE_BEHIND, &why))
        return false;
    *bounce = (struct bounce){.slot = (uint16_t)numbers[0],
                              .first = (uint16_t)numbers[1],
                              .last = (uint16_t)numbers[2],
                              .why = (uint8_t)why,
                              .epoch = numbers[3],
                              .db = (uint8_t)numbers[4],
                              .count = (uint32_t)numbers[5]};
    return line.len == 0 && take_bytes(rest, 1, &line) &&
           take_bytes(rest, numbers[6], &bounce->shard) &&
           take_bytes(rest, numbers[7], &bounce->address) &&
           take_bytes(rest, numbers[8], &bounce->space);
}

/* Only visible ASCII characters? */
static bool is_visible(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '!' || text.data[i] > '~')
            return false;
    return true;
}

static bool is_head_valid(const struct bounce *bounce)
{
    return bounce->first <= bounce->slot && bounce->slot <= bounce->last && bounce->epoch > 0 &&
           bounce->count > 0 && shard_name_valid(bounce->shard) && is_visible(bounce->address) &&
           (!bounce->space.len || namespace_name_valid(bounce->space));
}

/* Finds the last request. False: there are not exactly `count` complete ones. */
static bool find_command(struct bounce *bounce)
{
    static const struct resp_limits limits = {
        .bulk_bytes_max = UINT32_MAX, .args_max = INT32_MAX, .inline_bytes_max = 1024};
    struct bytes rest = bounce->requests;
    struct resp_scan scan;
    bool is_good = true;
    resp_scan_init(&scan);
    for (uint32_t i = 0; is_good && i < bounce->count; i++) {
        is_good = rest.len && *rest.data == '*' &&
                  resp_scan(&scan, &limits, rest.data, rest.len) == RESP_FRAME && scan.argc > 0 &&
                  take_bytes(&rest, scan.size, &bounce->command);
        bounce->argc = scan.argc;
    }
    resp_scan_fini(&scan);
    return is_good && rest.len == 0;
}

bool bounce_read(struct bytes frame, struct bounce *bounce)
{
    struct resp_value value;
    size_t pos = 0;
    if (!bounce_is(frame.data, frame.len) || !resp_value_next(frame, &pos, &value) ||
        value.type != '!' || value.is_null || !take_head(&value.text, bounce))
        return false;
    bounce->requests = value.text;
    return is_head_valid(bounce) && find_command(bounce);
}
