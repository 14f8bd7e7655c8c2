#include "shared/net/crash.h"

#include "shared/command/command.h"
#include "shared/log.h"

#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    LINE_BYTES = 1024,
    FRAMES_MAX = 64,
    THREADS_MAX = 512,
    NAME_BYTES = 16,
    STACK_BYTES = 64 * 1024,
    BUILD_ID_MAX = 20,
};

/* A thread with a loop. */
struct crash_thread {
    _Atomic int tid; /* 0: the place is free */
    char name[NAME_BYTES];
    const struct command *const *command;
    void *stack;
};

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGSYS, "SIGSYS"},
};

static _Thread_local struct crash_thread *own_thread;
static struct crash_thread threads[THREADS_MAX];
static const char *program_text;
static const char *version_name;
static const char *commit_text;
static unsigned char build_id[BUILD_ID_MAX];
static size_t build_id_len;
static atomic_flag is_reporting = ATOMIC_FLAG_INIT;

/* ---- lines, without functions that are unsafe in a signal handler ---- */

struct line {
    char bytes[LINE_BYTES];
    size_t len;
};

static void append_text(struct line *line, const char *text)
{
    while (*text && line->len < LINE_BYTES - 1)
        line->bytes[line->len++] = *text++;
}

static void put_digits(struct line *line, uint64_t number, unsigned base, int digits)
{
    char text[32];
    char *at = text + sizeof text - 1;
    *at = 0;
    for (; number || digits > 0; number /= base, digits--)
        *--at = "0123456789abcdef"[number % base];
    append_text(line, at);
}

static void put_decimal(struct line *line, uint64_t number)
{
    put_digits(line, number, 10, 1);
}

static void put_hex(struct line *line, uint64_t number)
{
    append_text(line, "0x");
    put_digits(line, number, 16, 1);
}

/* Year, month and day of a day since 1970. */
static void civil_date(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    int64_t z = days + 719468;
    int64_t era = z / 146097;
    unsigned of_era = (unsigned)(z - era * 146097);
    unsigned of_year_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * of_year_era + of_year_era / 4 - of_year_era / 100);
    unsigned part = (5 * of_year + 2) / 153;
    *day = of_year - (153 * part + 2) / 5 + 1;
    *month = part < 10 ? part + 3 : part - 9;
    *year = (int64_t)of_year_era + era * 400 + (*month <= 2);
}

/* Time, level and event, as log_event writes them. */
static void crash_line(struct line *line, const char *event)
{
    struct timespec now;
    int64_t year;
    unsigned month;
    unsigned day;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t second = (uint64_t)now.tv_sec % 86400;
    const struct {
        uint64_t number;
        int digits;
        const char *end;
    } parts[] = {{second / 3600, 2, ":"},
                 {second / 60 % 60, 2, ":"},
                 {second % 60, 2, "."},
                 {(uint64_t)now.tv_nsec / 1000000, 3, "Z error "}};
    line->len = 0;
    civil_date(now.tv_sec / 86400, &year, &month, &day);
    put_digits(line, (uint64_t)year, 10, 4);
    append_text(line, "-");
    put_digits(line, month, 10, 2);
    append_text(line, "-");
    put_digits(line, day, 10, 2);
    append_text(line, "T");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        put_digits(line, parts[i].number, 10, parts[i].digits);
        append_text(line, parts[i].end);
    }
    append_text(line, event);
}

static void line_end(struct line *line, int fd)
{
    line->bytes[line->len++] = '\n';
    ssize_t written = write(fd, line->bytes, line->len);
    (void)written; /* there is no other place to report to */
    line->len--;
}

/* ---- the report ---- */

static const char *signal_name(int number)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i].number == number)
            return signals[i].name;
    return "?";
}

static const char *command_text(const struct command *command)
{
    return command ? command_full_name(command) : "none";
}

static void report_head(int number, const siginfo_t *info, int fd)
{
    struct line line;
    crash_line(&line, "crashed");
    append_text(&line, " signal=");
    append_text(&line, signal_name(number));
    if (info->si_code <= 0) { /* a process has sent it */
        append_text(&line, " sender=");
        put_decimal(&line, (uint64_t)info->si_pid);
    } else {
        append_text(&line, " address=");
        put_hex(&line, (uint64_t)(uintptr_t)info->si_addr);
    }
    append_text(&line, " program=");
    append_text(&line, program_text);
    append_text(&line, " version=");
    append_text(&line, version_name);
    append_text(&line, " commit=");
    append_text(&line, commit_text);
    append_text(&line, " build_id=");
    for (size_t i = 0; i < build_id_len; i++)
        put_digits(&line, build_id[i], 16, 2);
    append_text(&line, " thread=");
    append_text(&line, own_thread ? own_thread->name : "other");
    append_text(&line, " command=");
    append_text(&line, command_text(command_at_hand));
    line_end(&line, fd);
}

static void report_registers(const ucontext_t *context, int fd)
{
    struct line line;
    crash_line(&line, "crash_registers");
#if defined(__x86_64__)
    static const struct {
        const char *name;
        int index;
    } registers[] = {{" rip=", REG_RIP}, {" rsp=", REG_RSP}, {" rbp=", REG_RBP}, {" rax=", REG_RAX},
                     {" rbx=", REG_RBX}, {" rcx=", REG_RCX}, {" rdx=", REG_RDX}, {" rsi=", REG_RSI},
                     {" rdi=", REG_RDI}, {" r8=", REG_R8},   {" r9=", REG_R9},   {" r10=", REG_R10},
                     {" r11=", REG_R11}, {" r12=", REG_R12}, {" r13=", REG_R13}, {" r14=", REG_R14},
                     {" r15=", REG_R15}, {" efl=", REG_EFL}};
    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        append_text(&line, registers[i].name);
        put_hex(&line, (uint64_t)context->uc_mcontext.gregs[registers[i].index]);
    }
#elif defined(__aarch64__)
    append_text(&line, " pc=");
    put_hex(&line, context->uc_mcontext.pc);
    append_text(&line, " sp=");
    put_hex(&line, context->uc_mcontext.sp);
    for (unsigned i = 0; i < 31; i++) {
        append_text(&line, " x");
        put_decimal(&line, i);
        append_text(&line, "=");
        put_hex(&line, context->uc_mcontext.regs[i]);
    }
#else
    (void)context;
#endif
    line_end(&line, fd);
}

static void report_frames(void *const *frames, int count, int fd)
{
    for (int i = 0; i < count; i++) {
        struct line line;
        crash_line(&line, "crash_frame");
        append_text(&line, " ");
        ssize_t written = write(fd, line.bytes, line.len);
        (void)written;
        backtrace_symbols_fd(frames + i, 1, fd);
    }
}

/* The state of a thread of this process, as in /proc/PID/stat: R runs, S waits for events, D waits for the disk. */
static char thread_state(int tid)
{
    struct line path = {.len = 0};
    char stat[128];
    append_text(&path, "/proc/self/task/");
    put_decimal(&path, (uint64_t)tid);
    append_text(&path, "/stat");
    path.bytes[path.len] = 0;
    int fd = open(path.bytes, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return '?';
    ssize_t len = read(fd, stat, sizeof stat - 1);
    (void)close(fd);
    for (; len > 2; len--) /* the name may contain any character */
        if (stat[len - 1] == ')' && len + 1 < (ssize_t)sizeof stat)
            return stat[len + 1];
    return '?';
}

static void report_threads(int fd)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        struct line line;
        const struct crash_thread *thread = &threads[i];
        int tid = atomic_load(&thread->tid);
        if (!tid)
            continue;
        char state[2] = {thread_state(tid), 0};
        crash_line(&line, "crash_thread");
        append_text(&line, " name=");
        append_text(&line, thread->name);
        append_text(&line, " state=");
        append_text(&line, state);
        append_text(&line, " command=");
        append_text(&line, command_text(*thread->command));
        line_end(&line, fd);
    }
}

/* Of threads that fail at the same time, one reports; the others wait for the end of the process. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    void *frames[FRAMES_MAX];
    const int targets[] = {log_descriptor(), STDERR_FILENO};
    if (atomic_flag_test_and_set(&is_reporting))
        for (;;)
            (void)pause();
    int count = backtrace(frames, FRAMES_MAX);
    for (int i = 0; i < (targets[0] == targets[1] ? 1 : 2); i++) {
        report_head(number, info, targets[i]);
        report_registers(context, targets[i]);
        report_frames(frames, count, targets[i]);
        report_threads(targets[i]);
    }
    (void)raise(number); /* SA_RESETHAND: ends the process when this handler returns */
}

/* ---- before a crash ---- */

/* Finds the build id of the program, which is the first object. */
static int read_build_id(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        const char *at = (const char *)object->dlpi_addr + header->p_vaddr;
        const char *end = at + header->p_memsz;
        while (header->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof *note;
            const char *bytes = name + ((note->n_namesz + 3) & ~3u);
            at = bytes + ((note->n_descsz + 3) & ~3u);
            if (note->n_type != NT_GNU_BUILD_ID || strcmp(name, "GNU") != 0)
                continue;
            build_id_len = note->n_descsz < BUILD_ID_MAX ? note->n_descsz : BUILD_ID_MAX;
            memcpy(build_id, bytes, build_id_len);
            return 1;
        }
    }
    return 1;
}

/* Sanitizers have reports of their own. */
static bool has_sanitizer(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
    return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
    return false;
#endif
}

void crash_install(const char *program, const char *version, const char *commit)
{
    void *frame;
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    program_text = program;
    version_name = version;
    commit_text = commit;
    if (has_sanitizer())
        return;
    (void)dl_iterate_phdr(read_build_id, NULL);
    (void)backtrace(&frame, 1); /* loads its library */
    crash_thread_begin("main");
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i].number, &action, NULL);
}

/* A stack for the handler, because a stack that has overflowed cannot hold its frame. */
static void give_stack(struct crash_thread *thread)
{
    thread->stack = malloc(STACK_BYTES);
    const stack_t stack = {.ss_sp = thread->stack, .ss_size = STACK_BYTES};
    if (thread->stack)
        (void)sigaltstack(&stack, NULL);
}

void crash_thread_begin(const char *name)
{
    int tid = (int)syscall(SYS_gettid);
    if (!program_text || has_sanitizer())
        return;
    for (int i = 0; i < THREADS_MAX; i++) {
        int unused = 0;
        if (!atomic_compare_exchange_strong(&threads[i].tid, &unused, -1))
            continue;
        own_thread = &threads[i];
        strncpy(own_thread->name, name, NAME_BYTES - 1);
        own_thread->command = &command_at_hand;
        give_stack(own_thread);
        atomic_store(&own_thread->tid, tid);
        return;
    }
}

void crash_thread_end(void)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (!own_thread)
        return;
    (void)sigaltstack(&none, NULL);
    free(own_thread->stack);
    own_thread->stack = NULL;
    atomic_store(&own_thread->tid, 0);
    own_thread = NULL;
}
