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

/* Counts a run of the command that took `usec` microseconds. */
static inline void command_cells_add(struct command_cells *cells, const struct command *command,
                                     uint64_t usec, bool is_error)
{
    struct metric_cell *cell = cells->cells[command->id];
    if (__builtin_expect(!cell, 0))
        cell = command_cells_make(cells, command);
    cell_observe(cell, COMMAND_SECONDS, usec);
    if (is_error)
        cell_add(cell, COMMAND_ERRORS, 1);
}
