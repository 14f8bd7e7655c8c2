/*
 * sim_reply.h - is this the reply that the request must get?
 */
#pragma once

#include "tests/sim/sim_client.h"

/* Compares, and tells the history. What is wrong is said by sim_client_fail(). False: the reply is an error, which
 * faults explain. */
bool sim_reply_judge(struct sim_client *client, const struct sim_request *request,
                     struct bytes frame);
