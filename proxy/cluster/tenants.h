/*
 * tenants.h - what all workers share about namespaces (struct proxy_tenants of proxy.h) is made and freed together.
 */
#pragma once

#include "proxy/core/proxy.h"

void tenants_init(struct proxy_tenants *tenants);
void tenants_fini(struct proxy_tenants *tenants);
