#include "proxy/status/copies.h"

#include "proxy/core/line_fields.h"
#include "proxy/upstream/zones.h"

#include <string.h>

enum { COPY_TEXT_SHOWN = 200 }; /* longest address shown */

/* Removes the next line of a copy or of the partition from the front of *rest: the headers of RESP between them are skipped. */
static bool next_copy_line(const char **rest, struct bytes *line)
{
    static const char start[] = "partition=";
    while (**rest) {
        size_t len = strcspn(*rest, "\r\n");
        *line = (struct bytes){*rest, len};
        *rest += len;
        *rest += strspn(*rest, "\r\n");
        if (len >= strlen(start) && memcmp(line->data, start, strlen(start)) == 0)
            return true;
    }
    return false;
}

/* Null: the copy that serves has not heard from this one yet, or it is the one that serves. */
static void write_silence(struct json_writer *json, struct bytes line)
{
    struct bytes text = field_text(line, "silent_ms");
    if (text.len && text.data[0] != '-')
        json_put_uint(json, "silent_ms", field_number(line, "silent_ms"));
    else
        json_put_null(json, "silent_ms");
}

static void write_copy(struct json_writer *json, struct bytes line, struct zones *zones)
{
    char zone[ZONE_NAME_MAX + 1];
    zones_get(zones, field_text(line, "address"), zone);
    json_put_object(json, NULL);
    json_put_shown(json, "address", field_text(line, "address"), COPY_TEXT_SHOWN);
    json_put_text(json, "zone", zone);
    json_put_shown(json, "kind", field_text(line, "kind"), COPY_TEXT_SHOWN);
    json_put_bool(json, "is_up", field_is(line, "up", "yes"));
    json_put_uint(json, "applied", field_number(line, "applied"));
    write_silence(json, line);
    json_put_shown(json, "state", field_text(line, "state"), COPY_TEXT_SHOWN);
    json_put_shown(json, "rows", field_text(line, "rows"), COPY_TEXT_SHOWN);
    json_put_end(json);
}

void copies_write(struct json_writer *json, const char *reply, struct zones *zones)
{
    struct bytes line;
    if (!reply || !next_copy_line(&reply, &line)) {
        json_put_null(json, "copies");
        return;
    }
    json_put_object(json, "copies");
    json_put_shown(json, "leader", field_text(line, "leader"), COPY_TEXT_SHOWN);
    json_put_uint(json, "term", field_number(line, "term"));
    json_put_uint(json, "committed", field_number(line, "committed"));
    json_put_list(json, "members");
    while (next_copy_line(&reply, &line))
        write_copy(json, line, zones);
    json_put_end(json);
    json_put_end(json);
}
