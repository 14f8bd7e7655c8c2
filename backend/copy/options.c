#include "backend/copy/options.h"

#include "backend/format/rdb.h"
#include "config/option.h"
#include "shared/check.h"
#include "shared/glob.h"
#include "shared/number.h"
#include "shared/version.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char USAGE[] =
    "usage: scree-copy [run|check|verify] --from rdb:FILE --to scree://[USER@]HOST:PORT[/DB] "
    "[options]\n"
    "       scree-copy [run|check|verify] --from kvrocks:DIR [--namespace NAME] --to TARGET "
    "[options]\n"
    "       scree-copy [run|check] --from backup:DIR[,DIR...] [--namespace NAME] --to rdb:FILE "
    "[options]\n"
    "       scree-copy [run|cutover] --from redis://[USER@]HOST:PORT --to scree://[USER@]HOST:PORT "
    "--spool DIR "
    "[options]\n"
    "       scree-copy [run|cutover] --from sentinel://[USER@]HOST:PORT[,HOST:PORT]/NAME --to "
    "TARGET --spool DIR "
    "[options]\n"
    "       scree-copy [run|check|verify] --from scree://[USER@]HOST:PORT --to "
    "redis://[USER@]HOST:PORT "
    "[options]\n";

static const char HELP[] =
    "\n"
    "Copies an RDB file of Redis 6 to 8.2 or Valkey 7 to 9 into Scree: all types, functions, times "
    "to live.\n"
    "Or a directory of Kvrocks 2.\n"
    "Or copies a running server as its replica, and then every change, until it is stopped.\n"
    "Or writes a backup of Scree as one RDB file, of the backup's moment.\n"
    "Or keeps a Redis 7 or Valkey equal to Scree, which needs change-log.\n"
    "\n"
    "  run       checks the file and the target, then copies (without a word: run)\n"
    "  check     says everything that is wrong, and copies nothing\n"
    "  verify    compares every key of the file, or of scree://, with the target, and copies "
    "nothing\n"
    "  cutover   ends the copy of a running server: the server refuses writes from then on, and "
    "the "
    "target has\n"
    "            all of them; if that fails, the server takes writes as before\n"
    "\n";

static const char HELP_OPTIONS[] =
    "  --from SOURCE       rdb:FILE, or rdb:- for standard input; redis://[USER@]HOST:PORT, a "
    "running server;\n"
    "                      rediss:// uses TLS. The password is in $FROM_PASSWORD\n"
    "                      sentinel://[USER@]HOST:PORT,HOST:PORT/NAME, the master of this name; "
    "its "
    "failovers are\n"
    "                      followed. USER and $FROM_PASSWORD are for the servers, $SENTINEL_USER "
    "and\n"
    "                      $SENTINEL_PASSWORD for the Sentinels; sentinels:// uses TLS\n"
    "                      cluster://[USER@]HOST:PORT,HOST:PORT, all masters of a Redis Cluster; "
    "clusters:// uses TLS\n"
    "                      scree://[USER@]HOST:PORT, with --to redis://\n"
    "                      kvrocks:DIR, the directory db of a Kvrocks that does not run, or one "
    "of its backups\n"
    "                      backup:DIR, a backup of the whole cluster; several directories, "
    "separated by commas,\n"
    "                      if its shards are on several machines\n"
    "  --namespace NAME    of Kvrocks or a backup: copies this one; needed if several have keys\n"
    "  --to TARGET         scree://[USER@]HOST:PORT[/DB], a proxy or a backend; screes:// uses "
    "TLS; null: only\n"
    "                      reads the file; redis:// or rediss://, with --from scree://. USER is a "
    "namespace or an\n"
    "                      ACL user; its password is in $TO_PASSWORD\n"
    "                      rdb:FILE, with --from backup:; FILE.part and FILE.scratch stand beside "
    "it until it is whole\n"
    "  --rdb-version N     of rdb:FILE: 10 (default) for Redis 7.0 and later; 12 for Redis 7.4 and "
    "later, with\n"
    "                      times to live of fields\n"
    "  --db LIST           0,3=5: only databases 0 and 3 of the source, and 3 into 5 (default: "
    "each "
    "into its own)\n"
    "  --match GLOB        only keys that match, such as cart:*; may be repeated\n"
    "  --skip GLOB         no keys that match; may be repeated\n"
    "  --strip PREFIX      only keys with this prefix, and without it\n"
    "  --add PREFIX        put this before each key\n"
    "  --existing WORD     keys that the target has: replace them (default), keep them, or refuse "
    "to copy into\n"
    "                      databases that are not empty; with --to redis://, replace deletes keys "
    "that Scree\n"
    "                      does not have, and otherwise the target must be empty\n"
    "  --functions WORD    yes: copy libraries of functions (default); no\n"
    "  --lanes COUNT       connections to the target (default 8)\n"
    "  --rate SIZE         at most so many bytes of the file, or of a full copy, a second, such as "
    "50mb\n"
    "  --spool DIR         of a running server: a folder with room for its data, and for what it "
    "sends until\n"
    "                      the target has it\n"
    "  --session NAME      name of a live copy; a tool with the same name goes on with it (default "
    "default)\n"
    "  --pause-max TIME    of cutover: after this time the source takes writes again (default 2s)\n"
    "  --follow WORD       no: end when the target has everything that the source has\n"
    "  --ca-file FILE      authorities for screes:// and rediss:// (default: those of the system)\n"
    "  --cert-file FILE    own certificate for screes://\n"
    "  --key-file FILE     its key\n"
    "  --dry-run           as check\n"
    "  --json              one JSON object at the end, on standard output\n"
    "  --quiet             no progress\n"
    "  --version           prints the version\n"
    "  --help              prints this\n"
    "\n"
    "A run that was stopped may be started again: keys are replaced, and the result is the same. "
    "With\n"
    "--existing keep, long collections that it left incomplete are copied anew.\n"
    "exit: 0 done  1 some keys were refused or differ, and are listed  2 wrong arguments  5 "
    "stopped by a signal\n"
    "3 the source failed, 4 the target failed: the same command may be run again\n"
    "6 a live copy must begin anew  7 another tool goes on with it\n";

static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)fputs("scree-copy: ", stderr);
    (void)vfprintf(stderr, format, values);
    (void)fputs("; see scree-copy --help\n", stderr);
    va_end(values);
    return false;
}

/* ---- values ---- */

static bool parse_yes(const char *name, const char *text, bool *value)
{
    *value = strcmp(text, "yes") == 0;
    return *value || strcmp(text, "no") == 0 ||
           wrong("%s: expected yes or no, not '%s'", name, text);
}

/* Cuts /db off the end of host:port/db. */
static bool parse_url_db(struct copy_target *to, char *rest)
{
    char *slash = strchr(rest, '/');
    if (!slash)
        return true;
    struct bytes number = bytes_of(slash + 1);
    *slash = '\0';
    return number.len == 0 || (number_parse_int64(number, &to->db) && to->db >= 0);
}

static bool parse_address(struct copy_target *to, const char *text)
{
    char rest[COPY_ADDRESS_MAX];
    const char *at = strrchr(text, '@');
    if (strlen(text) >= sizeof rest)
        return false;
    if (at)
        (void)snprintf(to->user, sizeof to->user, "%.*s", (int)(at - text), text);
    (void)snprintf(rest, sizeof rest, "%s", at ? at + 1 : text);
    if (!parse_url_db(to, rest))
        return false;
    (void)snprintf(to->address, sizeof to->address, "%s", rest);
    return address_valid(bytes_of(to->address));
}

/* redis://…, rediss://…, scree://… or screes://…: what follows the scheme; NULL: it is none of these. */
static const char *parse_scheme(const char *text, bool *is_scree, bool *is_secure)
{
    static const char *const schemes[] = {"redis://", "rediss://", "scree://", "screes://"};
    for (unsigned i = 0; i < COUNT_OF(schemes); i++) {
        *is_scree = i >= 2;
        *is_secure = i % 2 == 1;
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return text + strlen(schemes[i]);
    }
    return NULL;
}

static bool parse_seed(struct copy_seeds *seeds, struct bytes text)
{
    if (seeds->count == COPY_SEEDS_MAX || text.len >= COPY_ADDRESS_MAX || !address_valid(text))
        return false;
    (void)snprintf(seeds->all[seeds->count++], COPY_ADDRESS_MAX, "%.*s", (int)text.len, text.data);
    return true;
}

static bool parse_seeds(struct copy_seeds *seeds, struct bytes text)
{
    for (;;) {
        const char *comma = memchr(text.data, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.data) : text.len;
        if (!parse_seed(seeds, (struct bytes){text.data, len}))
            return false;
        if (!comma)
            return true;
        text = (struct bytes){comma + 1, text.len - len - 1};
    }
}

/* [user@]host:port[,host:port…], and /name behind it for Sentinels */
static bool parse_several(struct copy_target *from, const char *text)
{
    const char *at = strrchr(text, '@');
    const char *hosts = at ? at + 1 : text;
    const char *slash = strchr(hosts, '/');
    size_t len = slash ? (size_t)(slash - hosts) : strlen(hosts);
    size_t user = at ? (size_t)(at - text) : 0;
    bool has_name = slash && slash[1] && strlen(slash + 1) < COPY_ADDRESS_MAX;
    if (user >= COPY_ADDRESS_MAX || has_name == from->seeds.is_cluster)
        return false;
    (void)snprintf(from->user, sizeof from->user, "%.*s", (int)user, text);
    (void)snprintf(from->seeds.name, COPY_ADDRESS_MAX, "%s", has_name ? slash + 1 : "");
    from->seeds.count = 0;
    if (!parse_seeds(&from->seeds, (struct bytes){hosts, len}))
        return false;
    (void)snprintf(from->address, COPY_ADDRESS_MAX, "%s", from->seeds.all[0]);
    return true;
}

/* False: it is not sentinel://, cluster:// or one of these with TLS. */
static bool has_seeds(struct copy_target *from, const char *text, const char **rest)
{
    static const char *const schemes[] = {"sentinel://", "sentinels://", "cluster://",
                                          "clusters://"};
    for (unsigned i = 0; i < COUNT_OF(schemes); i++) {
        *rest = text + strlen(schemes[i]);
        from->is_secure = i % 2 == 1;
        from->seeds.is_cluster = i >= 2;
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return true;
    }
    from->seeds.is_cluster = false;
    return false;
}

static bool parse_server(struct copy_options *options, const char *text)
{
    struct copy_target *from = &options->from;
    const char *rest;
    if (has_seeds(from, text, &rest))
        return parse_several(from, rest);
    rest = parse_scheme(text, &options->is_from_scree, &from->is_secure);
    return rest && parse_address(from, rest) && from->db < 0;
}

/* Takes --from rdb:FILE, kvrocks:DIR or backup:DIR. False: the text is none of these. */
static bool parse_origin(struct copy_options *options, const char *text)
{
    static const char *const schemes[] = {
        [ORIGIN_RDB] = "rdb:", [ORIGIN_KVROCKS] = "kvrocks:", [ORIGIN_BACKUP] = "backup:"};
    for (unsigned i = 0; i < COUNT_OF(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if (strncmp(text, schemes[i], len) == 0 && text[len]) {
            options->file = text + len;
            options->origin = (enum copy_origin)i;
            return true;
        }
    }
    return false;
}

static bool parse_from(struct copy_options *options, const char *text)
{
    if (parse_origin(options, text))
        return true;
    if (!parse_server(options, text))
        return wrong("--from: expected rdb:FILE, rdb:-, kvrocks:DIR, backup:DIR, "
                     "redis://[USER@]HOST:PORT, sentinel://HOST:PORT/NAME, cluster://HOST:PORT or "
                     "scree://…, not '%s'",
                     text);
    return strchr(options->from.user, ':') == NULL ||
           wrong("--from: a password does not belong into the address: set FROM_PASSWORD");
}

static bool parse_session(struct copy_options *options, const char *text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len = strlen(text);
    if (len < 1 || len > 64 || strspn(text, letters) != len)
        return wrong("--session: expected 1 to 64 letters, digits, - or _, not '%s'", text);
    options->session = text;
    return true;
}

static bool parse_to(struct copy_options *options, const char *text)
{
    struct copy_target *to = &options->to;
    bool is_scree = false;
    to->is_null = strcmp(text, "null:") == 0;
    const char *rest = parse_scheme(text, &is_scree, &to->is_secure);
    options->is_to_redis = rest && !is_scree;
    if (strncmp(text, "rdb:", 4) == 0 && text[4])
        to->file = text + 4;
    if (to->is_null || to->file)
        return true;
    if (rest && parse_address(to, rest))
        return strchr(to->user, ':') == NULL ||
               wrong("--to: a password does not belong into the address: set TO_PASSWORD");
    return wrong("--to: expected scree://[USER@]HOST:PORT[/DB], screes://…, redis://…, "
                 "rdb:FILE or null:, not '%s'",
                 text);
}

static bool parse_db(struct copy_dbs *dbs, struct bytes text)
{
    const char *equals = memchr(text.data, '=', text.len);
    struct bytes from = {text.data, equals ? (size_t)(equals - text.data) : text.len};
    struct bytes to = equals ? (struct bytes){equals + 1, text.len - from.len - 1} : from;
    if (dbs->count == COPY_DBS_MAX || !number_parse_uint64(from, &dbs->from[dbs->count]) ||
        !number_parse_uint64(to, &dbs->to[dbs->count]) || dbs->from[dbs->count] > INT64_MAX ||
        dbs->to[dbs->count] > INT64_MAX)
        return false;
    dbs->count++;
    return true;
}

static bool parse_dbs(struct copy_options *options, const char *text)
{
    const char *rest = text;
    for (;;) {
        size_t len = strcspn(rest, ",");
        if (!parse_db(&options->dbs, (struct bytes){rest, len}))
            return wrong("--db: expected at most %d numbers such as 0,3=5, not '%s'", COPY_DBS_MAX,
                         text);
        if (!rest[len])
            return true;
        rest += len + 1;
    }
}

static bool parse_glob(const char *name, struct copy_globs *globs, const char *text)
{
    struct bytes pattern = bytes_of(text);
    if (globs->count == COPY_GLOBS_MAX || !glob_is_bounded(pattern))
        return wrong("%s: at most %d patterns, of at most %d bytes", name, COPY_GLOBS_MAX,
                     GLOB_PATTERN_MAX);
    globs->all[globs->count++] = pattern;
    return true;
}

static bool parse_existing(struct copy_options *options, const char *text)
{
    static const char *const words[] = {"replace", "keep", "refuse"};
    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            options->existing = (enum copy_existing)i;
            options->has_existing = true;
            return true;
        }
    }
    return wrong("--existing: expected replace, keep or refuse, not '%s'", text);
}

static bool parse_lanes(struct copy_options *options, const char *text)
{
    uint64_t lanes;
    if (!number_parse_uint64(bytes_of(text), &lanes) || lanes < 1 || lanes > COPY_LANES_MAX)
        return wrong("--lanes: expected a number from 1 to %d, not '%s'", COPY_LANES_MAX, text);
    options->lanes = (unsigned)lanes;
    return true;
}

static bool parse_rdb_version(struct copy_options *options, const char *text)
{
    uint64_t *version = &options->to.rdb_version;
    return (number_parse_uint64(bytes_of(text), version) && *version >= RDB_VERSION &&
            *version <= RDB_VERSION_REDIS_MAX) ||
           wrong("--rdb-version: expected a number from %d to %d, not '%s'", RDB_VERSION,
                 RDB_VERSION_REDIS_MAX, text);
}

static bool parse_rate(struct copy_options *options, const char *text)
{
    return option_number(OPTION_BYTES, bytes_of(text), &options->rate_bytes) ||
           wrong("--rate: expected a size such as 50mb, not '%s'", text);
}

/* ---- all arguments ---- */

static bool parse_tls_file(struct copy_options *options, const char *name, const char *value)
{
    const char **file = strcmp(name, "--ca-file") == 0     ? &options->tls.ca_file
                        : strcmp(name, "--cert-file") == 0 ? &options->tls.cert_file
                        : strcmp(name, "--key-file") == 0  ? &options->tls.key_file
                                                           : NULL;
    if (!file)
        return wrong("unknown argument %s", name);
    *file = value;
    return true;
}

static bool parse_pair(struct copy_options *options, const char *name, const char *value)
{
    if (strcmp(name, "--from") == 0)
        return parse_from(options, value);
    if (strcmp(name, "--to") == 0)
        return parse_to(options, value);
    if (strcmp(name, "--db") == 0)
        return parse_dbs(options, value);
    if (strcmp(name, "--match") == 0)
        return parse_glob(name, &options->match, value);
    if (strcmp(name, "--skip") == 0)
        return parse_glob(name, &options->skip, value);
    if (strcmp(name, "--strip") == 0 || strcmp(name, "--add") == 0) {
        *(name[2] == 's' ? &options->strip : &options->add) = bytes_of(value);
        return true;
    }
    if (strcmp(name, "--existing") == 0)
        return parse_existing(options, value);
    if (strcmp(name, "--functions") == 0)
        return parse_yes(name, value, &options->has_functions);
    if (strcmp(name, "--pause-max") == 0)
        return option_number(OPTION_MS, bytes_of(value), &options->pause_ms) ||
               wrong("--pause-max: expected a time such as 2s, not '%s'", value);
    if (strcmp(name, "--follow") == 0)
        return parse_yes(name, value, &options->follows);
    if (strcmp(name, "--session") == 0)
        return parse_session(options, value);
    if (strcmp(name, "--spool") == 0 || strcmp(name, "--namespace") == 0) {
        *(name[2] == 's' ? &options->spool : &options->space) = value;
        return true;
    }
    if (strcmp(name, "--lanes") == 0)
        return parse_lanes(options, value);
    if (strcmp(name, "--rdb-version") == 0)
        return parse_rdb_version(options, value);
    if (strcmp(name, "--rate") == 0)
        return parse_rate(options, value);
    return parse_tls_file(options, name, value);
}

/* A word without a value. */
static bool parse_word(struct copy_options *options, const char *word)
{
    if (strcmp(word, "--json") == 0)
        options->is_json = true;
    else if (strcmp(word, "--quiet") == 0)
        options->is_quiet = true;
    else if (strcmp(word, "--dry-run") == 0 || strcmp(word, "check") == 0)
        options->command = COPY_CHECK;
    else if (strcmp(word, "verify") == 0)
        options->command = COPY_VERIFY;
    else if (strcmp(word, "cutover") == 0)
        options->command = COPY_CUTOVER;
    else if (strcmp(word, "run") != 0)
        return false;
    return true;
}

/* Has it no meaning where the target is a file? */
static bool is_for_servers(const char *name)
{
    static const char *const names[] = {"--spool",     "--rate",      "--session",
                                        "--pause-max", "--follow",    "--lanes",
                                        "--ca-file",   "--cert-file", "--key-file"};
    for (unsigned i = 0; i < COUNT_OF(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* *for_servers becomes the last option that is. */
static bool parse_all(int argc, char **argv, struct copy_options *options, const char **for_servers)
{
    for (int i = 1; i < argc; i++) {
        if (parse_word(options, argv[i]))
            continue;
        if (i + 1 == argc)
            return wrong("%s: unknown, or its value is missing", argv[i]);
        if (!parse_pair(options, argv[i], argv[i + 1]))
            return false;
        if (is_for_servers(argv[i]))
            *for_servers = argv[i];
        i++;
    }
    return true;
}

static bool is_complete_live(const struct copy_options *options)
{
    if (options->command != COPY_RUN && options->command != COPY_CUTOVER)
        return wrong("check and verify need a file: --from rdb:FILE");
    if (!*options->spool)
        return wrong("--spool is missing: a folder with room for what the source sends until "
                     "the target has it");
    if (options->to.is_null)
        return wrong("--to null: is for files");
    if (options->space)
        return wrong("--namespace is for --from kvrocks:DIR");
    if (options->command == COPY_CUTOVER && options->from.seeds.is_cluster)
        return wrong("cutover of cluster:// does not exist yet: stop the writers, and end the copy "
                     "with --follow no");
    return options->existing != EXISTING_KEEP ||
           wrong("--existing keep: later changes would go into keys that were kept");
}

static bool is_complete_file(const struct copy_options *options)
{
    if (options->command == COPY_CUTOVER)
        return wrong("cutover needs a running server: --from redis://HOST:PORT");
    if (options->space && options->origin != ORIGIN_KVROCKS)
        return wrong("--namespace is for --from kvrocks:DIR or backup:DIR");
    if (options->existing == EXISTING_REFUSE && options->command == COPY_RUN &&
        strcmp(options->file, "-") == 0)
        return wrong(
            "--existing refuse: standard input is read only once, so its databases are not "
            "known before something is written: give a file");
    if (options->to.is_null && options->command == COPY_VERIFY)
        return wrong("verify: there is nothing to compare with in null:");
    return true;
}

/* A flush at the source deletes what comes from there, so each database of the target is that of one at the source. */
static bool has_own_dbs(const struct copy_dbs *dbs)
{
    for (unsigned i = 0; i < dbs->count; i++)
        for (unsigned other = 0; other < i; other++)
            if (dbs->to[i] == dbs->to[other] || dbs->from[i] == dbs->from[other])
                return false;
    return true;
}

static bool is_complete_back(const struct copy_options *options)
{
    if (options->command == COPY_CUTOVER)
        return wrong("cutover needs a running server: --from redis://HOST:PORT");
    if (!options->is_to_redis)
        return wrong("--from scree:// needs --to redis://HOST:PORT");
    if (*options->spool || options->space)
        return wrong("--spool and --namespace are not for --from scree://");
    if (options->rate_bytes)
        return wrong("--rate is for files and for the full copy of a running server: give the "
                     "target's user a limit instead");
    if (options->to.db >= 0 || !has_own_dbs(&options->dbs))
        return wrong("--from scree://: each database goes into one of its own, such as --db 0=5");
    return options->existing != EXISTING_KEEP ||
           wrong("--existing keep: later changes would go into keys that were kept");
}

static bool is_complete_backup(const struct copy_options *options, const char *for_servers)
{
    if (!options->file || options->origin != ORIGIN_BACKUP)
        return wrong("--to rdb:FILE needs --from backup:DIR");
    if (!options->to.file)
        return wrong("--from backup: needs --to rdb:FILE");
    if (options->command == COPY_VERIFY || options->command == COPY_CUTOVER)
        return wrong("--to rdb: has no verify and no cutover: scree-copy check --from rdb:FILE "
                     "--to null: reads the whole file");
    if (for_servers)
        return wrong("%s is not for --to rdb:", for_servers);
    if (strcmp(options->to.file, "-") == 0)
        return wrong("--to rdb: needs a file, not standard output");
    if (!has_own_dbs(&options->dbs))
        return wrong("--to rdb: each database goes into one of its own, such as --db 0=5");
    return options->existing != EXISTING_KEEP ||
           wrong("--existing keep: a file is written whole: expected replace or refuse");
}

static bool are_complete(const struct copy_options *options, const char *for_servers)
{
    if (!options->file && !*options->from.address)
        return wrong("--from is missing");
    if (!options->to.is_null && !options->to.file && !*options->to.address)
        return wrong("--to is missing");
    if (options->to.file || (options->file && options->origin == ORIGIN_BACKUP))
        return is_complete_backup(options, for_servers);
    if (options->to.rdb_version)
        return wrong("--rdb-version is for --to rdb:FILE");
    if (options->to.db >= 0 && options->dbs.count > 0)
        return wrong("--db and a database in --to exclude each other");
    if (!options->file && options->is_from_scree)
        return is_complete_back(options);
    if (options->is_to_redis)
        return wrong("--to redis:// needs --from scree://");
    return options->file ? is_complete_file(options) : is_complete_live(options);
}

enum options_result options_parse(int argc, char **argv, struct copy_options *options)
{
    const char *password = getenv("TO_PASSWORD");
    const char *from_password = getenv("FROM_PASSWORD");
    const char *sentinel_user = getenv("SENTINEL_USER");
    const char *sentinel_password = getenv("SENTINEL_PASSWORD");
    *options = (struct copy_options){.has_functions = true,
                                     .lanes = 8,
                                     .tls = {"", "", ""},
                                     .spool = "",
                                     .session = "default",
                                     .pause_ms = 2000,
                                     .follows = true};
    options->to.password = password ? password : "";
    options->from.password = from_password ? from_password : "";
    options->from.seeds.user = sentinel_user ? sentinel_user : "";
    options->from.seeds.password = sentinel_password ? sentinel_password : "";
    options->to.db = options->from.db = -1;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("scree-copy %s\n", SCREE_VERSION);
        return OPTIONS_DONE;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(USAGE, stdout);
        (void)fputs(HELP, stdout);
        (void)fputs(HELP_OPTIONS, stdout);
        return OPTIONS_DONE;
    }
    const char *for_servers = NULL;
    return parse_all(argc, argv, options, &for_servers) && are_complete(options, for_servers)
               ? OPTIONS_RUN
               : OPTIONS_WRONG;
}
