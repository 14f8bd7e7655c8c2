#include "shared/tls.h"

#include "shared/check.h"
#include "shared/clock.h"

#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both ends are in this process; the openssl program makes the certificates. */

static char folder[] = "/tmp/scree-tls-XXXXXX";
static char error[512];
static struct tls_context *server_context;
static struct tls_context *client_context;

/* ---- helpers ---- */

static size_t held_bytes;

static void *counted_malloc(size_t size, const char *source, int line)
{
    (void)source;
    (void)line;
    void *memory = malloc(size);
    held_bytes += memory ? malloc_usable_size(memory) : 0;
    return memory;
}

static void *counted_realloc(void *memory, size_t size, const char *source, int line)
{
    (void)source;
    (void)line;
    held_bytes -= memory ? malloc_usable_size(memory) : 0;
    void *moved = realloc(memory, size);
    held_bytes += moved ? malloc_usable_size(moved) : 0;
    return moved;
}

static void counted_free(void *memory, const char *source, int line)
{
    (void)source;
    (void)line;
    held_bytes -= memory ? malloc_usable_size(memory) : 0;
    free(memory);
}

static const char *file(const char *name)
{
    static char paths[8][64];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void make_certificate(const char *name)
{
    char command[512];
    (void)snprintf(command, sizeof command,
                   "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
                   "-subj /CN=%s -addext subjectAltName=DNS:%s,IP:127.0.0.1 -keyout %s/%s.key "
                   "-out %s/%s.crt 2>/dev/null",
                   name, name, folder, name, folder, name);
    CHECK(system(command) == 0);
}

static struct tls_options options_of(bool is_client, const char *own, const char *trusted)
{
    static char names[8][16];
    static unsigned next;
    char *cert = names[next++ % 8];
    char *key = names[next++ % 8];
    (void)snprintf(cert, sizeof names[0], "%s.crt", own);
    (void)snprintf(key, sizeof names[0], "%s.key", own);
    return (struct tls_options){
        .is_client = is_client,
        .section = "",
        .cert_file = *own ? file(cert) : "",
        .key_file = *own ? file(key) : "",
        .key_file_pass = "",
        .ca_cert_file = file(trusted),
        .protocols = "",
        .ciphers = "",
        .ciphersuites = "",
        .clients = TLS_CLIENTS_OPTIONAL,
        .resumes = true,
        .ticket_lifetime_s = 300,
        .verifies_name = true,
        .server_name = "",
    };
}

/* Moves the pending bytes of `from` to `to`, at most `piece` bytes at a time, and calls `step` of `to` after each. */
static enum tls_result carry(struct tls *from, struct tls *to, size_t piece,
                             enum tls_result (*step)(struct tls *tls))
{
    enum tls_result result = TLS_MORE;
    while (tls_pending(from) > 0 && result == TLS_MORE) {
        struct iovec iov;
        CHECK(out_iov(tls_out(from), &iov, 1) == 1);
        size_t len = iov.iov_len < piece ? iov.iov_len : piece;
        tls_feed(to, iov.iov_base, len);
        result = step(to);
        tls_keep(to);
        out_consume(tls_out(from), len);
    }
    return result;
}

/* Both ends of a handshake, with its result at each. */
struct ends {
    struct tls *server;
    struct tls *client;
    enum tls_result at_server;
    enum tls_result at_client;
};

static struct ends meet(struct tls_context *server, struct tls_context *client, const char *host,
                        size_t piece)
{
    struct ends ends = {tls_new(server, "", ""), tls_new(client, host, host), TLS_MORE, TLS_MORE};
    ends.at_client = tls_handshake(ends.client);
    for (int i = 0; i < 8 && (ends.at_server == TLS_MORE || ends.at_client == TLS_MORE); i++) {
        if (ends.at_server == TLS_MORE)
            ends.at_server = carry(ends.client, ends.server, piece, tls_handshake);
        if (ends.at_client == TLS_MORE)
            ends.at_client = carry(ends.server, ends.client, piece, tls_handshake);
    }
    return ends;
}

static void part(struct ends *ends)
{
    tls_free(ends->server);
    tls_free(ends->client);
}

/* ---- tests ---- */

static void test_bytes_go_both_ways_in_pieces_of_any_size(void)
{
    static const size_t pieces[] = {1, 3, 100, 1000000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct ends ends = meet(server_context, client_context, "127.0.0.1", pieces[i]);
        CHECK(ends.at_server == TLS_DONE);
        CHECK(ends.at_client == TLS_DONE);
        CHECK(tls_is_verified(ends.server));
        struct out out;
        char text[64];
        size_t got = 0;
        out_init(&out);
        out_printf(&out, "hello");
        CHECK(tls_write(ends.client, &out, 1000));
        CHECK(out.bytes == 0);
        char sealed[4096];
        size_t len = tls_pending(ends.client);
        out_copy(tls_out(ends.client), sealed);
        for (size_t at = 0; at < len && !got; at += pieces[i]) {
            tls_feed(ends.server, sealed + at, len - at < pieces[i] ? len - at : pieces[i]);
            enum tls_result result = tls_read(ends.server, text, sizeof text, &got);
            CHECK(result == TLS_DONE || result == TLS_MORE);
            tls_keep(ends.server);
        }
        CHECK(got == 5 && memcmp(text, "hello", 5) == 0);
        part(&ends);
    }
}

/* After the handshake the client reads only the session ticket. */
static void take_ticket(struct ends *ends)
{
    char byte;
    size_t got;
    char sealed[4096];
    size_t len = tls_pending(ends->server);
    CHECK(len < sizeof sealed);
    out_copy(tls_out(ends->server), sealed);
    out_consume(tls_out(ends->server), len);
    tls_feed(ends->client, sealed, len);
    CHECK(tls_read(ends->client, &byte, 1, &got) == TLS_MORE);
}

static bool is_resumed(struct tls_context *server, struct tls_context *client, const char *host)
{
    struct ends ends = meet(server, client, host, 100000);
    CHECK(ends.at_server == TLS_DONE);
    CHECK(ends.at_client == TLS_DONE);
    CHECK(tls_is_resumed(ends.server) == tls_is_resumed(ends.client));
    CHECK(tls_is_verified(ends.server));
    bool resumed = tls_is_resumed(ends.client);
    take_ticket(&ends);
    part(&ends); /* without close_notify, as when a backend is killed */
    return resumed;
}

static void test_a_client_resumes_its_session_at_the_same_peer(void)
{
    static const char *const protocols[] = {"TLSv1.2", "TLSv1.3"};
    for (int i = 0; i < 2; i++) {
        struct tls_options options = options_of(true, "client", "server.crt");
        options.protocols = protocols[i];
        struct tls_context *client = tls_context_new(&options, error, sizeof error);
        CHECK(!is_resumed(server_context, client, "127.0.0.1"));
        CHECK(is_resumed(server_context, client, "127.0.0.1"));
        CHECK(is_resumed(server_context, client, "127.0.0.1"));
        /* a session belongs to one peer name */
        CHECK(!is_resumed(server_context, client, "server"));
        CHECK(is_resumed(server_context, client, "server"));
        struct tls_options again = options_of(false, "server", "client.crt");
        struct tls_context *restarted = tls_context_new(&again, error, sizeof error);
        /* a restarted peer cannot decrypt the ticket: full handshake */
        CHECK(!is_resumed(restarted, client, "server"));
        CHECK(is_resumed(restarted, client, "server"));
        tls_context_unref(restarted);
        tls_context_unref(client);
    }
}

static void say(struct tls *from, struct tls *to)
{
    struct out out;
    char sealed[256];
    char byte;
    size_t got;
    out_init(&out);
    out_printf(&out, "!");
    CHECK(tls_write(from, &out, 1000));
    size_t len = tls_pending(from);
    CHECK(len < sizeof sealed);
    out_copy(tls_out(from), sealed);
    out_consume(tls_out(from), len);
    tls_feed(to, sealed, len);
    CHECK(tls_read(to, &byte, 1, &got) == TLS_DONE);
    CHECK(tls_read(to, &byte, 1, &got) == TLS_MORE);
}

/* Frees the TLS state; returns the bytes this gave back. */
static size_t freed_with(struct tls *tls)
{
    size_t before = held_bytes;
    tls_free(tls);
    return before - held_bytes;
}

static void test_a_connection_holds_what_it_is_counted_as(void)
{
    struct tls *client = tls_new(client_context, "127.0.0.1", "measured");
    struct tls *server = tls_new(server_context, "", "");
    CHECK(tls_handshake(client) == TLS_MORE);
    CHECK(carry(client, server, 100000, tls_handshake) == TLS_MORE);
    size_t bytes = freed_with(server);
    CHECK(bytes > TLS_HANDSHAKE_BYTES / 2);
    CHECK(bytes <= TLS_HANDSHAKE_BYTES);
    tls_free(client);

    struct ends ends = meet(server_context, client_context, "127.0.0.1", 100000);
    bytes = freed_with(ends.server); /* the client has sent nothing since the handshake */
    CHECK(bytes > TLS_CONNECTION_BYTES / 2);
    CHECK(bytes <= TLS_CONNECTION_BYTES);
    tls_free(ends.client);

    ends = meet(server_context, client_context, "127.0.0.1", 100000);
    take_ticket(&ends);
    say(ends.client, ends.server);
    say(ends.server, ends.client);
    bytes = freed_with(ends.server);
    CHECK(bytes > TLS_CONNECTION_BYTES / 2);
    CHECK(bytes <= TLS_CONNECTION_BYTES);
    bytes = freed_with(ends.client);
    CHECK(bytes > TLS_CONNECTION_BYTES / 2);
    CHECK(bytes <= TLS_CONNECTION_BYTES);
}

static void test_a_client_with_resumption_off_does_not_resume(void)
{
    struct tls_options options = options_of(true, "client", "server.crt");
    options.resumes = false;
    struct tls_context *client = tls_context_new(&options, error, sizeof error);
    CHECK(!is_resumed(server_context, client, "127.0.0.1"));
    CHECK(!is_resumed(server_context, client, "127.0.0.1"));
    tls_context_unref(client);
}

static void test_encrypted_bytes_are_bounded(void)
{
    struct ends ends = meet(server_context, client_context, "127.0.0.1", 100000);
    struct out out;
    static char megabyte[1024 * 1024];
    out_init(&out);
    out_write(&out, megabyte, sizeof megabyte);
    out_consume(tls_out(ends.server), tls_pending(ends.server));
    CHECK(tls_write(ends.server, &out, 64 * 1024));
    CHECK(tls_pending(ends.server) >= 64 * 1024);
    CHECK(tls_pending(ends.server) < 96 * 1024);
    CHECK(out.bytes > sizeof megabyte - 96 * 1024);
    out_clear(&out);
    part(&ends);
}

static void test_the_end_is_reported(void)
{
    struct ends ends = meet(server_context, client_context, "127.0.0.1", 100000);
    char byte;
    size_t got;
    tls_shutdown(ends.client);
    char sealed[256];
    size_t len = tls_pending(ends.client);
    CHECK(len > 0 && len < sizeof sealed);
    out_copy(tls_out(ends.client), sealed);
    tls_feed(ends.server, sealed, len);
    CHECK(tls_read(ends.server, &byte, 1, &got) == TLS_END);
    part(&ends);
}

static void test_the_certificate_of_an_untrusted_peer_is_refused_with_the_reason(void)
{
    struct tls_options options =
        options_of(true, "client", "client.crt"); /* has no certificate authority for the server */
    struct tls_context *wary = tls_context_new(&options, error, sizeof error);
    CHECK(wary);
    struct ends ends = meet(server_context, wary, "127.0.0.1", 100000);
    CHECK(ends.at_client == TLS_FAILED);
    CHECK(strstr(tls_reason(ends.client), "certificate verify failed: self-signed certificate"));
    CHECK(ends.at_server == TLS_FAILED);
    CHECK(strstr(tls_reason(ends.server), "the peer refused"));
    part(&ends);
    tls_context_unref(wary);
}

static void test_the_name_must_be_right_unless_told_otherwise(void)
{
    struct ends ends = meet(server_context, client_context, "another.example", 100000);
    CHECK(ends.at_client == TLS_FAILED);
    CHECK(strstr(tls_reason(ends.client), "hostname mismatch"));
    part(&ends);
    struct tls_options options = options_of(true, "client", "server.crt");
    options.verifies_name = false;
    struct tls_context *trusting = tls_context_new(&options, error, sizeof error);
    ends = meet(server_context, trusting, "another.example", 100000);
    CHECK(ends.at_client == TLS_DONE);
    part(&ends);
    tls_context_unref(trusting);
    options.verifies_name = true;
    options.server_name = "server";
    trusting = tls_context_new(&options, error, sizeof error);
    ends = meet(server_context, trusting, "another.example", 100000);
    CHECK(ends.at_client == TLS_DONE);
    part(&ends);
    tls_context_unref(trusting);
}

static void test_a_client_without_a_required_certificate_is_refused(void)
{
    struct tls_options options = options_of(false, "server", "client.crt");
    options.clients = TLS_CLIENTS_VERIFIED;
    struct tls_context *strict = tls_context_new(&options, error, sizeof error);
    options = options_of(true, "", "server.crt");
    struct tls_context *nameless = tls_context_new(&options, error, sizeof error);
    struct ends ends = meet(strict, nameless, "127.0.0.1", 100000);
    CHECK(ends.at_server == TLS_FAILED);
    CHECK(strstr(tls_reason(ends.server), "peer did not return a certificate"));
    part(&ends);
    ends = meet(server_context, nameless, "127.0.0.1", 100000);
    CHECK(ends.at_server == TLS_DONE);
    CHECK(!tls_is_verified(ends.server));
    part(&ends);
    tls_context_unref(strict);
    tls_context_unref(nameless);
}

static void test_plain_text_is_reported_as_not_tls(void)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    struct tls *server = tls_new(server_context, "", "");
    tls_feed(server, ping, sizeof ping - 1);
    CHECK(tls_handshake(server) == TLS_FAILED);
    CHECK(strstr(tls_reason(server), "does not use TLS"));
    tls_free(server);
}

static void test_random_bytes_and_changed_records_only_fail(void)
{
    for (int i = 0; i < 2000; i++) {
        struct tls *server = tls_new(server_context, "", "");
        struct tls *client = tls_new(client_context, "127.0.0.1", "fuzzed");
        char hello[4096];
        (void)tls_handshake(client);
        size_t len = tls_pending(client);
        CHECK(len < sizeof hello);
        out_copy(tls_out(client), hello);
        if (i % 4 == 0)
            clock_random_bytes(hello, len = 1 + clock_random() % 300);
        for (int change = i % 3; change >= 0; change--)
            hello[clock_random() % len] = (char)clock_random();
        tls_feed(server, hello, 1 + clock_random() % len);
        (void)tls_handshake(server);
        tls_keep(server);
        CHECK(tls_pending(server) < 64 * 1024);
        tls_free(server);
        tls_free(client);
    }
}

static void test_contexts_are_equal_when_files_and_options_are(void)
{
    struct tls_options options = options_of(false, "server", "client.crt");
    struct tls_context *same = tls_context_new(&options, error, sizeof error);
    CHECK(tls_context_equal(server_context, same));
    CHECK(!tls_context_equal(server_context, NULL));
    tls_context_unref(same);
    options.clients = TLS_CLIENTS_ANY;
    same = tls_context_new(&options, error, sizeof error);
    CHECK(!tls_context_equal(server_context, same));
    tls_context_unref(same);
}

static void test_wrong_options_are_named(void)
{
    struct tls_options options = options_of(false, "server", "client.crt");
    options.key_file = file("client.key");
    CHECK(!tls_context_new(&options, error, sizeof error));
    CHECK(strncmp(error, "tls-key-file: ", 14) == 0);
    options = options_of(false, "server", "client.crt");
    options.cert_file = file("missing");
    CHECK(!tls_context_new(&options, error, sizeof error));
    CHECK(strstr(error, "tls-cert-file: ") && strstr(error, "No such file"));
    options = options_of(true, "client", "server.crt");
    options.section = "upstream.";
    options.protocols = "SSLv3";
    CHECK(!tls_context_new(&options, error, sizeof error));
    CHECK(strncmp(error, "upstream.tls-protocols: ", 24) == 0);
}

int main(void)
{
    CHECK(CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free) == 1);
    CHECK(mkdtemp(folder));
    make_certificate("server");
    make_certificate("client");
    struct tls_options options = options_of(false, "server", "client.crt");
    server_context = tls_context_new(&options, error, sizeof error);
    CHECK(server_context);
    options = options_of(true, "client", "server.crt");
    client_context = tls_context_new(&options, error, sizeof error);
    CHECK(client_context);

    test_bytes_go_both_ways_in_pieces_of_any_size();
    test_a_client_resumes_its_session_at_the_same_peer();
    test_a_client_with_resumption_off_does_not_resume();
    test_a_connection_holds_what_it_is_counted_as();
    test_encrypted_bytes_are_bounded();
    test_the_end_is_reported();
    test_the_certificate_of_an_untrusted_peer_is_refused_with_the_reason();
    test_the_name_must_be_right_unless_told_otherwise();
    test_a_client_without_a_required_certificate_is_refused();
    test_plain_text_is_reported_as_not_tls();
    test_random_bytes_and_changed_records_only_fail();
    test_contexts_are_equal_when_files_and_options_are();
    test_wrong_options_are_named();

    tls_context_unref(server_context);
    tls_context_unref(client_context);
    CHECK(unlink(file("server.crt")) == 0 && unlink(file("server.key")) == 0);
    CHECK(unlink(file("client.crt")) == 0 && unlink(file("client.key")) == 0);
    CHECK(rmdir(folder) == 0);
    return 0;
}
