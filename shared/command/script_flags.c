#include "shared/command/script_flags.h"

#include "shared/command/command.h"
#include "shared/shebang.h"

#include <string.h>

const char *const script_flag_names[SCRIPT_FLAGS_COUNT] = {"no-writes", "allow-oom", "allow-stale",
                                                           "no-cluster", "allow-cross-slot-keys"};

uint32_t script_flag_named(const char *name)
{
    for (uint32_t i = 0; i < SCRIPT_FLAGS_COUNT; i++)
        if (strcmp(name, script_flag_names[i]) == 0)
            return 1u << i;
    return 0;
}

/* Adds the flags of a word "flags=no-writes,allow-oom". False: the word is another one, or a flag is unknown. */
static bool add_flags(char *word, uint32_t *flags)
{
    static const char head[] = "flags=";
    if (strncmp(word, head, sizeof head - 1) != 0)
        return false;
    char *list = word + sizeof head - 1;
    for (char *name; (name = strsep(&list, ","));) {
        uint32_t flag = script_flag_named(name);
        if (*name && !flag)
            return false;
        *flags |= flag;
    }
    return true;
}

uint32_t script_text_flags(struct bytes script)
{
    char word[SHEBANG_WORD_MAX];
    uint32_t flags = SCRIPT_DECLARED;
    const char *end = memchr(script.data, '\n', script.len);
    if (script.len < 2 || memcmp(script.data, "#!", 2) != 0 || !end)
        return 0;
    struct bytes line = {script.data, (size_t)(end - script.data)};
    if (!shebang_is_whole(line) || shebang_next(&line, word, sizeof word) != SHEBANG_WORD ||
        strcmp(word, "#!lua") != 0)
        return 0;
    while (shebang_next(&line, word, sizeof word) == SHEBANG_WORD)
        if (!add_flags(word, &flags))
            return 0;
    return flags;
}

uint32_t script_command_flags(uint32_t command_flags, uint32_t script_flags)
{
    if (!(script_flags &
          SCRIPT_DECLARED)) /* in Redis EVAL has CMD_MAY_REPLICATE, which COMMAND INFO hides */
        return command_flags | (command_flags & CMD_READONLY ? 0 : CMD_MAY_REPLICATE);
    uint32_t flags =
        command_flags & ~(uint32_t)(CMD_STALE | CMD_DENYOOM | CMD_WRITE | CMD_MAY_REPLICATE);
    if (!(script_flags & SCRIPT_NO_WRITES))
        flags |= CMD_WRITE;
    if (!(script_flags & (SCRIPT_NO_WRITES | SCRIPT_ALLOW_OOM)))
        flags |= CMD_DENYOOM;
    if (script_flags & SCRIPT_ALLOW_STALE)
        flags |= CMD_STALE;
    return flags;
}
