/*
 * test_command.c - the command table: names, contradicting rows, replies of COMMAND, error texts.
 */
#include "shared/command/command.h"

#include "shared/check.h"
#include "shared/command/command_docs.h"
#include "shared/command/command_reply.h"
#include "shared/command/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static struct out out;
static struct reply reply = {&out, 2};
static char text[65536];

/* The reply as text; empties the output. */
static const char *replied(void)
{
    CHECK(out.bytes < sizeof(text));
    size_t len = out.bytes;
    out_copy(&out, text);
    text[len] = '\0';
    out_clear(&out);
    return text;
}

static bool replied_is(const char *expected)
{
    if (strcmp(replied(), expected) == 0)
        return true;
    (void)fprintf(stderr, "got:      %s\nexpected: %s\n", text, expected);
    return false;
}

/* Splits a request at its spaces. */
static uint32_t split(const char *request, struct bytes argv[16])
{
    uint32_t argc = 0;
    while (*request) {
        size_t len = strcspn(request, " ");
        argv[argc++] = (struct bytes){request, len};
        request += len + (request[len] == ' ');
    }
    return argc;
}

static const struct command *find(const char *name)
{
    return command_find(bytes_of(name));
}

static void test_every_name_is_found_in_any_case(void)
{
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        char name[64];
        size_t len = strlen(command->full_name);
        for (size_t i = 0; i <= len; i++)
            name[i] = (char)(i % 2 ? command->full_name[i] : toupper(command->full_name[i]));
        CHECK(command->id == (enum command_id)id);
        CHECK(command_find_full(bytes_of(command->full_name)) == command);
        CHECK(command_find_full((struct bytes){name, len}) == command);
        if (command->parent == COMMAND_NONE)
            CHECK(find(command->name) == command);
        else
            CHECK(command_find_sub(command_of(command->parent), bytes_of(command->name)) ==
                  command);
    }
}

/* The index folds case of eight bytes at once: no other byte may pass for a letter, '_', '-' or '.'. */
static void test_a_name_with_one_wrong_byte_is_not_found(void)
{
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const char *name = command_rows[id].name;
        size_t len = strlen(name);
        /* allocated with the exact size, so that the sanitizer reports a read beyond it */
        char *copy = malloc(len);
        CHECK(copy);
        for (size_t at = 0; command_rows[id].parent == COMMAND_NONE && at < len; at++) {
            memcpy(copy, name, len);
            for (int byte = 0; byte < 256; byte++) {
                copy[at] = (char)byte;
                const struct command *found = command_find((struct bytes){copy, len});
                bool same = tolower((unsigned char)byte) == name[at];
                CHECK(same ? found == &command_rows[id] : found != &command_rows[id]);
            }
        }
        free(copy);
    }
}

/* The index keeps the first and the last eight bytes: a name that is repeated has the same ones. */
static void test_a_doubled_name_is_not_found(void)
{
    for (int id = 1; id < COMMAND_COUNT; id++) {
        char twice[64];
        int len =
            snprintf(twice, sizeof(twice), "%s%s", command_rows[id].name, command_rows[id].name);
        CHECK(!command_find((struct bytes){twice, (size_t)len}));
    }
}

static void test_a_name_is_found_again_and_no_other_in_its_place(void)
{
    struct command_memo memo = {0};
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *command = command_of((enum command_id)id);
        char *name = strdup(command->name); /* the exact size, for the sanitizer */
        char *copy = malloc(strlen(name));
        CHECK(name && copy);
        struct bytes exact = {copy, strlen(name)};
        for (size_t at = 0; at < exact.len; at++) {
            memcpy(copy, name, exact.len);
            const struct command *found = command_find(exact);
            CHECK(command_find_again(&memo, exact) == found);
            CHECK(command_find_again(&memo, exact) == found);
            CHECK(command_find_again(&memo, (struct bytes){copy, at}) ==
                  command_find((struct bytes){copy, at}));
            CHECK(command_find_again(&memo, exact) == found);
            copy[at] = '?';
            CHECK(command_find_again(&memo, exact) == command_find(exact));
        }
        free(copy);
        free(name);
    }
}

static void test_invalid_names_are_not_found(void)
{
    static const char long_name[300] = "get";
    CHECK(!find(""));
    CHECK(!command_find((struct bytes){NULL, 0}));
    CHECK(!find("g"));
    CHECK(!find("gett"));
    CHECK(!find("client|kill"));
    CHECK(!command_find((struct bytes){long_name, sizeof(long_name)}));
    CHECK(!command_find_sub(find("get"), BYTES("x")));
    CHECK(!command_find_full(BYTES("|")));
    CHECK(!command_find_full(BYTES("client|")));
}

static void test_a_request_leads_to_its_subcommand(void)
{
    struct bytes argv[16];
    CHECK(command_find_argv(argv, split("CLIENT KILL a", argv))->id == COMMAND_client_kill);
    CHECK(command_find_argv(argv, split("client no-evict on", argv))->id ==
          COMMAND_client_no_evict);
    CHECK(command_find_argv(argv, split("CLIENT", argv))->id == COMMAND_client);
    CHECK(command_find_argv(argv, split("COMMAND", argv))->id == COMMAND_command);
    CHECK(command_find_argv(argv, split("json.debug MEMORY k", argv))->id ==
          COMMAND_json_debug_memory);
    CHECK(!command_find_argv(argv, split("CLIENT nosuch", argv)));
    CHECK(!command_find_argv(argv, split("nosuch", argv)));
}

static void check_texts(const struct command *row)
{
    CHECK(row->since && row->summary);
    CHECK(row->summary[strlen(row->summary) - 1] == '.');
    CHECK(!strchr(row->summary, '|') && !strchr(row->summary, '\n'));
    CHECK(!row->complexity || !strchr(row->complexity, '|'));
    CHECK(row->deprecated.since || !row->deprecated.replaced_by);
    CHECK(!row->deprecated.since == !(row->doc_flags & DOC_DEPRECATED));
    for (const char *c = row->full_name; *c; c++)
        CHECK(!isupper((unsigned char)*c));
}

static void check_traits(const struct command *row)
{
    bool is_local = row->route == ROUTE_LOCAL;
    CHECK(!(row->traits & TRAIT_PREFIX) || (row->arity < -1 && row->flags & CMD_INTERNAL));
    CHECK(command_prefix_argc(row) == (row->traits & TRAIT_PREFIX ? (uint32_t)-row->arity - 1 : 0));
    CHECK(!(row->traits & TRAIT_RUNS_QUEUE) || row->traits & TRAIT_ENDS_MULTI);
    CHECK(!(row->traits & TRAIT_ENDS_MULTI) || row->traits & TRAIT_ACTS_IN_MULTI);
    CHECK(!(row->traits & (TRAIT_SHARD_ANSWERS | TRAIT_CHANGES_SESSION)) || is_local);
    CHECK(!(row->traits & TRAIT_OWN) == (row->group < GROUP_JSON));
    CHECK(row->channels == CHANNELS_NONE || row->flags & CMD_PUBSUB);
    CHECK(row->channels <= CHANNELS_FIRST || row->traits & TRAIT_SUBSCRIBER);
    CHECK(row->timeout == TIMEOUT_SECONDS_LAST || row->route == ROUTE_PINNED);
}

static void check_route(const struct command *row)
{
    bool has_keys = keys_possible(row);
    switch (row->route) {
    case ROUTE_LOCAL:
        CHECK(!has_keys);
        CHECK(row->merge == MERGE_ONE || row->merge == MERGE_INFO);
        return;
    case ROUTE_BY_KEY:
        CHECK(has_keys);
        CHECK(row->merge == MERGE_ONE);
        break;
    case ROUTE_SPLIT:
        CHECK(has_keys);
        CHECK(row->merge != MERGE_ONE);
        CHECK(row->keys[1].begin == KEY_BEGIN_NONE && row->keys[0].last < 0);
        break;
    case ROUTE_ALL_SHARDS:
    case ROUTE_CURSOR:
        CHECK(!has_keys);
        CHECK(row->merge != MERGE_ONE);
        break;
    case ROUTE_CHANNEL:
        CHECK(row->flags & CMD_PUBSUB);
        CHECK(row->merge == MERGE_ONE);
        break;
    case ROUTE_ANY:
        CHECK(!has_keys);
        CHECK(row->merge == MERGE_ONE);
        break;
    case ROUTE_PINNED:
        CHECK(row->merge == MERGE_ONE || !has_keys);
        return;
    case ROUTE_TRANSACTION:
    case ROUTE_DENIED:
        CHECK(row->merge == MERGE_ONE);
        break;
    }
    CHECK(!(row->handlers & HANDLER_PROXY));
}

static void check_flags(const struct command *row)
{
    const uint32_t access = KEY_RO | KEY_RW | KEY_OW | KEY_RM;
    CHECK((row->flags & (CMD_WRITE | CMD_READONLY)) != (CMD_WRITE | CMD_READONLY));
    CHECK(!(row->flags & CMD_DENYOOM) || (row->flags & CMD_WRITE));
    CHECK(!(row->flags & CMD_FAST) || !(row->flags & CMD_LONG));
    CHECK(row->arity != 0);
    CHECK(!row->args_max || (row->arity < 0 && row->args_max > (uint32_t)-row->arity));
    CHECK(row->parent == COMMAND_NONE || abs(row->arity) >= 2);
    for (int i = 0; i < KEY_SPECS_MAX && row->keys[i].begin != KEY_BEGIN_NONE; i++) {
        const struct key_spec *spec = &row->keys[i];
        bool is_channel = spec->flags & KEY_NOT_KEY;
        CHECK(__builtin_popcount(spec->flags & access) == !is_channel);
        CHECK(!(row->flags & CMD_READONLY) || !(spec->flags & (KEY_OW | KEY_RM)));
        CHECK(spec->find == KEY_FIND_UNKNOWN || spec->step > 0);
        if (spec->begin == KEY_BEGIN_INDEX && !is_channel &&
            row->key_rule != KEY_RULE_DESTINATION) {
            int last = spec->find == KEY_FIND_RANGE && spec->last < 0 ? -spec->last : 1;
            CHECK(abs(row->arity) >= spec->at + last);
        }
    }
}

static void test_no_row_contradicts_itself(void)
{
    for (int id = 1; id < COMMAND_COUNT; id++) {
        const struct command *row = &command_rows[id];
        check_texts(row);
        check_traits(row);
        check_flags(row);
        if (!command_has_subs(row) || row->id == COMMAND_command)
            check_route(row);
        else
            CHECK(!keys_possible(row));
    }
}

static void test_arity_counts_the_name(void)
{
    CHECK(command_arity_ok(find("get"), 2));
    CHECK(!command_arity_ok(find("get"), 1) && !command_arity_ok(find("get"), 3));
    CHECK(command_arity_ok(find("del"), 2) && command_arity_ok(find("del"), 1000000));
    CHECK(!command_arity_ok(find("del"), 1));
    CHECK(command_arity_ok(command_of(COMMAND_command_docs), 2) &&
          command_arity_ok(command_of(COMMAND_command_docs), 1024));
    CHECK(!command_arity_ok(command_of(COMMAND_command_docs), 1025) &&
          !command_arity_ok(command_of(COMMAND_command_docs), 1));
    CHECK(command_arity_ok(find("ping"), 1) && command_arity_ok(find("ping"), 2));
}

static void test_rows_say_what_both_programs_rely_on(void)
{
    CHECK(find("get")->route == ROUTE_BY_KEY && find("get")->handlers == HANDLER_BACKEND);
    CHECK(find("mget")->route == ROUTE_SPLIT && find("mget")->merge == MERGE_ARRAY);
    CHECK(find("mset")->route == ROUTE_SPLIT && find("mset")->merge == MERGE_ALL_OK);
    CHECK(find("dbsize")->merge == MERGE_SUM && find("wait")->merge == MERGE_MIN);
    CHECK(find("blpop")->route == ROUTE_PINNED && find("watch")->route == ROUTE_PINNED);
    CHECK(find("exec")->route == ROUTE_TRANSACTION && find("scan")->route == ROUTE_CURSOR);
    CHECK(find("keys")->flags & CMD_LONG);
    CHECK(!(find("scan")->flags & CMD_LONG));
    CHECK(command_of(COMMAND_scree_auth)->flags & CMD_NO_AUTH);
    CHECK(command_of(COMMAND_scree_use)->arity == -4);
    CHECK(command_of(COMMAND_scree_use)->flags & command_of(COMMAND_scree_auth)->flags &
          CMD_INTERNAL);
    CHECK(find("client")->handlers == (HANDLER_BACKEND | HANDLER_PROXY));
    CHECK(find("acl")->acl == ACL_SLOW);
    CHECK(find("blpop")->acl == (ACL_WRITE | ACL_LIST | ACL_SLOW | ACL_BLOCKING));
    CHECK(find("eval_ro")->acl == (ACL_SLOW | ACL_SCRIPTING));
    CHECK(find("lastsave")->acl == (ACL_ADMIN | ACL_FAST | ACL_DANGEROUS));
}

static void test_tips_follow_from_the_route_unless_the_row_has_its_own(void)
{
    struct bytes tips[COMMAND_TIPS_MAX];
    CHECK(command_tips(find("get"), tips) == 0);
    CHECK(command_tips(find("dbsize"), tips) == 2);
    CHECK(bytes_equal(tips[0], BYTES("request_policy:all_shards")));
    CHECK(bytes_equal(tips[1], BYTES("response_policy:agg_sum")));
    CHECK(command_tips(find("lastsave"), tips) == 1);
    CHECK(bytes_equal(tips[0], BYTES("nondeterministic_output")));
}

static void test_command_info_is_written_in_both_protocols(void)
{
    struct bytes argv[16];
    command_reply_info(&reply, argv, split("COMMAND INFO gEt nosuch", argv));
    CHECK(replied_is(
        "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
        "*3\r\n+@read\r\n+@string\r\n+@fast\r\n*0\r\n*1\r\n*6\r\n$5\r\nflags\r\n*2\r\n+RO\r\n+"
        "access\r\n"
        "$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n*2\r\n$"
        "5\r\nindex\r\n"
        ":1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n*6\r\n"
        "$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n*0\r\n$-1\r\n"));
    reply.resp = 3;
    command_reply_info(&reply, argv, split("COMMAND INFO dbsize", argv));
    reply.resp = 2;
    CHECK(replied_is(
        "*1\r\n*10\r\n$6\r\ndbsize\r\n:1\r\n~2\r\n+readonly\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
        "~3\r\n+@keyspace\r\n+@read\r\n+@fast\r\n~2\r\n$25\r\nrequest_policy:all_shards\r\n"
        "$23\r\nresponse_policy:agg_sum\r\n~0\r\n~0\r\n"));
}

static void test_internal_commands_are_not_shown(void)
{
    struct bytes argv[16];
    command_reply_info(&reply, argv, split("COMMAND INFO scree|use scree|auth", argv));
    CHECK(replied_is("*2\r\n$-1\r\n$-1\r\n"));
    command_reply_docs(&reply, argv, split("COMMAND DOCS scree|use", argv));
    CHECK(replied_is("*0\r\n"));
    command_reply_list(&reply, argv, split("COMMAND LIST FILTERBY PATTERN scree*", argv));
    CHECK(strstr(replied(), "scree|map") && !strstr(text, "scree|use") &&
          !strstr(text, "scree|auth"));
    command_reply_help(&reply, find("scree"), HANDLER_BACKEND | HANDLER_PROXY);
    CHECK(strstr(replied(), "+MAP\r\n") && !strstr(text, "+USE") && !strstr(text, "+AUTH"));
}

static void test_help_lists_what_the_program_answers(void)
{
    command_reply_help(&reply, find("scree"), HANDLER_BACKEND);
    CHECK(replied_is(
        "*27\r\n+SCREE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+BACKUP\r\n"
        "+    Manage backups: START, STATUS, CANCEL, LIST, DELETE.\r\n"
        "+CHANGES\r\n+    Read which keys have changed: READ, TOKEN, INFO.\r\n"
        "+COMPACT\r\n+    Compact all data on disk: START, STATUS, CANCEL.\r\n"
        "+HELP\r\n"
        "+    List the subcommands.\r\n"
        "+KILL\r\n+    End the slow command, EXEC or script with this id (SCREE RUNNING), and roll "
        "back its effects.\r\n"
        "+LEADER\r\n"
        "+    TO address: the copy that leads gives its role to the one at this address, without "
        "an error for "
        "clients of proxies. The reply comes when it has begun.\r\n"
        "+MOVES\r\n"
        "+    List the slots that move between shards, and what the shard map still wishes. PAUSE, "
        "RESUME, CANCEL: control the moves.\r\n"
        "+OWNERS\r\n"
        "+    List which slots each shard owns, and which owners of others it knows. FORCE "
        "LOSE-KEYS: claim those of lost shards.\r\n"
        "+REPLICAS\r\n+    List the copies of each shard. HASH: compare their rows, all or those "
        "of some slots. At a copy itself: PAUSE seconds: let it add no changes of the leader for "
        "so "
        "long; RESUME. FOUND: begin a group "
        "without copies that do not answer. FORCE: go on alone, because the leader is lost.\r\n"
        "+RUNNING\r\n+    List the commands that run for longer than busy-reply-threshold: id, "
        "client, command, milliseconds, memory, bytes written.\r\n"
        "+SCRIPT\r\n+    KILL: end the running script or function, even if it has written, and "
        "roll "
        "back its effects.\r\n"
        "+STRAYS\r\n"
        "+    Manage keys of slots that other shards own: list them, CHECK, MOVE, STATUS, STOP.\r\n"
        "+TRANSACTIONS\r\n"
        "+    List the transactions over several shards that are not complete. COMMIT or ABORT id "
        "MAY-DIFFER: end one whose deciding shard is lost.\r\n"));
    command_reply_help(&reply, find("slowlog"), HANDLER_BACKEND);
    CHECK(strncmp(replied(), "*9\r\n", 4) == 0);
}

static void test_docs_are_written(void)
{
    struct bytes argv[16];
    command_reply_docs(&reply, argv, split("COMMAND DOCS nosuch getset", argv));
    CHECK(replied_is(
        "*2\r\n$6\r\ngetset\r\n*16\r\n$7\r\nsummary\r\n$40\r\nStore a string and "
        "return the old value.\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$6\r\nstring\r\n$"
        "10\r\ncomplexity\r\n"
        "$4\r\nO(1)\r\n$9\r\ndoc_flags\r\n*1\r\n+deprecated\r\n$16\r\ndeprecated_"
        "since\r\n$5\r\n6.2.0\r\n"
        "$11\r\nreplaced_by\r\n$12\r\nSET with GET\r\n"
        "$9\r\narguments\r\n*2\r\n"
        "*6\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n"
        "$14\r\nkey_spec_index\r\n:0\r\n"
        "*4\r\n$4\r\nname\r\n$5\r\nvalue\r\n$4\r\ntype\r\n$6\r\nstring\r\n"));
}

static void test_unknown_commands_get_the_text_of_redis(void)
{
    struct bytes argv[16];
    command_error_unknown(&reply, argv, split("FOO bar baz", argv));
    CHECK(replied_is("-ERR unknown command 'FOO', with args beginning with: 'bar' 'baz' \r\n"));
    command_error_unknown(&reply, argv, split("FOO", argv));
    CHECK(replied_is("-ERR unknown command 'FOO', with args beginning with: \r\n"));
    command_error_not_found(&reply, argv, split("client NoSuch x", argv));
    CHECK(replied_is("-ERR unknown subcommand 'NoSuch'. Try CLIENT HELP.\r\n"));
    command_error_arity(&reply, command_of(COMMAND_client_kill));
    CHECK(replied_is("-ERR wrong number of arguments for 'client|kill' command\r\n"));
}

static void test_long_and_binary_arguments_are_cut_in_errors(void)
{
    char bytes[300];
    memset(bytes, 'x', sizeof(bytes));
    struct bytes argv[4] = {{bytes, 300}, {bytes, 100}, {bytes, 100}, {bytes, 1}};
    command_error_unknown(&reply, argv, 4);
    CHECK(strlen(replied()) ==
          strlen("-ERR unknown command '', with args beginning with: '' '' \r\n") + 128 + 100 + 25);
    argv[1] = (struct bytes){bytes, 125};
    command_error_unknown(&reply, argv, 3);
    CHECK(strlen(replied()) ==
          strlen("-ERR unknown command '', with args beginning with: '' \r\n") + 128 + 125);
    argv[0] = (struct bytes){"a\0b", 3};
    argv[1] = (struct bytes){"c\r\nd", 4};
    command_error_unknown(&reply, argv, 2);
    CHECK(replied_is("-ERR unknown command 'a', with args beginning with: 'c  d' \r\n"));
}

/* `tests/lint/pages.py commands --fix` writes the page. */
static void test_the_docs_page_is_what_the_table_prints(void)
{
    char path[4096];
    const char *root = getenv("SCREE_ROOT"); /* set by tests/run */
    (void)snprintf(path, sizeof path, "%s/docs/commands.md", root ? root : ".");
    FILE *file = fopen(path, "r");
    CHECK(file);
    char *printed = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&printed, &len);
    CHECK(memory);
    command_print_docs(memory);
    CHECK(fclose(memory) == 0);
    char *page = malloc(len + 1);
    CHECK(page);
    size_t read = fread(page, 1, len + 1, file);
    CHECK(fclose(file) == 0);
    CHECK(read == len && memcmp(page, printed, len) == 0);
    free(page);
    free(printed);
}

int main(void)
{
    out_init(&out);
    command_init();
    command_init();
    test_every_name_is_found_in_any_case();
    test_a_name_with_one_wrong_byte_is_not_found();
    test_a_doubled_name_is_not_found();
    test_a_name_is_found_again_and_no_other_in_its_place();
    test_invalid_names_are_not_found();
    test_a_request_leads_to_its_subcommand();
    test_no_row_contradicts_itself();
    test_arity_counts_the_name();
    test_rows_say_what_both_programs_rely_on();
    test_tips_follow_from_the_route_unless_the_row_has_its_own();
    test_command_info_is_written_in_both_protocols();
    test_internal_commands_are_not_shown();
    test_help_lists_what_the_program_answers();
    test_docs_are_written();
    test_unknown_commands_get_the_text_of_redis();
    test_long_and_binary_arguments_are_cut_in_errors();
    test_the_docs_page_is_what_the_table_prints();
    return 0;
}
