/*
 * test_states.c - the states of transactions and of moves may follow each other as their headers draw it.
 */
#include "backend/slots/move_source.h"
#include "backend/slots/move_target.h"
#include "backend/transaction/coordinator_inner.h"
#include "backend/transaction/participant_inner.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 512, STATES_MAX = 32 };

static const struct machine {
    const char *header;
    const struct state_row *states;
    unsigned count;
} machines[] = {
    {"backend/slots/move_source.h", move_source_states, SOURCE_STATES},
    {"backend/slots/move_target.h", move_target_states, TARGET_STATES},
    {"backend/transaction/coordinator_inner.h", coordinated_states, COORDINATED_STATES},
    {"backend/transaction/participant_inner.h", part_states, PART_STATES},
};

/* The index of the state with this name; -1: there is none. */
static int state_named(const struct machine *machine, const char *name)
{
    for (unsigned i = 0; i < machine->count; i++)
        if (strcmp(machine->states[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Reads a line " *   NAME ─► NAME, NAME" into drawn[]. Other lines are left alone: their first word is no state, or
 * something follows that is none. */
static void read_drawn(const struct machine *machine, char *line, uint32_t drawn[STATES_MAX])
{
    char *rest;
    char *from = strtok_r(line, " *\n", &rest);
    char *arrow = strtok_r(NULL, " \n", &rest);
    int state = from ? state_named(machine, from) : -1;
    uint32_t next = 0;
    if (state < 0 || !arrow || strcmp(arrow, "─►") != 0 || strstr(rest, "─►"))
        return;
    for (char *name; (name = strtok_r(NULL, " ,\n", &rest));) {
        int to = state_named(machine, name);
        ck_assert_msg(to >= 0, "%s: %s is no state", machine->header, name);
        next |= STATE_BIT(to);
    }
    ck_assert_msg(!drawn[state], "%s: %s is drawn twice", machine->header, from);
    drawn[state] = next;
}

START_TEST(every_state_is_followed_by_those_that_its_header_draws)
{
    const struct machine *machine = &machines[_i];
    uint32_t drawn[STATES_MAX] = {0};
    char path[LINE];
    char line[LINE];
    (void)snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, machine->header);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        read_drawn(machine, line, drawn);
    (void)fclose(file);
    for (unsigned i = 0; i < machine->count; i++)
        ck_assert_msg(drawn[i] == machine->states[i].next, "%s: after %s come %x, drawn are %x",
                      machine->header, machine->states[i].name, machine->states[i].next, drawn[i]);
}
END_TEST

START_TEST(every_state_has_a_name_and_a_word)
{
    const struct machine *machine = &machines[_i];
    ck_assert_uint_le(machine->count, STATES_MAX);
    for (unsigned i = 0; i < machine->count; i++) {
        ck_assert_ptr_nonnull(machine->states[i].name);
        ck_assert_ptr_nonnull(machine->states[i].word);
        ck_assert_int_eq(state_named(machine, machine->states[i].name), (int)i);
    }
}
END_TEST

/* All states but the first must be reachable from it, or be one in which a restart finds the machine. */
START_TEST(every_state_is_reached)
{
    const struct machine *machine = &machines[_i];
    uint32_t reached = 1;
    for (unsigned i = 0; i < machine->count; i++)
        reached |= machine->states[i].next;
    ck_assert_uint_eq(reached, UINT32_MAX >> (32 - machine->count));
}
END_TEST

int main(void)
{
    const int count = sizeof machines / sizeof machines[0];
    Suite *suite = suite_create("states");
    TCase *tcase = tcase_create("states");
    tcase_add_loop_test(tcase, every_state_is_followed_by_those_that_its_header_draws, 0, count);
    tcase_add_loop_test(tcase, every_state_has_a_name_and_a_word, 0, count);
    tcase_add_loop_test(tcase, every_state_is_reached, 0, count);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
