#include "config/tls_files.h"

#include "config/ini_file.h"
#include "shared/check.h"

#include <stdlib.h>

/* Resolves relative paths from the directory of the configuration file. */
static void find_paths(const struct config *head, const char *cert, const char *key, const char *ca,
                       char *paths[TLS_FILES_MAX])
{
    const char *const names[TLS_FILES_MAX] = {cert, key, ca};
    for (int i = 0; i < TLS_FILES_MAX; i++)
        paths[i] = *names[i] ? path_beside(head->path, names[i]) : NULL;
}

void proxy_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX])
{
    find_paths(&config->head, config->tls_cert_file, config->tls_key_file, config->tls_ca_cert_file,
               paths);
}

void upstream_tls_paths(const struct proxy_config *config, char *paths[TLS_FILES_MAX])
{
    find_paths(&config->head, config->upstream_tls_cert_file, config->upstream_tls_key_file,
               config->upstream_tls_ca_cert_file, paths);
}

void backend_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX])
{
    find_paths(&config->head, config->tls_cert_file, config->tls_key_file, config->tls_ca_cert_file,
               paths);
}

void peer_tls_paths(const struct backend_config *config, char *paths[TLS_FILES_MAX])
{
    bool has_own = *config->peer_tls_cert_file;
    find_paths(&config->head, has_own ? config->peer_tls_cert_file : config->tls_cert_file,
               has_own ? config->peer_tls_key_file : config->tls_key_file, config->tls_ca_cert_file,
               paths);
}

/* Makes a context; frees the paths. */
static struct tls_context *load(struct tls_options *options, char *paths[TLS_FILES_MAX],
                                char *error, size_t size)
{
    options->cert_file = paths[0] ? paths[0] : "";
    options->key_file = paths[1] ? paths[1] : "";
    options->ca_cert_file = paths[2] ? paths[2] : "";
    struct tls_context *context = tls_context_new(options, error, size);
    for (int i = 0; i < TLS_FILES_MAX; i++)
        free(paths[i]);
    return context;
}

bool proxy_speaks_tls(const struct proxy_config *config)
{
    bool speaks = *config->tls_listen;
    for (size_t i = 0; i < config->listener_count; i++)
        speaks |= config->listeners[i].tls;
    return speaks;
}

/* The TLS options of listeners, which have the same names in the structs of both programs. */
#define SERVER_OPTIONS(config)                                                                     \
    {                                                                                              \
        .section = "", .key_file_pass = (config)->tls_key_file_pass,                               \
        .protocols = (config)->tls_protocols, .ciphers = (config)->tls_ciphers,                    \
        .ciphersuites = (config)->tls_ciphersuites,                                                \
        .clients = (enum tls_clients)(config)->tls_auth_clients,                                   \
        .prefers_own_ciphers = (config)->tls_prefer_server_ciphers,                                \
        .resumes = (config)->tls_session_caching,                                                  \
        .ticket_lifetime_s = (uint32_t)(config)->tls_session_cache_timeout, .server_name = "",     \
    }

struct tls_context *proxy_tls_load(const struct proxy_config *config, char *error, size_t size)
{
    char *paths[TLS_FILES_MAX];
    struct tls_options options = SERVER_OPTIONS(config);
    proxy_tls_paths(config, paths);
    return load(&options, paths, error, size);
}

struct tls_context *upstream_tls_load(const struct proxy_config *config, char *error, size_t size)
{
    char *paths[TLS_FILES_MAX];
    struct tls_options options = {
        .is_client = true,
        .section = "upstream.",
        .key_file_pass = config->upstream_tls_key_file_pass,
        .protocols = config->tls_protocols,
        .ciphers = config->tls_ciphers,
        .ciphersuites = config->tls_ciphersuites,
        .verifies_name = config->upstream_tls_verify_name,
        .server_name = config->upstream_tls_server_name,
        .resumes = config->upstream_tls_session_caching,
    };
    upstream_tls_paths(config, paths);
    return load(&options, paths, error, size);
}

struct tls_context *backend_tls_load(const struct backend_config *config, char *error, size_t size)
{
    char *paths[TLS_FILES_MAX];
    struct tls_options options = SERVER_OPTIONS(config);
    backend_tls_paths(config, paths);
    return load(&options, paths, error, size);
}

struct tls_context *peer_tls_load(const struct backend_config *config, char *error, size_t size)
{
    char *paths[TLS_FILES_MAX];
    struct tls_options options = {
        .is_client = true,
        .section = "peer-",
        .key_file_pass = *config->peer_tls_cert_file ? "" : config->tls_key_file_pass,
        .protocols = config->tls_protocols,
        .ciphers = config->tls_ciphers,
        .ciphersuites = config->tls_ciphersuites,
        .verifies_name = true,
        .server_name = config->peer_tls_server_name,
        .resumes = config->tls_session_caching,
    };
    peer_tls_paths(config, paths);
    return load(&options, paths, error, size);
}
