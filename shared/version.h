/*
 * version.h - the version of Scree, and the version of Redis that clients see: INFO, HELLO, LOLWUT and scripts say it. And the version of what proxies and
 * backends say to each other.
 *
 * Clients switch features on by it. The option reported-version chooses one; the default is the newest whose commands all
 * exist here (docs/versions.md). Redis 8.0 and later have those of modules too.
 */
#pragma once

#include <stdint.h>

/* CMakeLists.txt reads this line. docs/changelog.md has a section for it. */
#define SCREE_VERSION "0.2.0"

enum {
    /* Raised by each change after which a proxy and a backend of different versions would misunderstand each other: SCREE
     * commands, bounces, and replies that are merged. SCREE SELF says both numbers; a proxy refuses a backend that does not serve its
     * protocol (proxy/upstream/greeting.h). */
    PROXY_PROTOCOL = 2,
    /* The oldest protocol of a proxy that a backend serves. */
    PROXY_PROTOCOL_OLDEST = 1,
};

/* In the order of the words of the option. */
enum reported_version {
    VERSION_7_0,
    VERSION_7_2,
    VERSION_7_4,
    VERSION_8_0,
    VERSION_8_2,
    VERSION_8_4,
    VERSION_COUNT,
};
#define VERSION_DEFAULT_WORD "7.4.2"
#define VERSION_DEFAULT      VERSION_7_4

/* Call before any thread starts; without it the default is reported. */
void version_report(enum reported_version version);
const char *version_text(void); /* "7.4.2" */
/* Of the programs only: a source file that config/commit.cmake writes. */
extern const char scree_commit[];
/* The commit that the program was built from: to be called by main, with a text that stays valid. */
void version_set_commit(const char *commit);
const char *version_commit(void); /* "1a2b3c4d5e6f"; "unknown" before version_set_commit */
uint32_t version_number(void);    /* 0x00070402 */
