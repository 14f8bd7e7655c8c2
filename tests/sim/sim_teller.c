#include "tests/sim/sim_teller.h"

#include "shared/check.h"
#include "shared/net/loop.h"
#include "shared/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECT_MS = 1000,
    PACE_MS = 10,
    LEAVE_ONE_IN = 100,
    ALL_ACCOUNTS = (1 << BANK_ACCOUNTS) - 1
};

/* ---- requests ---- */

static void request(struct sim_teller *teller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends a request with one reply. */
static void request(struct sim_teller *teller, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK(len > 0 && len < (int)sizeof text);
    out_printf(stream_out(teller->stream), "%s\r\n", text);
    teller->replies++;
}

/* Before a command that may use keys of several shards. */
static const char *prefix(const struct sim_teller *teller)
{
    return teller->proxy < 0 ? "SCREE ACROSS " : "";
}

static void end_exec(struct sim_teller *teller)
{
    request(teller, "%sEXEC", prefix(teller));
}

static void enter(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_bank *bank = teller->bank;
    request(teller, "RPUSH %s %u", bank->ledgers[deal->from].key, deal->number);
    request(teller, "RPUSH %s %u", bank->ledgers[deal->to].key, deal->number);
}

static void send_declared(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_ledger *from = &teller->bank->ledgers[deal->from];
    const struct sim_ledger *to = &teller->bank->ledgers[deal->to];
    request(
        teller,
        "%sEVAL \"redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1]) "
        "redis.call('RPUSH', KEYS[3], ARGV[2]) return redis.call('RPUSH', KEYS[4], ARGV[2])\" "
        "4 %s %s %s %s %" PRId64 " %u",
        prefix(teller), from->account, to->account, from->key, to->key, deal->amount, deal->number);
}

/* The script declares no key, so it halts for each that is at another shard (halt.h). Between reading and writing the accounts it
 * must not lose what others write. */
static void request_undeclared(struct sim_teller *teller, const char *before)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_ledger *from = &teller->bank->ledgers[deal->from];
    const struct sim_ledger *to = &teller->bank->ledgers[deal->to];
    request(teller,
            "%sEVAL \"local a = redis.call('GET', '%s') redis.call('RPUSH', '%s', ARGV[2]) "
            "local b = redis.call('GET', '%s') redis.call('SET', '%s', a - ARGV[1]) "
            "redis.call('RPUSH', '%s', ARGV[2]) return redis.call('SET', '%s', b + ARGV[1])\" "
            "0 %" PRId64 " %u",
            before, from->account, from->key, to->account, from->account, to->key, to->account,
            deal->amount, deal->number);
}

static void send_undeclared(struct sim_teller *teller)
{
    request_undeclared(teller, prefix(teller));
}

/* EXEC halts in its script, between commands that must be done once. */
static void send_halting_exec(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const char *account = teller->bank->ledgers[deal->from].account;
    request(teller, "MULTI");
    request(teller, "DECRBY %s 7", account);
    request_undeclared(teller, "");
    request(teller, "INCRBY %s 7", account);
    end_exec(teller);
}

static void send_exec(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_bank *bank = teller->bank;
    if (deal->number % 3 == 0) {
        send_halting_exec(teller);
        return;
    }
    request(teller, "MULTI");
    request(teller, "DECRBY %s %" PRId64, bank->ledgers[deal->from].account, deal->amount);
    request(teller, "INCRBY %s %" PRId64, bank->ledgers[deal->to].account, deal->amount);
    enter(teller);
    end_exec(teller);
}

/* As send_undeclared, but the script halts inside a function in C. */
static void send_protected(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_ledger *from = &teller->bank->ledgers[deal->from];
    const struct sim_ledger *to = &teller->bank->ledgers[deal->to];
    request(teller,
            "%sEVAL \"redis.call('DECRBY', '%s', ARGV[1]) redis.call('RPUSH', '%s', ARGV[2]) "
            "local good, reply = pcall(redis.call, 'INCRBY', '%s', ARGV[1]) "
            "if not good then return reply end return redis.call('RPUSH', '%s', ARGV[2])\" "
            "0 %" PRId64 " %u",
            prefix(teller), from->account, from->key, to->account, to->key, deal->amount,
            deal->number);
}

static void send_script(struct sim_teller *teller)
{
    unsigned kind = teller->deal->number % 4;
    if (kind == 0)
        send_declared(teller);
    else if (kind == 1)
        send_protected(teller);
    else
        send_undeclared(teller);
}

static void send_watch(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const char *from = teller->bank->ledgers[deal->from].account;
    const char *to = teller->bank->ledgers[deal->to].account;
    request(teller, "%sWATCH %s %s", prefix(teller), from, to);
    request(teller, "%sMGET %s %s", prefix(teller), from, to);
}

static void send_watched(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_bank *bank = teller->bank;
    teller->has_read = true;
    request(teller, "MULTI");
    request(teller, "SET %s %" PRId64, bank->ledgers[deal->from].account,
            deal->balances[0] - deal->amount);
    request(teller, "SET %s %" PRId64, bank->ledgers[deal->to].account,
            deal->balances[1] + deal->amount);
    enter(teller);
    end_exec(teller);
}

static void send_move(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_bank *bank = teller->bank;
    unsigned from = deal->from;
    unsigned to = deal->to;
    if (deal->kind == DEAL_LMOVE)
        request(teller, "%sLMOVE %s %s LEFT RIGHT", prefix(teller), bank->purses[from],
                bank->purses[to]);
    else if (deal->kind == DEAL_SMOVE)
        request(teller, "%sSMOVE %s %s %u", prefix(teller), bank->bags[from], bank->bags[to],
                deal->thing);
    else
        request(teller, "%sRENAME %s %s", prefix(teller), bank->tokens[deal->thing][from],
                bank->tokens[deal->thing][to]);
}

static void send_trio(struct sim_teller *teller)
{
    const struct sim_bank *bank = teller->bank;
    unsigned number = teller->deal->number;
    if (teller->deal->kind == DEAL_MSETNX) {
        request(teller, "%sMSETNX %s %u %s %u %s %u", prefix(teller), bank->trio[0], number,
                bank->trio[1], number, bank->trio[2], number);
        return;
    }
    request(teller, "MULTI");
    for (unsigned i = 0; i < BANK_PLACES; i++)
        request(teller, "DEL %s", bank->trio[i]);
    end_exec(teller);
}

/* The place of the deal's member: before, among, or behind the others. */
static int score_of_member(const struct sim_teller *teller)
{
    return (int)(teller->deal->number * 37 % (12 * BANK_MEMBERS)) - BANK_MEMBERS;
}

static void add_member(struct sim_teller *teller, unsigned account)
{
    request(teller, "ZADD %s %d d%u", teller->bank->ledgers[account].table, score_of_member(teller),
            teller->deal->number);
}

/* The script asks for ranks before and after it halts, so what is cached of the tables is made in its view and outside, in turn. */
static void send_ranked_script(struct sim_teller *teller)
{
    const struct sim_bank *bank = teller->bank;
    const char *from = bank->ledgers[teller->deal->from].table;
    const char *to = bank->ledgers[teller->deal->to].table;
    request(teller,
            "%sEVAL \"redis.call('ZADD', '%s', ARGV[1], ARGV[2]) redis.call('ZRANK', '%s', 'm150') "
            "redis.call('ZADD', '%s', ARGV[1], ARGV[2]) redis.call('ZRANK', '%s', 'm150') "
            "redis.call('GET', '%s') redis.call('GET', '%s') redis.call('ZRANK', '%s', 'm150') "
            "return redis.call('ZRANK', '%s', 'm150')\" 0 %d d%u",
            prefix(teller), from, from, to, to, bank->ledgers[teller->deal->from].account,
            bank->ledgers[teller->deal->to].account, from, to, score_of_member(teller),
            teller->deal->number);
}

static void send_ranked(struct sim_teller *teller)
{
    if (teller->deal->number % 2) {
        send_ranked_script(teller);
        return;
    }
    request(teller, "MULTI");
    add_member(teller, teller->deal->from);
    add_member(teller, teller->deal->to);
    end_exec(teller);
}

static void send_table(struct sim_teller *teller)
{
    const char *table = teller->bank->ledgers[teller->deal->from].table;
    if (teller->deal->kind == DEAL_MEMBER) {
        add_member(teller, teller->deal->from);
        return;
    }
    request(
        teller,
        "EVAL \"local t = KEYS[1] local r = {redis.call('ZCARD', t), redis.call('ZRANK', t, "
        "'m150'), "
        "redis.call('ZCOUNT', t, '-inf', '(1500')} "
        "for _, m in ipairs(redis.call('ZRANGE', t, 0, -1)) do r[#r + 1] = m end return r\" 1 %s",
        table);
}

/* The script halts before and after it uses all keys of the database. */
static void send_page_script(struct sim_teller *teller, const char *set, const char *then)
{
    struct out *out = stream_out(teller->stream);
    out_printf(out,
               "%sEVAL \"local r, n, size = {}, ARGV[1] %% #ARGV, redis.call('DBSIZE') "
               "local function use(from, to) for i = from, to do %s end end use(2, n) %s "
               "if size ~= redis.call('DBSIZE') then return redis.error_reply('ERR DBSIZE') end "
               "r[2] = size return r\" 0 %u",
               prefix(teller), set, then, teller->deal->number);
    for (unsigned i = 0; i < BANK_PAGES; i++)
        out_printf(out, " %s", teller->bank->pages[i]);
    out_printf(out, "\r\n");
    teller->replies++;
}

#define GET_PAGE "r[i + 1] = redis.call('GET', ARGV[i])"
#define SET_PAGE                                                                                   \
    "size = size + 1 - redis.call('EXISTS', ARGV[i]) redis.call('SET', ARGV[i], ARGV[1])"

static void send_pages(struct sim_teller *teller)
{
    const struct sim_bank *bank = teller->bank;
    bool is_look = teller->deal->kind == LOOK_PAGES;
    bool flushes = !is_look && sim_random(4);
    bool is_empty = flushes && sim_random(2);
    if (teller->deal->number % 2) {
        send_page_script(teller, is_look ? GET_PAGE : SET_PAGE,
                         is_look ? "r[1] = redis.call('KEYS', '*') use(math.max(n + 1, 2), #ARGV)"
                         : is_empty ? "redis.call('FLUSHDB') size = 0"
                         : flushes  ? "redis.call('FLUSHDB') size = 0 use(2, #ARGV)"
                                    : "use(2, #ARGV)");
        return;
    }
    request(teller, "MULTI");
    if (is_look) {
        request(teller, "KEYS *");
        request(teller, "DBSIZE");
    }
    if (flushes)
        request(teller, "FLUSHDB");
    for (unsigned i = 0; i < BANK_PAGES && !is_empty; i++) {
        if (is_look)
            request(teller, "GET %s", bank->pages[i]);
        else
            request(teller, "SET %s %u", bank->pages[i], teller->deal->number);
    }
    end_exec(teller);
}

/* A command of a LOOK: in MULTI, or in the text of a script. */
struct look {
    struct sim_teller *teller;
    struct out script;
};

static void read_key(struct look *look, const char *command, const char *key, const char *more)
{
    if (look->teller->deal->kind == LOOK_EXEC)
        request(look->teller, "%s %s%s", command, key, *more ? " 0 -1" : "");
    else
        out_printf(&look->script, "redis.call('%s','%s'%s),", command, key, more);
}

static void read_rank(struct look *look, const char *table)
{
    if (look->teller->deal->kind == LOOK_EXEC) {
        request(look->teller, "ZRANK %s m150", table);
        request(look->teller, "ZCOUNT %s -inf (1500", table);
    } else {
        out_printf(&look->script, "redis.call('ZRANK','%s','m150'),", table);
        out_printf(&look->script, "redis.call('ZCOUNT','%s','-inf','(1500'),", table);
    }
}

static void read_all(struct look *look)
{
    const struct sim_bank *bank = look->teller->bank;
    const struct sim_deal *deal = look->teller->deal;
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++) {
        if (!(deal->accounts & 1u << i))
            continue;
        read_key(look, "GET", bank->ledgers[i].account, "");
        read_key(look, "LRANGE", bank->ledgers[i].key, ",0,-1");
    }
    for (unsigned i = 0; i < BANK_PLACES && deal->has_rest; i++)
        read_key(look, "LRANGE", bank->purses[i], ",0,-1");
    for (unsigned i = 0; i < BANK_PLACES && deal->has_rest; i++)
        read_key(look, "SMEMBERS", bank->bags[i], "");
    for (unsigned i = 0; i < BANK_PLACES * BANK_THINGS && deal->has_rest; i++)
        read_key(look, "GET", bank->tokens[i / BANK_PLACES][i % BANK_PLACES], "");
    for (unsigned i = 0; i < BANK_PLACES && deal->has_rest; i++)
        read_key(look, "GET", bank->trio[i], "");
    for (unsigned i = 0; i < BANK_ACCOUNTS && deal->has_rest; i++)
        read_rank(look, bank->ledgers[i].table);
}

static void send_look(struct sim_teller *teller)
{
    struct look look = {.teller = teller};
    out_init(&look.script);
    if (teller->deal->kind == LOOK_EXEC)
        request(teller, "MULTI");
    read_all(&look);
    if (teller->deal->kind == LOOK_EXEC) {
        end_exec(teller);
        return;
    }
    struct out *out = stream_out(teller->stream);
    out_printf(out, "%sEVAL \"return {", prefix(teller));
    out_move(out, &look.script);
    out_printf(out, "}\" 0\r\n");
    teller->replies++;
}

static void fill_table(struct sim_teller *teller, const char *table)
{
    struct out *out = stream_out(teller->stream);
    out_printf(out, "ZADD %s", table);
    for (unsigned i = 0; i < BANK_MEMBERS; i++)
        out_printf(out, " %u m%03u", 10 * i, i);
    out_printf(out, "\r\n");
    teller->replies++;
}

static void send_setup(struct sim_teller *teller)
{
    const struct sim_bank *bank = teller->bank;
    request(teller, "MULTI");
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        request(teller, "SET %s %d", bank->ledgers[i].account, BANK_START);
    for (unsigned i = 0; i < BANK_ACCOUNTS; i++)
        fill_table(teller, bank->ledgers[i].table);
    for (unsigned i = 0; i < BANK_THINGS; i++) {
        unsigned place = i % BANK_PLACES;
        request(teller, "RPUSH %s %u", bank->purses[place], i);
        request(teller, "SADD %s %u", bank->bags[place], i);
        request(teller, "SET %s %u", bank->tokens[i][place], i);
    }
    end_exec(teller);
}

static void send_single(struct sim_teller *teller)
{
    const struct sim_deal *deal = teller->deal;
    const struct sim_ledger *ledger = &teller->bank->ledgers[deal->from];
    if (deal->kind == DEAL_ENTRY)
        request(teller, "RPUSH %s %u", ledger->key, deal->number);
    else if (deal->kind == DEAL_DEPOSIT)
        request(teller, "INCRBY %s 1", ledger->account);
    else
        request(teller, "LRANGE %s 0 -1", ledger->key);
}

static void send_deal(struct sim_teller *teller)
{
    static void (*const senders[])(struct sim_teller * teller) = {
        [DEAL_EXEC] = send_exec,     [DEAL_SCRIPT] = send_script, [DEAL_WATCHED] = send_watch,
        [DEAL_LMOVE] = send_move,    [DEAL_SMOVE] = send_move,    [DEAL_RENAME] = send_move,
        [DEAL_MSETNX] = send_trio,   [DEAL_CLEAR] = send_trio,    [LOOK_EXEC] = send_look,
        [LOOK_SCRIPT] = send_look,   [DEAL_ENTRY] = send_single,  [DEAL_DEPOSIT] = send_single,
        [LOOK_LEDGER] = send_single, [DEAL_PAGES] = send_pages,   [LOOK_PAGES] = send_pages,
        [DEAL_RANKED] = send_ranked, [DEAL_MEMBER] = send_table,  [LOOK_RANKS] = send_table,
        [DEAL_SETUP] = send_setup,
    };
    bool has_pages = teller->deal->kind == DEAL_PAGES || teller->deal->kind == LOOK_PAGES;
    if (has_pages != teller->is_at_pages)
        request(teller, "SELECT %d", has_pages);
    teller->is_at_pages = has_pages;
    teller->has_read = false;
    senders[teller->deal->kind](teller);
    stream_send(teller->stream);
}

/* ---- replies ---- */

static void end_deal(struct sim_teller *teller, enum deal_fate fate, struct bytes reply)
{
    bool is_again = teller->is_stubborn && fate != DEAL_DONE;
    sim_bank_end(teller->bank, teller->deal, fate, reply);
    teller->deal = NULL;
    teller->quota += is_again;
}

static void disconnect(struct sim_teller *teller)
{
    if (teller->stream)
        stream_abort(teller->stream);
    teller->stream = NULL;
    teller->replies = 0;
    if (teller->deal)
        end_deal(teller,
                 teller->deal->kind == DEAL_WATCHED && !teller->has_read ? DEAL_REFUSED
                                                                         : DEAL_UNKNOWN,
                 BYTES("disconnected"));
}

static bool begins(struct bytes text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.data, with, len) == 0;
}

static enum deal_fate fate_of_error(struct sim_teller *teller, struct bytes error)
{
    struct sim_bank *bank = teller->bank;
    if (bank->must_try && teller->proxy >= 0 && begins(error, "TRYAGAIN"))
        sim_bank_fail(bank, "deal %u: %.*s", teller->deal->number, (int)error.len, error.data);
    if (begins(error, "TRYAGAIN") || begins(error, "EXECABORT"))
        return DEAL_REFUSED;
    if (teller->deal->kind == DEAL_RENAME && begins(error, "ERR no such key"))
        return DEAL_REFUSED;
    if (!bank->may_fail || begins(error, "ERR DBSIZE"))
        sim_bank_fail(bank, "an error without a fault: %.*s", (int)error.len, error.data);
    return DEAL_UNKNOWN;
}

/* No command of an EXEC may fail. */
static void check_parts(struct sim_teller *teller, struct bytes frame)
{
    struct resp_value value;
    for (size_t pos = 0; pos < frame.len && resp_value_next(frame, &pos, &value);)
        if (value.type == '-' || value.type == '!')
            sim_bank_fail(teller->bank, "a command in deal %u failed: %.*s", teller->deal->number,
                          (int)value.text.len, value.text.data);
}

static void take_last(struct sim_teller *teller, struct bytes frame)
{
    struct sim_deal *deal = teller->deal;
    struct resp_value value;
    size_t pos = 0;
    CHECK(resp_value_next(frame, &pos, &value));
    if (value.type == '-') {
        end_deal(teller, fate_of_error(teller, value.text), value.text);
        return;
    }
    check_parts(teller, frame);
    bool is_look = deal->kind == LOOK_EXEC || deal->kind == LOOK_SCRIPT ||
                   deal->kind == LOOK_LEDGER || deal->kind == LOOK_PAGES ||
                   deal->kind == LOOK_RANKS;
    if (is_look && value.is_null)
        sim_bank_fail(teller->bank, "a read was answered with null");
    if (is_look && !teller->bank->why[0])
        sim_bank_look(teller->bank, deal, frame);
    end_deal(teller, value.is_null ? DEAL_REFUSED : DEAL_DONE, value.text);
}

/* The balances of the watched accounts. */
static void take_balances(struct sim_teller *teller, struct bytes frame)
{
    struct resp_value value;
    size_t pos = 0;
    CHECK(resp_value_next(frame, &pos, &value));
    for (int i = 0; value.type != '-' && i < 2; i++) {
        struct resp_value balance;
        CHECK(resp_value_next(frame, &pos, &balance));
        if (!number_parse_int64(balance.text, &teller->deal->balances[i]))
            value.type = '-';
    }
    if (value.type == '-') {
        disconnect(teller); /* it may watch a key */
        return;
    }
    send_watched(teller);
    stream_send(teller->stream);
}

static void take_reply(struct sim_teller *teller, struct bytes frame)
{
    bool is_watch = teller->deal->kind == DEAL_WATCHED && !teller->has_read;
    teller->replies--;
    if (is_watch && *frame.data == '-')
        disconnect(teller);
    else if (teller->replies == 0 && is_watch)
        take_balances(teller, frame);
    else if (teller->replies == 0)
        take_last(teller, frame);
}

static size_t on_data(void *owner, struct block *block, const char *data, size_t len, size_t *need)
{
    struct sim_teller *teller = owner;
    size_t used = 0;
    (void)block;
    while (used < len && teller->stream) {
        enum resp_result result = resp_skip(&teller->skip, data + used, len - used);
        CHECK(result != RESP_BAD);
        if (result == RESP_MORE) {
            *need = teller->skip.need;
            break;
        }
        struct bytes frame = {data + used, teller->skip.size};
        used += frame.len;
        if (teller->greetings > 0 && *frame.data == '-')
            disconnect(teller);
        else if (teller->greetings > 0)
            teller->greetings--;
        else if (!teller->deal)
            sim_bank_fail(teller->bank, "received a reply without a request");
        else
            take_reply(teller, frame);
    }
    return used;
}

/* ---- connections ---- */

static void on_end(void *owner, int err)
{
    (void)err;
    disconnect(owner);
}

/* Greets a partition as a proxy does. */
static void greet_partition(struct sim_teller *teller)
{
    const struct sim_cluster *cluster = teller->bank->cluster;
    const unsigned slots = SLOT_COUNT / SIM_RANGES;
    struct out *out = stream_out(teller->stream);
    out_printf(out, "SCREE AUTH secret\r\nSCREE SLOTS \"");
    const char *space = "";
    for (unsigned range = 0; range < SIM_RANGES; range++) {
        if (cluster->owners[range] != teller->shard)
            continue;
        out_printf(out, "%s%u-%u", space, range * slots, (range + 1) * slots - 1);
        space = " ";
    }
    out_printf(out, "\"\r\n");
    teller->greetings = 2;
}

static void on_open(void *owner, int err)
{
    struct sim_teller *teller = owner;
    if (err) {
        disconnect(teller);
        return;
    }
    if (teller->proxy < 0) {
        greet_partition(teller);
    } else {
        out_printf(stream_out(teller->stream), "AUTH default default\r\n");
        teller->greetings = 1;
    }
    if (sim_random(2)) {
        out_printf(stream_out(teller->stream), "HELLO 3\r\n");
        teller->greetings++;
    }
    stream_send(teller->stream);
}

static void connect_now(struct sim_teller *teller)
{
    static const struct stream_events events = {.on_data = on_data, .on_end = on_end};
    const struct sim_cluster *cluster = teller->bank->cluster;
    if (!teller->is_stubborn) {
        teller->proxy =
            cluster->plan.proxies && sim_random(2) ? (int)sim_random(cluster->plan.proxies) : -1;
        teller->shard = (unsigned)sim_random(cluster->shard_count);
    }
    teller->skip = (struct resp_skip){0};
    teller->is_at_pages = false;
    teller->greetings = 1; /* until it is open */
    const char *address = teller->proxy >= 0 ? cluster->proxies[teller->proxy].address
                                             : cluster->shards[teller->shard].addresses[0];
    teller->stream = stream_connect(teller->loop, address, CONNECT_MS, &events, on_open, teller);
}

static void begin_deal(struct sim_teller *teller)
{
    unsigned kind = teller->is_stubborn ? teller->kinds : (unsigned)sim_random(DEAL_KINDS);
    if (!teller->is_stubborn && !(teller->kinds & 1u << kind))
        return;
    teller->deal = sim_bank_begin(teller->bank, (enum deal_kind)kind,
                                  teller->proxy < 0 ? (int)teller->shard : -1);
    if (!teller->deal)
        return;
    if (teller->is_stubborn && kind == LOOK_EXEC) {
        teller->deal->accounts = ALL_ACCOUNTS;
        teller->deal->has_rest = true;
    }
    teller->quota--;
    send_deal(teller);
}

static void on_act(void *owner)
{
    struct sim_teller *teller = owner;
    timer_start(teller->timer, 1 + sim_random(PACE_MS), 0);
    if (teller->quota == 0 && !teller->deal)
        return;
    if (!teller->stream)
        connect_now(teller);
    else if (sim_random(LEAVE_ONE_IN) == 0 && !teller->is_stubborn)
        disconnect(teller); /* perhaps during a deal */
    else if (teller->greetings == 0 && !teller->deal)
        begin_deal(teller);
}

/* ---- start and end ---- */

void sim_teller_start(struct sim_teller *teller, struct sim_bank *bank, unsigned number,
                      uint32_t kinds, unsigned quota)
{
    *teller = (struct sim_teller){.bank = bank, .proxy = -1, .kinds = kinds, .quota = quota};
    (void)snprintf(teller->name, sizeof teller->name, "teller-%u", number);
    sim_set_host(teller->name);
    teller->loop = loop_new();
    teller->timer = timer_new(teller->loop, on_act, teller);
    timer_start(teller->timer, sim_random(4), 0);
}

void sim_teller_start_one(struct sim_teller *teller, struct sim_bank *bank, unsigned number,
                          enum deal_kind kind, int proxy, unsigned shard)
{
    sim_teller_start(teller, bank, number, kind, 1);
    teller->is_stubborn = true;
    teller->proxy = proxy;
    teller->shard = shard;
}

void sim_teller_end(struct sim_teller *teller)
{
    teller->quota = 0;
}

bool sim_teller_is_idle(const struct sim_teller *teller)
{
    return teller->quota == 0 && !teller->deal;
}

void sim_teller_fini(struct sim_teller *teller)
{
    disconnect(teller);
    timer_free(teller->timer);
    loop_free(teller->loop);
}
