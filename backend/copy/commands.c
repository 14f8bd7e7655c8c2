#include "backend/copy/commands.h"

#include "backend/copy/stream_commands.h"
#include "shared/byte_order.h"
#include "shared/number.h"
#include "shared/resp.h"

/* A command whose words are collected. */
struct words {
    struct bytes all[COMMAND_WORDS_MAX + 4];
    uint32_t count;
    uint32_t head; /* words before the first element */
    size_t bytes;
};

static struct bytes decimal_text(char to[INT64_TEXT_MAX], uint64_t ms)
{
    return (struct bytes){to, number_format_int64(to, (int64_t)ms)};
}

struct request *commands_send(const struct destination *to, enum request_kind kind,
                              const struct bytes *words, uint32_t count)
{
    resp_write_words(lane_begin(to->lane, to->db), words, count);
    return lane_end(to->lane, kind, to->key);
}

/* ---- whole keys ---- */

static bool send_string(const struct destination *to, const struct rdb_file *file,
                        const struct rdb_item *item)
{
    struct rdb_reader reader = {.arena = file->arena, .rest = item->value};
    struct bytes text;
    char time[INT64_TEXT_MAX];
    struct bytes words[6] = {BYTES("SET"), to->key};
    uint32_t count = 3;
    if (!rdb_read_string(&reader, &text))
        return false;
    words[2] = text;
    if (file->expire_ms) {
        words[count++] = BYTES("PXAT");
        words[count++] = decimal_text(time, file->expire_ms);
    }
    if (!to->replaces)
        words[count++] = BYTES("NX");
    (void)commands_send(to, REQUEST_KEY, words, count);
    return true;
}

/* Type byte, value, version, checksum. */
static void write_restore_payload(struct out *out, const struct rdb_file *file,
                                  const struct rdb_item *item)
{
    char head = (char)file->type;
    char foot[10];
    put_le16(foot, (uint16_t)file->version);
    uint64_t crc = crc64(0, (struct bytes){&head, 1});
    crc = crc64(crc, item->value);
    put_le64(foot + 2, crc64(crc, (struct bytes){foot, 2}));
    out_printf(out, "$%zu\r\n", item->value.len + 1 + sizeof foot);
    out_write(out, &head, 1);
    out_write(out, item->value.data, item->value.len);
    out_write(out, foot, sizeof foot);
    out_write(out, "\r\n", 2);
}

static void send_restore(const struct destination *to, const struct rdb_file *file,
                         const struct rdb_item *item)
{
    char time[INT64_TEXT_MAX];
    struct out *out = lane_begin(to->lane, to->db);
    out_printf(out, "*%d\r\n", to->replaces ? 6 : 5);
    resp_write_word(out, BYTES("RESTORE"));
    resp_write_word(out, to->key);
    resp_write_word(out, decimal_text(time, file->expire_ms));
    write_restore_payload(out, file, item);
    resp_write_word(out, BYTES("ABSTTL"));
    if (to->replaces)
        resp_write_word(out, BYTES("REPLACE"));
    (void)lane_end(to->lane, REQUEST_KEY, to->key);
}

bool commands_key(const struct destination *to, const struct rdb_file *file,
                  const struct rdb_item *item)
{
    if (file->type == RDB_TYPE_STRING)
        return send_string(to, file, item);
    send_restore(to, file, item);
    return true;
}

void commands_delete(const struct destination *to)
{
    (void)commands_send(to, REQUEST_PART, (struct bytes[]){BYTES("DEL"), to->key}, 2);
}

/* ---- parts ---- */

static void words_begin(struct words *words, const char *command, struct bytes key)
{
    words->all[0] = bytes_of(command);
    words->all[1] = key;
    words->count = words->head = 2;
    words->bytes = 0;
}

static void add_word(struct words *words, struct bytes word)
{
    words->all[words->count++] = word;
    words->bytes += word.len;
}

static void words_send(const struct destination *to, struct words *words)
{
    if (words->count > words->head)
        (void)commands_send(to, REQUEST_PART, words->all, words->count);
    words->count = words->head;
    words->bytes = 0;
}

static const char *append_command(enum type type)
{
    return type == TYPE_LIST   ? "RPUSH"
           : type == TYPE_SET  ? "SADD"
           : type == TYPE_ZSET ? "ZADD"
                               : "HSET";
}

static void set_field_time(const struct destination *to, const struct rdb_element *element)
{
    char time[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("HPEXPIREAT"), to->key,    decimal_text(time, element->expire_ms),
                            BYTES("FIELDS"),     BYTES("1"), element->name};
    (void)commands_send(to, REQUEST_PART, words, 6);
}

static struct bytes score_text(struct arena *arena, double score)
{
    char *text = arena_alloc(arena, DOUBLE_TEXT_MAX);
    return (struct bytes){text, number_format_double(text, score)};
}

static void add_element_words(const struct destination *to, struct words *words,
                              struct rdb_elements *elements, const struct rdb_element *element)
{
    enum type type = elements->form->type;
    if (type == TYPE_ZSET)
        add_word(words, score_text(elements->reader->arena, element->score));
    add_word(words, element->name);
    if (type == TYPE_HASH)
        add_word(words, element->value);
    if (!element->expire_ms)
        return;
    words_send(to, words); /* a field that has expired is set before it is deleted */
    set_field_time(to, element);
}

static bool send_elements(const struct destination *to, struct rdb_elements *elements)
{
    struct words words;
    struct rdb_element element;
    enum rdb_pack found;
    words_begin(&words, append_command(elements->form->type), to->key);
    while ((found = rdb_elements_next(elements, &element)) == RDB_PACK_ELEMENT) {
        add_element_words(to, &words, elements, &element);
        if (words.count >= COMMAND_WORDS_MAX || words.bytes >= COMMAND_BYTES_MAX)
            words_send(to, &words);
    }
    words_send(to, &words);
    return found == RDB_PACK_END;
}

static bool is_all_zeros(struct bytes text)
{
    return text.len == 0 || (!text.data[0] && memcmp(text.data, text.data + 1, text.len - 1) == 0);
}

/* Zeros need not be sent, because what lies before a written byte is zeros anyway. The last byte makes the length. */
static void send_text(const struct destination *to, const struct rdb_item *item, struct bytes text)
{
    char offset[INT64_TEXT_MAX];
    for (size_t at = 0; at < text.len; at += RDB_STRING_UNIT) {
        size_t left = text.len - at;
        struct bytes unit = {text.data + at, left < RDB_STRING_UNIT ? left : RDB_STRING_UNIT};
        struct bytes words[] = {BYTES("SETRANGE"), to->key, decimal_text(offset, item->offset + at),
                                unit};
        if (!is_all_zeros(unit) || (item->is_last && unit.len == left))
            (void)commands_send(to, REQUEST_PART, words, COUNT_OF(words));
    }
}

static bool send_string_part(const struct destination *to, struct rdb_reader *reader,
                             const struct rdb_item *item)
{
    struct bytes text = item->value;
    if (item->is_packed && !rdb_read_string(reader, &text))
        return false;
    send_text(to, item, text);
    return true;
}

bool commands_part(const struct destination *to, const struct rdb_file *file,
                   const struct rdb_item *item)
{
    struct rdb_reader reader = {
        .arena = file->arena, .rest = item->value, .version = file->version};
    struct rdb_elements elements;
    if (file->parts.form->type == TYPE_STRING)
        return send_string_part(to, &reader, item);
    if (item->is_tail)
        return stream_commands_tail(to, &reader, file->type);
    if (file->parts.form->type == TYPE_STREAM)
        return stream_commands_nodes(to, &reader, item->units);
    rdb_elements_part(&elements, &reader, &file->parts, item->units);
    return send_elements(to, &elements);
}

void commands_end(const struct destination *to, const struct rdb_file *file)
{
    char time[INT64_TEXT_MAX];
    struct bytes words[] = {BYTES("PEXPIREAT"), to->key, decimal_text(time, file->expire_ms)};
    if (file->expire_ms)
        (void)commands_send(to, REQUEST_PART, words, 3);
    (void)commands_send(to, REQUEST_LAST, (struct bytes[]){BYTES("EXISTS"), to->key}, 2);
}
