/*
 * tracking_reply.h - replies of CLIENT TRACKINGINFO and CLIENT CACHING, shared by both programs.
 */
#pragma once

#include "shared/reply.h"

#define CACHING_OFF_ERROR                                                                          \
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "     \
    "OPTOUT mode enabled"
#define CACHING_YES_ERROR                                                                          \
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
#define CACHING_NO_ERROR                                                                           \
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."

struct tracking_info {
    bool is_on;
    bool is_bcast;
    bool is_optin;
    bool is_optout;
    bool is_noloop;
    bool is_caching; /* CLIENT CACHING was called for the next command */
    bool is_broken;
    int64_t redirect_id;          /* 0: no redirection; -1: tracking is off */
    const struct bytes *prefixes; /* sorted */
    uint32_t prefix_count;
};

/* The reply of CLIENT TRACKINGINFO. */
void tracking_info_reply(struct reply *reply, const struct tracking_info *info);
