#include "shared/tracking_reply.h"

void tracking_info_reply(struct reply *reply, const struct tracking_info *info)
{
    const struct {
        bool is_set;
        const char *word;
    } flags[] = {
        {true, info->is_on ? "on" : "off"}, {info->is_bcast, "bcast"},
        {info->is_optin, "optin"},          {info->is_optin && info->is_caching, "caching-yes"},
        {info->is_optout, "optout"},        {info->is_optout && info->is_caching, "caching-no"},
        {info->is_noloop, "noloop"},        {info->is_broken, "broken_redirect"},
    };
    enum { FLAGS = sizeof flags / sizeof flags[0] };
    int64_t set = 0;
    for (size_t i = 0; i < FLAGS; i++)
        set += flags[i].is_set;
    reply_map(reply, 3);
    reply_bulk_text(reply, "flags");
    reply_set(reply, set);
    for (size_t i = 0; i < FLAGS; i++)
        if (flags[i].is_set)
            reply_bulk_text(reply, flags[i].word);
    reply_bulk_text(reply, "redirect");
    reply_int(reply, info->redirect_id);
    reply_bulk_text(reply, "prefixes");
    reply_array(reply, info->prefix_count);
    for (uint32_t i = 0; i < info->prefix_count; i++)
        reply_bulk(reply, info->prefixes[i]);
}
