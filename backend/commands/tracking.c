/*
 * tracking.c - CLIENT TRACKING, TRACKINGINFO, CACHING, GETREDIR (see backend/session/tracking.h).
 */
#include "backend/session/tracking.h"

#include "backend/context/goes_on.h"
#include "backend/context/partition.h"
#include "backend/dispatch/handlers.h"
#include "backend/session/session.h"
#include "shared/tracking_name.h"
#include "shared/tracking_reply.h"

#include <stdlib.h>

static struct session *find_redirect_target(struct partition *partition, uint64_t id)
{
    for (struct list *link = partition->clients.all.next; link != &partition->clients.all;
         link = link->next) {
        struct session *session = container_of(link, struct session, link);
        if (session->id == id)
            return session;
    }
    return NULL;
}

/* ---- TRACKING ---- */

/* Arguments of CLIENT TRACKING. */
struct arguments {
    struct tracker options;
    struct bytes *prefixes;
    uint32_t count;
};

/* Parses the id of REDIRECT in argument `index`. */
static bool parse_redirect_option(struct call *call, uint32_t index, struct tracker *options)
{
    int64_t id;
    if (options->redirect_id) {
        call_error_text(call, "ERR A client can only redirect to a single other client");
        return false;
    }
    if (!call_int64(call, index, &id))
        return false;
    options->redirect_id = (uint64_t)id;
    options->redirect = find_redirect_target(call->partition, (uint64_t)id);
    if (!options->redirect)
        call_error_text(call, "ERR The client ID you want redirect to does not exist");
    return options->redirect;
}

/* NAME name, from a proxy: its client has the same name at all shards. */
static bool is_name_option(const struct call *call, uint32_t index)
{
    return call->session->login.is_internal && bytes_is(call->argv[index], "name") &&
           index + 1 < call->argc && call->argv[index + 1].len <= TRACKING_NAME_MAX;
}

static bool parse_arguments(struct call *call, struct arguments *arguments)
{
    struct tracker *options = &arguments->options;
    arguments->prefixes = arena_alloc(call->arena, call->argc * sizeof *arguments->prefixes);
    for (uint32_t i = 3; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        bool has_value = i + 1 < call->argc;
        if (bytes_is(word, "redirect") && has_value) {
            if (!parse_redirect_option(call, ++i, options))
                return false;
        } else if (bytes_is(word, "bcast")) {
            options->is_bcast = true;
        } else if (bytes_is(word, "optin")) {
            options->is_optin = true;
        } else if (bytes_is(word, "optout")) {
            options->is_optout = true;
        } else if (bytes_is(word, "noloop")) {
            options->is_noloop = true;
        } else if (bytes_is(word, "prefix") && has_value) {
            arguments->prefixes[arguments->count++] = call->argv[++i];
        } else if (is_name_option(call, i)) {
            options->name = call->argv[++i];
        } else {
            call_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* The error of the options, by themselves or together with the client's current state; NULL: none. */
static const char *options_error(const struct tracker *now, const struct arguments *arguments)
{
    const struct tracker *options = &arguments->options;
    if (!options->is_bcast && arguments->count)
        return "ERR PREFIX option requires BCAST mode to be enabled";
    if (now->is_on && now->is_bcast != options->is_bcast)
        return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, "
               "and then re-enabling it with a different mode.";
    if (options->is_bcast && (options->is_optin || options->is_optout))
        return "ERR OPTIN and OPTOUT are not compatible with BCAST";
    if (options->is_optin && options->is_optout)
        return "ERR You can't specify both OPTIN mode and OPTOUT mode";
    if ((options->is_optin && now->is_optout) || (options->is_optout && now->is_optin))
        return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, "
               "and then re-enabling it with a different mode.";
    return NULL;
}

static bool overlap(struct bytes a, struct bytes b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    return len == 0 || memcmp(a.data, b.data, len) == 0;
}

static int by_redirect_bytes(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Sorts the client's prefixes; returns their number. */
static uint32_t own_prefixes(struct call *call, struct bytes **prefixes)
{
    const struct follower *follower = &call->session->tracker.prefixes;
    uint32_t count = 0;
    *prefixes = arena_alloc(call->arena, (follower->count + 1) * sizeof **prefixes);
    for (struct subscription *it = NULL; (it = follower_subscription_next(follower, it));)
        (*prefixes)[count++] = topic_name(it->topic);
    qsort(*prefixes, count, sizeof **prefixes, by_redirect_bytes);
    return count;
}

static void overlap_error(struct call *call, struct bytes prefix, const char *which,
                          struct bytes other)
{
    call_errorf(call,
                "ERR Prefix '%.*s' overlaps with %s prefix '%.*s'. Prefixes for a single client "
                "must not overlap.",
                (int)prefix.len, prefix.data, which, (int)other.len, other.data);
}

/* The first of the client's prefixes, which are sorted, that overlaps with this one; NULL: none. They do not overlap with each other, but for
 * the empty one, which is there when BCAST was given without PREFIX. */
static const struct bytes *own_overlap(const struct bytes *own, uint32_t count, struct bytes prefix)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bytes_compare(own[middle], prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (count && own[0].len == 0)
        return own;
    if (low > 0 && overlap(own[low - 1], prefix))
        return own + low - 1;
    return low < count && overlap(own[low], prefix) ? own + low : NULL;
}

/* A prefix that was given. */
struct given {
    struct bytes prefix;
    uint32_t index; /* among those that were given */
    /* place in the sorted array: the longest other prefix with which this one begins; -1: none */
    int64_t shorter;
};

static int by_given_prefix(const void *a, const void *b)
{
    return bytes_compare(((const struct given *)a)->prefix, ((const struct given *)b)->prefix);
}

/* True for each given prefix that overlaps with another. Sorted, a prefix stands before those that begin with it, and the ones between
 * begin with it too. */
static const bool *find_overlapping(struct call *call, const struct arguments *arguments)
{
    struct given *sorted = arena_alloc(call->arena, (arguments->count + 1) * sizeof *sorted);
    bool *overlaps = arena_alloc(call->arena, arguments->count + 1);
    memset(overlaps, 0, arguments->count + 1);
    for (uint32_t i = 0; i < arguments->count; i++)
        sorted[i] = (struct given){arguments->prefixes[i], i, -1};
    qsort(sorted, arguments->count, sizeof *sorted, by_given_prefix);
    for (int64_t i = 0; i < arguments->count; i++) {
        int64_t shorter = i - 1;
        while (shorter >= 0 && !overlap(sorted[shorter].prefix, sorted[i].prefix))
            shorter = sorted[shorter].shorter;
        sorted[i].shorter = shorter;
        if (shorter >= 0)
            overlaps[sorted[i].index] = overlaps[sorted[shorter].index] = true;
    }
    return overlaps;
}

/* The first prefix behind this one that overlaps with it; there is one. */
static struct bytes next_overlap(const struct arguments *arguments, uint32_t index)
{
    uint32_t other = index + 1;
    while (!overlap(arguments->prefixes[index], arguments->prefixes[other]))
        other++;
    return arguments->prefixes[other];
}

/* Replies an error when one prefix begins with another: the first in order of the arguments, as Redis does. */
static bool prefixes_fit(struct call *call, const struct arguments *arguments)
{
    enum { PREFIX_WORK = 64 }; /* in units of 10 ns, with its sorting */
    struct bytes *own;
    uint32_t own_count = own_prefixes(call, &own);
    const bool *overlaps = find_overlapping(call, arguments);
    for (uint32_t i = 0; i < arguments->count; i++) {
        struct bytes prefix = arguments->prefixes[i];
        const struct bytes *other = own_overlap(own, own_count, prefix);
        if (!call_goes_on(call, PREFIX_WORK))
            return false;
        if (other) {
            overlap_error(call, prefix, "an existing", *other);
            return false;
        }
        if (overlaps[i]) {
            overlap_error(call, prefix, "another provided", next_overlap(arguments, i));
            return false;
        }
    }
    return true;
}

/* Replies an error when the namespace's prefixes would have too many lengths. */
static bool lengths_fit(struct call *call, const struct arguments *arguments)
{
    struct name_lengths new = {0};
    const struct name_lengths *old = tracking_prefix_lengths(call->partition->watchers.tracking,
                                                             session_namespace(call->session));
    for (uint32_t i = 0; i < arguments->count; i++)
        if (!name_lengths_have(old, arguments->prefixes[i].len))
            name_lengths_add(&new, arguments->prefixes[i].len);
    bool fits = new.count == 0 || old->count + new.count <= PREFIX_LENGTHS_MAX;
    name_lengths_free(&new);
    if (!fits)
        call_errorf(call, "ERR the prefixes of all clients may have %d different lengths at most",
                    PREFIX_LENGTHS_MAX);
    return fits;
}

void cmd_client_tracking(struct call *call)
{
    struct arguments arguments = {0};
    if (!parse_arguments(call, &arguments))
        return;
    if (bytes_is(call->argv[2], "on")) {
        const char *error = options_error(&call->session->tracker, &arguments);
        if (error) {
            call_error_text(call, error);
            return;
        }
        if (arguments.options.is_bcast &&
            (!prefixes_fit(call, &arguments) || !lengths_fit(call, &arguments)))
            return;
        tracking_on(call->session, &arguments.options, arguments.prefixes, arguments.count);
    } else if (bytes_is(call->argv[2], "off")) {
        tracking_off(call->session);
    } else {
        call_error(call, ERR_SYNTAX);
        return;
    }
    reply_ok(&call->reply);
}

/* ---- CACHING, GETREDIR, TRACKINGINFO ---- */

void cmd_client_caching(struct call *call)
{
    struct tracker *tracker = &call->session->tracker;
    bool yes = bytes_is(call->argv[2], "yes");
    if (!tracker->is_on) {
        call_error_text(call, CACHING_OFF_ERROR);
    } else if (!yes && !bytes_is(call->argv[2], "no")) {
        call_error(call, ERR_SYNTAX);
    } else if (yes && !tracker->is_optin) {
        call_error_text(call, CACHING_YES_ERROR);
    } else if (!yes && !tracker->is_optout) {
        call_error_text(call, CACHING_NO_ERROR);
    } else {
        tracker->is_caching = true;
        reply_ok(&call->reply);
    }
}

static int64_t redirection(const struct tracker *tracker)
{
    return tracker->is_on ? (int64_t)tracker->redirect_id : -1;
}

void cmd_client_getredir(struct call *call)
{
    reply_int(&call->reply, redirection(&call->session->tracker));
}

void cmd_client_trackinginfo(struct call *call)
{
    const struct tracker *tracker = &call->session->tracker;
    struct bytes *prefixes;
    uint32_t count = own_prefixes(call, &prefixes);
    tracking_info_reply(&call->reply, &(struct tracking_info){
                                          .is_on = tracker->is_on,
                                          .is_bcast = tracker->is_bcast,
                                          .is_optin = tracker->is_optin,
                                          .is_optout = tracker->is_optout,
                                          .is_noloop = tracker->is_noloop,
                                          .is_caching = tracker->is_caching,
                                          .is_broken = tracker->is_broken,
                                          .redirect_id = redirection(tracker),
                                          .prefixes = prefixes,
                                          .prefix_count = count,
                                      });
}
