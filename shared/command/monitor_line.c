#include "shared/command/monitor_line.h"

#include "shared/command/secret.h"

#include <inttypes.h>

/* Writes a byte quoted as Redis does. */
static void quote_byte(struct out *out, unsigned char byte)
{
    static const char NAMED[] = "\nn\rr\tt\aa\bb\\\\\"\"";
    const char *named = byte ? strchr(NAMED, byte) : NULL;
    for (; named && (named - NAMED) % 2; named = strchr(named + 1, byte))
        continue;
    if (named)
        out_printf(out, "\\%c", named[1]);
    else if (byte >= ' ' && byte <= '~')
        out_write(out, &byte, 1);
    else
        out_printf(out, "\\x%02x", byte);
}

static void quote(struct out *out, struct bytes text)
{
    out_write(out, " \"", 2);
    for (size_t i = 0; i < text.len;) {
        size_t plain = i;
        while (plain < text.len && text.data[plain] >= ' ' && text.data[plain] <= '~' &&
               text.data[plain] != '"' && text.data[plain] != '\\')
            plain++;
        out_write(out, text.data + i, plain - i);
        if (plain < text.len)
            quote_byte(out, (unsigned char)text.data[plain++]);
        i = plain;
    }
    out_write(out, "\"", 1);
}

void monitor_line_write(const struct monitor_line *line, struct out *out)
{
    bool is_unix = strchr(line->peer, '/') != NULL;
    out_printf(out, "+%" PRIu64 ".%06" PRIu64 " [%u %s%s]", line->at_us / 1000000,
               line->at_us % 1000000, line->db, is_unix ? "unix:" : "", line->peer);
    for (uint32_t i = 0; i < line->argc; i++)
        quote(out,
              secret_argument(line->command, line->argv, i) ? BYTES("(redacted)") : line->argv[i]);
    out_write(out, "\r\n", 2);
}
