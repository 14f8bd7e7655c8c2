#include "backend/commands/name_range.h"

bool name_end_parse(struct bytes text, struct name_end *end)
{
    char kind = text.len ? text.data[0] : '\0';
    *end = (struct name_end){.is_open = kind == '('};
    if (kind == '+' || kind == '-') {
        end->side = kind == '+' ? 1 : -1;
        return text.len == 1 || text.data[1] == '\0';
    }
    if (kind != '[' && kind != '(')
        return false;
    end->member = (struct bytes){text.data + 1, text.len - 1};
    return true;
}

static int name_order(struct bytes member, const struct name_end *end)
{
    return end->side ? -end->side : bytes_compare(member, end->member);
}

bool name_reaches(struct bytes member, const struct name_end *from)
{
    int order = name_order(member, from);
    return from->is_open ? order > 0 : order >= 0;
}

bool name_within(struct bytes member, const struct name_end *to)
{
    int order = name_order(member, to);
    return to->is_open ? order < 0 : order <= 0;
}

bool names_are_empty(const struct name_end *from, const struct name_end *to)
{
    int order = from->side || to->side ? (from->side > to->side) - (from->side < to->side)
                                       : bytes_compare(from->member, to->member);
    return order > 0 || (order == 0 && (from->is_open || to->is_open));
}
