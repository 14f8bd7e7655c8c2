/*
 * tls_files.h - makes TLS contexts from the options of both programs, and lists the files that they need.
 */
#pragma once

#include "config/config.h"
#include "shared/tls.h"

enum { TLS_FILES_MAX = 3 }; /* certificate, key, authorities */

/* True when a listener of the configuration uses TLS. */
bool proxy_speaks_tls(const struct proxy_config *config);
/* Contexts for listeners, and (upstream) for the proxy's connections to backends. NULL: one line in error[size]. */
struct tls_context *proxy_tls_load(const struct proxy_config *config, char *error, size_t size);
struct tls_context *upstream_tls_load(const struct proxy_config *config, char *error, size_t size);
struct tls_context *backend_tls_load(const struct backend_config *config, char *error, size_t size);

/* The context of a backend's connections to other backends. NULL: one line in error[size]. */
struct tls_context *peer_tls_load(const struct backend_config *config, char *error, size_t size);

/* The paths of certificate, key and authorities; the caller frees them. NULL: there is no such file. */
void proxy_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX]);
void upstream_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX]);
void backend_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX]);
void peer_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX]);
