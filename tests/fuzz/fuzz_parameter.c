/*
 * fuzz_parameter.c - parameters with a syntax of their own: a value that is read and printed is equal when it is read
 * again.
 */
#include "backend/context/output_limit.h"
#include "backend/session/notify.h"
#include "shared/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_events(struct bytes text)
{
    unsigned classes;
    unsigned again;
    char shown[NOTIFY_TEXT_MAX];
    if (!notify_parse(text, &classes))
        return;
    size_t len = notify_format(classes, shown);
    CHECK(len < NOTIFY_TEXT_MAX);
    CHECK(notify_parse((struct bytes){shown, len}, &again));
    /* class n is not printed together with A */
    CHECK((again | NOTIFY_NEW) == (classes | NOTIFY_NEW));
}

static void check_limits(struct bytes text)
{
    struct output_limit limits[OUTPUT_CLASSES] = {0};
    struct output_limit again[OUTPUT_CLASSES] = {0};
    char shown[OUTPUT_LIMITS_TEXT_MAX];
    const char *error;
    if (!output_limits_parse(text, limits, &error))
        return;
    size_t len = output_limits_format(limits, shown);
    CHECK(len < OUTPUT_LIMITS_TEXT_MAX);
    CHECK(output_limits_parse((struct bytes){shown, len}, again, &error));
    CHECK(memcmp(limits, again, sizeof limits) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct bytes text = {(const char *)input, size};
    check_events(text);
    check_limits(text);
    return 0;
}
