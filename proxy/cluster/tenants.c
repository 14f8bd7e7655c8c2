#include "proxy/cluster/tenants.h"

#include "proxy/cluster/usage.h"
#include "proxy/core/limits.h"
#include "proxy/core/rate_limiter.h"
#include "proxy/core/shares.h"
#include "shared/clock.h"

void tenants_init(struct proxy_tenants *tenants)
{
    tenants->rate_limiters = rate_limiters_new();
    tenants->limits = limits_new(clock_random() | 1);
    tenants->usages = usages_new();
    tenants->shares = shares_new();
}

void tenants_fini(struct proxy_tenants *tenants)
{
    rate_limiters_free(tenants->rate_limiters);
    limits_free(tenants->limits);
    usages_free(tenants->usages);
    shares_free(tenants->shares);
}
