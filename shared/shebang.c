#include "shared/shebang.h"

#include <ctype.h>

static size_t spaces_before_word(struct bytes line)
{
    size_t at = 0;
    while (at < line.len && isspace((unsigned char)line.data[at]))
        at++;
    return at;
}

enum shebang_word shebang_next(struct bytes *line, char *word, size_t size)
{
    size_t len = 0;
    size_t at = spaces_before_word(*line);
    if (at == line->len)
        return SHEBANG_END;
    char quote = 0;
    for (; at < line->len && (quote || !isspace((unsigned char)line->data[at])); at++) {
        char c = line->data[at];
        if (c == quote) {
            if (at + 1 < line->len && !isspace((unsigned char)line->data[at + 1]))
                return SHEBANG_BAD;
            quote = 0;
        } else if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else {
            if (len == size - 1)
                return SHEBANG_BAD;
            word[len++] = c;
        }
    }
    word[len] = 0;
    *line = (struct bytes){line->data + at, line->len - at};
    return quote ? SHEBANG_BAD : SHEBANG_WORD;
}

bool shebang_is_whole(struct bytes line)
{
    char word[SHEBANG_WORD_MAX];
    enum shebang_word found;
    while ((found = shebang_next(&line, word, sizeof word)) == SHEBANG_WORD)
        ;
    return found == SHEBANG_END;
}
