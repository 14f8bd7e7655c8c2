/*
 * tls_files.h - the TLS options of both programs as contexts, and which files they were made from.
 */
#pragma once

#include "config/config.h"
#include "shared/tls.h"

enum { TLS_FILES_MAX = 3 }; /* certificate, key, authorities */

/* Does an address of the file ask for TLS? */
bool proxy_speaks_tls(const struct proxy_config *config);
/* For the addresses that speak TLS, and for backends. NULL: one line in error[size]. */
struct tls_context *proxy_tls_load(const struct proxy_config *config, char *error, size_t size);
struct tls_context *upstream_tls_load(const struct proxy_config *config, char *error, size_t size);
struct tls_context *backend_tls_load(const struct backend_config *config, char *error, size_t size);

/* For connections to other backends. */
struct tls_context *peer_tls_load(const struct backend_config *config, char *error, size_t size);

/* The paths, for free(); NULL where there is none. */
void proxy_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX]);
void upstream_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX]);
void backend_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX]);
void peer_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX]);
