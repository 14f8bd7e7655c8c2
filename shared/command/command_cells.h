/*
 * command_cells.h - metrics of each command: calls, errors and times, of one thread (metric_labels.h).
 */
#pragma once

#include "shared/command/command.h"
#include "shared/metric_labels.h"

enum { COMMAND_SECONDS = 0, COMMAND_ERRORS = HISTOGRAM_WORDS, COMMAND_WORDS };

struct command_cells {
    struct labels *labels;
    uint32_t thread;
    struct metric_cell *cells[COMMAND_COUNT]; /* NULL: not called yet */
};

/* Makes the command's cell. */
struct metric_cell *command_cells_make(struct command_cells *cells, const struct command *command);

/* Counts runs of the command, with their times in microseconds. */
static inline void command_cells_add_many(struct command_cells *cells,
                                          const struct command *command,
                                          const struct cell_values *usec, bool are_errors)
{
    struct metric_cell *cell = cells->cells[command->id];
    if (__builtin_expect(!cell, 0))
        cell = command_cells_make(cells, command);
    cell_observe_many(cell, COMMAND_SECONDS, usec);
    if (are_errors)
        cell_add(cell, COMMAND_ERRORS, usec->count);
}
static inline void command_cells_add(struct command_cells *cells, const struct command *command,
                                     uint64_t usec, bool is_error)
{
    command_cells_add_many(cells, command, &(struct cell_values){usec, 1, usec}, is_error);
}
