/*
 * failover.c - CLUSTER FAILOVER at a copy: the copy that leads hands over to it. FAILOVER, which redis-server has for servers that are no cluster.
 */
#include "backend/context/config_snapshot.h"
#include "backend/context/partition.h"
#include "backend/dispatch/cluster_gate.h"
#include "backend/dispatch/handlers.h"
#include "backend/partition/leader_line.h"
#include "shared/number.h"

/* ---- CLUSTER FAILOVER -------------------------------------------------------------------------- */

/* Why the copy may not lead by its client's wish; NULL: it may ask for it. */
static const char *refuse_to_lead(const struct call *call, struct bytes option)
{
    const struct partition *partition = call->partition;
    if (!partition->copies.is_closed)
        return "You should send CLUSTER FAILOVER to a replica";
    if (bytes_is(option, "takeover"))
        return "TAKEOVER would lose writes while other copies are well: if most of the copies are "
               "lost, use SCREE REPLICAS FORCE";
    if (partition->snapshot->config.replicas != REPLICAS_VOTERS)
        return "the copies of the shard do not vote, so their leader cannot hand over: if it is "
               "lost, use SCREE REPLICAS FORCE";
    return NULL;
}

/* FORCE is for a master that does not answer, and another copy leads then without being told. While one leads, it hands over. */
void cmd_cluster_failover(struct call *call)
{
    struct bytes option = call->argc > 2 ? call->argv[2] : (struct bytes){"", 0};
    if (call->argc > 3) {
        call_error_text(call, "ERR unknown subcommand or wrong number of arguments for 'FAILOVER'. "
                              "Try CLUSTER HELP.");
        return;
    }
    if (option.len && !bytes_is(option, "force") && !bytes_is(option, "takeover")) {
        call_error(call, ERR_SYNTAX);
        return;
    }
    const char *refusal = refuse_to_lead(call, option);
    if (!refusal)
        refusal = leader_line_ask_lead(call->partition);
    if (refusal)
        call_errorf(call, "ERR %s", refusal);
    else
        reply_ok(&call->reply);
}

/* ---- FAILOVER ---------------------------------------------------------------------------------- */

/* The arguments of FAILOVER, as far as redis-server looks at them before it refuses. */
struct failover_options {
    bool has_host, has_timeout, is_forced;
};

/* Reads the option at *index, and its values. False: it has replied the error. */
static bool read_failover_option(struct call *call, uint32_t *index,
                                 struct failover_options *options)
{
    struct bytes word = call->argv[*index];
    uint32_t left = call->argc - *index - 1;
    int64_t number = 1;
    if (bytes_is(word, "timeout") && left >= 1 && !options->has_timeout) {
        options->has_timeout = call_int64(call, ++*index, &number);
        if (options->has_timeout && number <= 0)
            call_error_text(call, "ERR FAILOVER timeout must be greater than 0");
    } else if (bytes_is(word, "to") && left >= 2 && !options->has_host) {
        options->has_host = call_int64(call, *index += 2, &number);
    } else if (bytes_is(word, "force") && !options->is_forced) {
        options->is_forced = true;
    } else {
        call_error(call, ERR_SYNTAX);
    }
    return !call->failed;
}

/* A partition of a cluster refuses as redis-server does; one that is none has no copies. */
void cmd_failover(struct call *call)
{
    struct failover_options options = {.has_host = false};
    if (cluster_client(call->session)) {
        call_error_text(call, "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER "
                              "command instead.");
        return;
    }
    if (call->argc == 2 && bytes_is(call->argv[1], "abort")) {
        call_error_text(call, "ERR No failover in progress.");
        return;
    }
    for (uint32_t i = 1; i < call->argc; i++)
        if (!read_failover_option(call, &i, &options))
            return;
    call_error_text(call, "ERR FAILOVER requires connected replicas.");
}
