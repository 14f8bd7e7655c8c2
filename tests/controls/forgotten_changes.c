/* forgotten_changes.c - a participant that reads the record of a prepared transaction forgets the changes to be reported. */
#include "backend/format/transaction_record.h"

bool __real_decode_prepared(struct bytes value, struct bytes *effects, struct bytes *changes);
bool __wrap_decode_prepared(struct bytes value, struct bytes *effects, struct bytes *changes);

bool __wrap_decode_prepared(struct bytes value, struct bytes *effects, struct bytes *changes)
{
    bool is_good = __real_decode_prepared(value, effects, changes);
    *changes = (struct bytes){"", 0};
    return is_good;
}
