/*
 * sim_reply.h - checks whether a reply fits its request.
 */
#pragma once

#include "tests/sim/sim_client.h"

/* Checks the reply and adds its results to the history. Mistakes are reported to sim_client_fail(). False: the reply
 * is an error, which a fault may have caused. */
bool sim_reply_judge(struct sim_client *client, const struct sim_request *request,
                     struct bytes frame);
