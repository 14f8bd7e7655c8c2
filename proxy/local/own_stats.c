#include "proxy/local/own_stats.h"

#include "shared/number.h"

#include <inttypes.h>

static void print_own_calls(const struct own_sums *sums, enum command_id id, struct out *out)
{
    double each = sums->calls ? (double)sums->words[OWN_USEC] / (double)sums->calls : 0;
    out_printf(out,
               "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64
               ",usec_per_call=%.2f,rejected_calls=%" PRIu64 ",failed_calls=%" PRIu64 "\r\n",
               command_full_name(command_of(id)), sums->calls, sums->words[OWN_USEC], each,
               sums->words[OWN_REFUSED], sums->words[OWN_FAILED]);
}

/* Prints "p50=…" for the item "p50=1.003". */
static void print_percentile(const struct own_sums *sums, struct bytes item, struct out *out)
{
    const char *equals = item.len ? memchr(item.data, '=', item.len) : NULL;
    double percent;
    if (!equals)
        return;
    struct bytes number = {item.data + 1, (size_t)(equals - item.data) - 1};
    if (number_parse_double(number, &percent))
        out_printf(out, "p%.*s=%.3f", (int)number.len, number.data,
                   histogram_quantile(sums->words + OWN_STEPS, percent / 100));
}

static void print_own_times(const struct own_sums *sums, enum command_id id, struct bytes percents,
                            struct out *out)
{
    if (!sums->calls)
        return;
    out_printf(out, "latency_percentiles_usec_%s:", command_full_name(command_of(id)));
    while (percents.len) {
        const char *comma = memchr(percents.data, ',', percents.len);
        size_t len = comma ? (size_t)(comma - percents.data) : percents.len;
        print_percentile(sums, (struct bytes){percents.data, len}, out);
        if (comma)
            out_printf(out, ",");
        len += comma != NULL;
        percents = (struct bytes){percents.data + len, percents.len - len};
    }
    out_printf(out, "\r\n");
}

uint64_t own_stats_print(struct own_calls *calls, struct bytes percents, struct out *calls_out,
                         struct out *times_out)
{
    struct own_sums sums;
    uint64_t total = 0;
    for (enum command_id id = COMMAND_NONE + 1; id < COMMAND_COUNT; id++) {
        if (!own_calls_read(calls, id, &sums))
            continue;
        total += sums.calls;
        print_own_calls(&sums, id, calls_out);
        print_own_times(&sums, id, percents, times_out);
    }
    return total;
}
