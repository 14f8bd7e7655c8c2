#include "backend/copy/to_file.h"

#include "backend/copy/rdb_input.h"
#include "backend/copy/selection.h"
#include "backend/rdb/backup_rdb.h"
#include "backend/rdb/rdb_output.h"
#include "shared/check.h"
#include "shared/version.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PART_MAX = 1024 * 1024 };

/* What a database of the file has. */
struct file_db {
    uint64_t db;
    uint64_t keys;
    uint64_t expires;
    uint64_t keys_written;
    uint64_t expires_written;
    bool is_begun; /* its sizes are written */
};

struct to_file {
    const struct copy_options *options;
    struct copy_report report;
    struct backup_rdb *backup;
    struct rdb_input input;
    struct rdb_item item;
    struct rdb_output output;
    bool is_writing; /* the second time */
    bool is_skipped; /* the key that comes in parts is not written */
    struct file_db dbs[COPY_DBS_MAX];
    unsigned db_count;
    struct file_db *db; /* the selected one */
};

/* A signal cancels. */
static struct disk_progress progress;

static void on_stop_signal(int signum)
{
    (void)signum;
    atomic_store(&progress.is_cancelled, true);
}

static bool is_out_stopped(void)
{
    return atomic_load(&progress.is_cancelled);
}

static enum copy_exit file_says(struct to_file *copy, enum copy_exit code, const char *reason)
{
    report_say(&copy->report, "scree-copy: %s", reason);
    return code;
}

static enum copy_exit say_file_stopped(struct to_file *copy)
{
    return file_says(copy, EXIT_STOPPED, "stopped; the same command may be run again");
}

/* ---- which keys ---- */

/* `check` names refused keys when it counts, other runs when they write. */
static bool is_reporting(const struct to_file *copy)
{
    return copy->is_writing || copy->options->command == COPY_CHECK;
}

/* Why the target cannot have the value; NULL: it can. */
static const char *why_file_refuses(const struct to_file *copy, char *text, size_t size)
{
    if (*copy->item.module)
        (void)snprintf(text, size, "a value of type %s, which Redis does not have",
                       copy->item.module);
    else if (copy->input.file.type == RDB_TYPE_HASH_TTL &&
             copy->options->to.rdb_version < RDB_VERSION_HASH_TTL)
        (void)snprintf(text, size,
                       "a hash whose fields have times to live, which Redis has from 7.4 on: "
                       "--rdb-version %d",
                       RDB_VERSION_HASH_TTL);
    else
        return NULL;
    return text;
}

/* Does the file get the item's key? Then *db and *name are what it is there. */
static bool file_wants(struct to_file *copy, uint64_t *db, struct bytes *name)
{
    char text[128];
    struct copy_report *report = &copy->report;
    uint64_t expire_ms = copy->input.file.expire_ms;
    int64_t to = selection_db(copy->options, copy->input.file.db);
    if (to < 0 || !selection_key(copy->options, &copy->input.arena, copy->item.key, name)) {
        report->left_out += is_reporting(copy);
        return false;
    }
    if (expire_ms && expire_ms <= backup_rdb_moment_ms(copy->backup)) {
        report->expired += is_reporting(copy);
        return false;
    }
    const char *reason = why_file_refuses(copy, text, sizeof text);
    if (reason && is_reporting(copy))
        report_refused(report, (uint64_t)to, *name, bytes_of(reason));
    *db = (uint64_t)to;
    report->keys += !reason && is_reporting(copy);
    return !reason;
}

static struct file_db *find_file_db(struct to_file *copy, uint64_t db)
{
    for (unsigned i = 0; i < copy->db_count; i++)
        if (copy->dbs[i].db == db)
            return &copy->dbs[i];
    CHECK(copy->db_count < COPY_DBS_MAX); /* each is one of the 16 of the backup */
    copy->dbs[copy->db_count] = (struct file_db){.db = db};
    return &copy->dbs[copy->db_count++];
}

/* ---- writing ---- */

static void select_file_db(struct to_file *copy, struct file_db *db)
{
    if (copy->db != db)
        rdb_output_database(&copy->output, db->db);
    copy->db = db;
    if (!db->is_begun)
        rdb_output_sizes(&copy->output, db->keys, db->expires);
    db->is_begun = true;
}

/* What stands before the units of a value in parts. */
static void put_head(struct to_file *copy)
{
    const struct rdb_file *file = &copy->input.file;
    struct rdb_writer *writer = &copy->output.writer;
    if (file->type == RDB_TYPE_STRING) {
        if (!file->string.is_packed)
            rdb_write_length(writer, file->string.left);
        return;
    }
    if (file->parts.form->has_base)
        rdb_write_ms(writer, file->parts.base_ms);
    rdb_write_length(writer, file->parts.left);
}

static void take_file_key(struct to_file *copy)
{
    struct bytes name;
    uint64_t db;
    const struct rdb_file *file = &copy->input.file;
    copy->is_skipped = !file_wants(copy, &db, &name);
    if (copy->is_skipped)
        return;
    struct file_db *into = find_file_db(copy, db);
    if (!copy->is_writing) {
        into->keys++;
        into->expires += file->expire_ms != 0;
        return;
    }
    into->keys_written++;
    into->expires_written += file->expire_ms != 0;
    select_file_db(copy, into);
    rdb_output_key(&copy->output, file->expire_ms, file->type, name);
    if (copy->item.kind == RDB_KEY)
        rdb_write_raw(&copy->output.writer, copy->item.value);
    else
        put_head(copy);
}

static void take_file_item(struct to_file *copy)
{
    switch (copy->item.kind) {
    case RDB_KEY:
    case RDB_KEY_BEGIN:
        take_file_key(copy);
        break;
    case RDB_KEY_PART:
        if (copy->is_writing && !copy->is_skipped)
            rdb_write_raw(&copy->output.writer, copy->item.value);
        break;
    case RDB_FUNCTION:
        copy->report.functions += is_reporting(copy);
        if (copy->is_writing)
            rdb_output_function(&copy->output, copy->item.value);
        break;
    default:
        break;
    }
}

/* ---- all items ---- */

static enum copy_exit each_item(struct to_file *copy)
{
    const char *verb = copy->is_writing ? "write" : "read";
    enum input_result found;
    while ((found = rdb_input_next(&copy->input, &copy->item)) == INPUT_ITEM) {
        take_file_item(copy);
        copy->report.offset = copy->input.offset;
        report_progress(&copy->report, verb);
        if (is_out_stopped())
            return say_file_stopped(copy);
        if (copy->is_writing && !rdb_output_go_on(&copy->output))
            return file_says(copy, EXIT_TARGET, copy->output.error);
    }
    return found == INPUT_END ? EXIT_DONE : file_says(copy, EXIT_SOURCE, copy->input.error);
}

static enum copy_exit read_all_items(struct to_file *copy)
{
    static const struct input_bytes bytes = {backup_rdb_read, backup_rdb_error, NULL};
    backup_rdb_rewind(copy->backup);
    rdb_input_open_bytes(&copy->input, copy->options->file, &bytes, copy->backup, PART_MAX);
    enum copy_exit code = each_item(copy);
    copy->report.size = copy->input.offset; /* for the progress of the second time */
    rdb_input_close(&copy->input);
    return code;
}

/* As Redis does; its `used-mem` is left out. */
static void put_aux(struct to_file *copy)
{
    char text[32];
    struct rdb_output *output = &copy->output;
    bool is_oldest = copy->options->to.rdb_version == RDB_VERSION;
    (void)snprintf(text, sizeof text, "%" PRIu64, backup_rdb_moment_ms(copy->backup) / 1000);
    rdb_output_aux(output, "redis-ver", bytes_of(is_oldest ? "7.0.15" : version_text()));
    rdb_output_aux(output, "redis-bits", BYTES("64"));
    rdb_output_aux(output, "ctime", bytes_of(text));
    rdb_output_aux(output, "aof-base", BYTES("0"));
    rdb_output_aux(output, "scree-ver", BYTES(SCREE_VERSION));
}

/* Both times the backup had the same keys; their numbers stand in the file. */
static enum copy_exit check_counts(struct to_file *copy)
{
    for (unsigned i = 0; i < copy->db_count; i++) {
        const struct file_db *db = &copy->dbs[i];
        if (db->keys_written != db->keys || db->expires_written != db->expires)
            return file_says(copy, EXIT_SOURCE,
                             "the backup, or the scratch directory, has changed while it was read");
    }
    return EXIT_DONE;
}

static enum copy_exit write_output(struct to_file *copy)
{
    copy->is_writing = true;
    put_aux(copy);
    enum copy_exit code = read_all_items(copy);
    return code == EXIT_DONE ? check_counts(copy) : code;
}

/* ---- a run ---- */

static bool may_replace(const struct to_file *copy)
{
    return copy->options->has_existing && copy->options->existing == EXISTING_REPLACE;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_stop_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup */
        (void)sigaction(SIGHUP, &action, NULL);
}

/* Counts the keys, and writes them unless it is `check`. The scratch directory is removed. */
static enum copy_exit count_and_write(struct to_file *copy, const char *scratch)
{
    char error[BACKUP_RDB_ERROR_MAX];
    const struct backup_rdb_order order = {
        .paths = copy->options->file,
        .space = copy->options->space,
        .scratch = scratch,
        .has_functions = copy->options->has_functions,
        .progress = &progress,
    };
    copy->backup = backup_rdb_open(&order, error);
    if (!copy->backup)
        return is_out_stopped() ? say_file_stopped(copy) : file_says(copy, EXIT_SOURCE, error);
    enum copy_exit code = read_all_items(copy);
    if (code == EXIT_DONE && copy->options->command != COPY_CHECK)
        code = write_output(copy);
    backup_rdb_close(copy->backup);
    return code;
}

/* FILE.part is locked, so no other tool uses FILE.scratch until the file gets its name. */
static enum copy_exit read_and_end(struct to_file *copy)
{
    char scratch[PATH_MAX];
    const char *file = copy->options->to.file;
    if (!may_replace(copy) && access(file, F_OK) == 0) {
        report_say(&copy->report, "scree-copy: %s exists: remove it, or give --existing replace",
                   file);
        return EXIT_TARGET;
    }
    if (snprintf(scratch, sizeof scratch, "%s.scratch", file) >= (int)sizeof scratch)
        return file_says(copy, EXIT_TARGET, "--to rdb: the path is too long");
    enum copy_exit code = count_and_write(copy, scratch);
    if (code == EXIT_DONE && copy->options->command != COPY_CHECK &&
        !rdb_output_end(&copy->output, may_replace(copy)))
        code = file_says(copy, EXIT_TARGET, copy->output.error);
    return code;
}

static enum copy_exit lock_and_read(struct to_file *copy)
{
    struct rdb_output *output = &copy->output;
    const struct copy_target *to = &copy->options->to;
    catch_signals();
    enum copy_exit code = rdb_output_open(output, to->file, to->rdb_version)
                              ? read_and_end(copy)
                              : file_says(copy, EXIT_TARGET, output->error);
    rdb_output_close(output);
    return code;
}

enum copy_exit to_file_run(const struct copy_options *options)
{
    struct copy_options chosen = *options;
    struct to_file *copy = calloc(1, sizeof *copy);
    CHECK(copy);
    if (!chosen.to.rdb_version)
        chosen.to.rdb_version = RDB_VERSION;
    copy->options = &chosen;
    report_init(&copy->report, &chosen);
    copy->report.verb = options->command == COPY_CHECK ? "check" : "copy";
    enum copy_exit code = report_end(&copy->report, lock_and_read(copy));
    free(copy);
    return code;
}
