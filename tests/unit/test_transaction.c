/*
 * test_transaction.c - the queue between MULTI and EXEC.
 */
#include "backend/session/transaction_queue.h"

#include "shared/check.h"
#include "shared/command/command.h"

static void test_commands_are_copied_in_order(void)
{
    struct transaction transaction;
    char text[] = "key value";
    const struct bytes set[] = {BYTES("SET"), {text, 3}, {text + 4, 5}};
    const struct bytes get[] = {BYTES("GET"), {"", 0}};
    transaction_init(&transaction);
    transaction_begin(&transaction);
    transaction_queue(&transaction, command_of(COMMAND_set), set, 3);
    transaction_queue(&transaction, command_of(COMMAND_get), get, 2);
    memset(text, 'x', sizeof text);
    const struct queued *first = transaction.first;
    CHECK(transaction.count == 2);
    CHECK(first->command == command_of(COMMAND_set) && first->argc == 3);
    CHECK(bytes_equal(first->argv[1], BYTES("key")) && bytes_equal(first->argv[2], BYTES("value")));
    CHECK(first->next->command == command_of(COMMAND_get) && !first->next->next);
    CHECK(first->next->argv[1].len == 0);
    CHECK(transaction.flags & CMD_WRITE && transaction.flags & CMD_READONLY);
    transaction_end(&transaction);
}

static void test_memory_is_counted_and_freed_with_the_connection(void)
{
    struct transaction transaction;
    const struct bytes argv[] = {BYTES("ECHO"), BYTES("hello")};
    transaction_init(&transaction);
    transaction_begin(&transaction);
    transaction_queue(&transaction, command_of(COMMAND_echo), argv, 2);
    size_t one = transaction.bytes;
    CHECK(one >= 9 + 2 * sizeof(struct bytes));
    transaction_queue(&transaction, command_of(COMMAND_echo), argv, 2);
    CHECK(transaction.bytes == 2 * one);
    transaction.is_aborted = true;
    transaction_end(&transaction);
    CHECK(!transaction.is_open && !transaction.is_aborted && !transaction.bytes &&
          !transaction.first);
    transaction_end(&transaction);
    transaction_begin(&transaction);
    CHECK(transaction.is_open && transaction.count == 0);
    transaction_end(&transaction);
}

int main(void)
{
    command_init();
    test_commands_are_copied_in_order();
    test_memory_is_counted_and_freed_with_the_connection();
    return 0;
}
