#include "proxy/upstream/greeting.h"

#include "shared/number.h"
#include "shared/out.h"
#include "shared/resp.h"
#include "shared/version.h"

#include <inttypes.h>

#include <stdio.h>
#include <string.h>

static void write_auth(struct greeting *greeting, struct out *out, const char *secret)
{
    const struct bytes auth[] = {BYTES("SCREE"), BYTES("AUTH"), bytes_of(secret)};
    resp_write_words(out, auth, 3);
    greeting->auths_left++;
}

void greeting_write_auth(struct greeting *greeting, struct out *out, const char *secret,
                         const char *previous)
{
    *greeting = (struct greeting){.auths_left = 0};
    if (*previous)
        write_auth(greeting, out, previous);
    write_auth(greeting, out, secret);
}

void greeting_write(struct greeting *greeting, struct out *out, const char *secret,
                    const char *previous)
{
    const struct bytes self[] = {BYTES("SCREE"), BYTES("SELF")};
    greeting_write_auth(greeting, out, secret, previous);
    resp_write_words(out, self, 2);
}

bool greeting_auth(struct greeting *greeting, struct bytes frame)
{
    greeting->is_admitted |= frame.data[0] != '-';
    greeting->auths_left--;
    return greeting->is_admitted || greeting->auths_left > 0;
}

static void copy_field(char *to, size_t size, struct bytes text)
{
    if (text.len < size)
        (void)snprintf(to, size, "%.*s", (int)text.len, text.data);
}

void greeting_read(struct bytes frame, struct greeting_self *self)
{
    struct resp_value head;
    struct resp_value name;
    struct resp_value value;
    size_t pos = 0;
    *self = (struct greeting_self){.slots = 0};
    if (!resp_value_next(frame, &pos, &head) || head.type != '*')
        return;
    for (int64_t i = 0; i + 1 < head.count; i += 2) {
        int64_t number;
        if (!resp_value_next(frame, &pos, &name) || !resp_value_next(frame, &pos, &value) ||
            name.type != '$' || value.type != '$')
            return;
        if (bytes_is(name.text, "shard"))
            copy_field(self->shard, sizeof self->shard, value.text);
        else if (bytes_is(name.text, "run_id"))
            copy_field(self->run_id, sizeof self->run_id, value.text);
        else if (bytes_is(name.text, "leader"))
            copy_field(self->leader, sizeof self->leader, value.text);
        else if (bytes_is(name.text, "zone") && zone_name_valid(value.text))
            copy_field(self->zone, sizeof self->zone, value.text);
        else if (bytes_is(name.text, "role"))
            self->has_copies = true, self->leads = bytes_is(value.text, "leader");
        else if (!number_parse_int64(value.text, &number) || number < 0)
            continue;
        else if (bytes_is(name.text, "slots"))
            self->slots = (uint64_t)number;
        else if (bytes_is(name.text, "orphaned"))
            self->orphaned = (uint64_t)number;
        else if (bytes_is(name.text, "client"))
            self->client = (uint64_t)number;
        else if (bytes_is(name.text, "generation"))
            self->generation = (uint64_t)number;
        else if (bytes_is(name.text, "term"))
            self->term = (uint64_t)number;
        else if (bytes_is(name.text, "protocol"))
            self->protocol = (uint64_t)number;
        else if (bytes_is(name.text, "protocol_oldest"))
            self->oldest = (uint64_t)number;
    }
}

bool greeting_check(const struct greeting_self *self, const char *shard, char *reason, size_t size)
{
    if (self->protocol < PROXY_PROTOCOL || self->oldest > PROXY_PROTOCOL) {
        (void)snprintf(reason, size,
                       "another version of Scree: it serves protocols %" PRIu64 " to %" PRIu64
                       " of proxies, and this proxy has %d",
                       self->oldest, self->protocol, PROXY_PROTOCOL);
        return false;
    }
    if (!*self->shard || strcmp(self->shard, shard) == 0)
        return true;
    (void)snprintf(reason, size, "another shard is at its address: '%s'", self->shard);
    return false;
}

bool greeting_serves(const struct greeting_self *self, char *reason, size_t size)
{
    if (!self->has_copies || self->leads)
        return true;
    if (*self->leader)
        (void)snprintf(reason, size, "this copy does not lead, the one at %.80s does or will soon",
                       self->leader);
    else
        (void)snprintf(reason, size,
                       "this copy does not lead, and has heard of no other that does");
    return false;
}

bool greeting_follows(const struct greeting_self *self, char *reason, size_t size)
{
    if (self->has_copies && !self->leads)
        return true;
    (void)snprintf(reason, size, "the copy at this address does not follow another one");
    return false;
}
