#include "shared/error.h"

#include "shared/check.h"

// clang-format off
static const char *const texts[ERROR_COUNT] = {
    [OK] = "OK",
#define ERROR(name, text) [name] = text,
#include "shared/errors.def"
#undef ERROR
};
// clang-format on

const char *error_text(enum error error)
{
    CHECK((unsigned)error < ERROR_COUNT);
    return texts[error];
}
