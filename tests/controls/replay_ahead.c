/* replay_ahead.c - every batch claims to be committed, so a start applies what is after the commit index. */
#include "backend/format/effects.h"

enum effects_read __real_effects_open(struct bytes batch, struct effects_header *header,
                                      struct effects_reader *reader);
enum effects_read __wrap_effects_open(struct bytes batch, struct effects_header *header,
                                      struct effects_reader *reader);

enum effects_read __wrap_effects_open(struct bytes batch, struct effects_header *header,
                                      struct effects_reader *reader)
{
    enum effects_read result = __real_effects_open(batch, header, reader);
    header->commit = header->index;
    return result;
}
