#include "shared/version.h"

#include "shared/check.h"

static enum reported_version reported = VERSION_DEFAULT;
static const char *built_from = "unknown";

static const struct {
    const char *text;
    uint32_t number;
} VERSIONS[VERSION_COUNT] = {
    [VERSION_7_0] = {"7.0.15", 0x0007000f}, [VERSION_7_2] = {"7.2.7", 0x00070207},
    [VERSION_7_4] = {"7.4.2", 0x00070402},  [VERSION_8_0] = {"8.0.2", 0x00080002},
    [VERSION_8_2] = {"8.2.1", 0x00080201},  [VERSION_8_4] = {"8.4.0", 0x00080400},
};

void version_report(enum reported_version version)
{
    CHECK(version < VERSION_COUNT);
    reported = version;
}

const char *version_text(void)
{
    return VERSIONS[reported].text;
}

uint32_t version_number(void)
{
    return VERSIONS[reported].number;
}

void version_set_commit(const char *commit)
{
    built_from = commit;
}

const char *version_commit(void)
{
    return built_from;
}
