#include "proxy/traffic.h"

void traffic_sum(struct traffic *to, const struct traffic *from)
{
    to->requests += from->requests;
    to->errors += from->errors;
    to->usec += from->usec;
    for (unsigned i = 0; i < TRAFFIC_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}
