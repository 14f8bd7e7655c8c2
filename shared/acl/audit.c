#include "shared/acl/audit.h"

#include "shared/command/secret.h"
#include "shared/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_SHOWN = 16, WORD_BYTES_SHOWN = 64, EVERY_MS = 1000 };

static bool is_question(struct bytes word)
{
    return bytes_is(word, "status") || bytes_is(word, "list") || bytes_is(word, "help");
}

bool audit_wants(const struct command *command, const struct bytes *argv, uint32_t argc)
{
    uint32_t words = command->parent == COMMAND_NONE ? 1 : 2; /* of the command's name */
    if (command->traits & TRAIT_AUDITED_ACTIONS)
        return argc > words && !is_question(argv[words]);
    return command->traits & TRAIT_AUDITED;
}

void audit_command(struct bytes user, const char *client, const struct command *command,
                   const struct bytes *argv, uint32_t argc)
{
    char text[WORDS_SHOWN * (WORD_BYTES_SHOWN + 1) + 8];
    size_t len = 0;
    uint32_t first = command->parent == COMMAND_NONE ? 1 : 2;
    text[0] = '\0';
    for (uint32_t i = first; i < argc && i < first + WORDS_SHOWN; i++) {
        struct bytes word = secret_argument(command, argv, i) ? BYTES("(redacted)") : argv[i];
        bool is_long = word.len > WORD_BYTES_SHOWN;
        len += (size_t)snprintf(text + len, sizeof text - len, " %.*s",
                                (int)(is_long ? WORD_BYTES_SHOWN : word.len), word.data);
    }
    log_event(LOG_INFO, "admin_command", "user=\"%.*s\" client=%s command=\"%s%s%s\"",
              (int)user.len, user.data, client, command_full_name(command), text,
              argc > first + WORDS_SHOWN ? " ..." : "");
}

/* The value of addr= in a line of CLIENT LIST. */
static struct bytes address_in(struct bytes line)
{
    static const char field[] = " addr=";
    const char *found = memmem(line.data, line.len, field, sizeof field - 1);
    if (!found)
        return BYTES("");
    found += sizeof field - 1;
    const char *end = memchr(found, ' ', line.len - (size_t)(found - line.data));
    return (struct bytes){found,
                          end ? (size_t)(end - found) : line.len - (size_t)(found - line.data)};
}

void audit_refusal(const struct acl_event *event)
{
    static _Atomic uint64_t logged_ms;
    static _Atomic uint64_t held_back;
    uint64_t last_ms = atomic_load(&logged_ms);
    if (event->at_ms < last_ms + EVERY_MS ||
        !atomic_compare_exchange_strong(&logged_ms, &last_ms, event->at_ms)) {
        atomic_fetch_add(&held_back, 1);
        return;
    }
    struct bytes client = address_in(event->client);
    unsigned long long times = atomic_exchange(&held_back, 0) + 1;
    if (event->reason == ACL_DENIED_AUTH)
        log_event(LOG_WARN, "login_failed", "user=\"%.*s\" client=%.*s times=%llu",
                  (int)event->user.len, event->user.data, (int)client.len, client.data, times);
    else
        log_event(LOG_WARN, "access_refused",
                  "user=\"%.*s\" client=%.*s reason=%s object=\"%.*s\" times=%llu",
                  (int)event->user.len, event->user.data, (int)client.len, client.data,
                  acl_denied_name(event->reason), (int)event->object.len, event->object.data,
                  times);
}
