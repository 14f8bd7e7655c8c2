#include "shared/hello.h"

#include "shared/number.h"
#include "shared/version.h"

enum error hello_version(const struct bytes *argv, uint32_t argc, uint8_t *resp)
{
    int64_t version;
    if (argc < 2)
        return OK;
    if (!number_parse_int64(argv[1], &version))
        return ERR_PROTOCOL_VERSION;
    if (version < 2 || version > 3)
        return ERR_NOPROTO;
    *resp = (uint8_t)version;
    return OK;
}

void hello_reply(struct reply *reply, uint8_t resp, uint64_t id, const char *mode)
{
    reply_map(reply, 7);
    reply_bulk_text(reply, "server");
    reply_bulk_text(reply, "redis");
    reply_bulk_text(reply, "version");
    reply_bulk_text(reply, version_text());
    reply_bulk_text(reply, "proto");
    reply_int(reply, resp);
    reply_bulk_text(reply, "id");
    reply_int(reply, (int64_t)id);
    reply_bulk_text(reply, "mode");
    reply_bulk_text(reply, mode);
    reply_bulk_text(reply, "role");
    reply_bulk_text(reply, "master");
    reply_bulk_text(reply, "modules");
    reply_array(reply, 0);
}

bool client_text_is_fine(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '!' || text.data[i] > '~')
            return false;
    return true;
}
