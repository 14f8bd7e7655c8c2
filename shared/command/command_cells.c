#include "shared/command/command_cells.h"

struct metric_cell *command_cells_make(struct command_cells *cells, const struct command *command)
{
    struct metric_cell *cell =
        labels_cell(cells->labels, bytes_of(command->full_name), cells->thread);
    cells->cells[command->id] = cell;
    return cell;
}
