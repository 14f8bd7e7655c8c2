/*
 * script.h - Lua scripts (EVAL) and libraries of functions (FCALL) of one partition.
 *
 *   EVAL, EVALSHA ─► scripts (by SHA-1, in memory) ─┐
 *                                                    ├─► script_run ─► redis.call ─► dispatch_nested
 *   FCALL ─► functions (by name, rows in CF_SYSTEM) ─┘        └─ hook: slow? others get BUSY or may KILL;
 *                                                                 over command-time-limit? ended, rolled back
 *
 * Each namespace has its own scripts and functions, in two Lua states (script_set.c); its databases share them, as in
 * Redis. A script's effects are in one batch: it runs within one turn of the event loop. They stay if the script fails,
 * as in Redis.
 */
#pragma once

#include "backend/context/call.h"
#include "shared/command/script_flags.h"
#include "shared/log.h"

struct scripts;    /* of a namespace */
struct script_set; /* all scripts of a partition */
struct script_vm;

enum script_kind { SCRIPT_EVAL, SCRIPT_FUNCTION, SCRIPT_KINDS };

/* Why a run must end early; its effects are then rolled back. */
enum script_end {
    SCRIPT_GOES_ON,
    SCRIPT_KILLED,     /* SCRIPT KILL, FUNCTION KILL; only before the script has written */
    SCRIPT_FORCED,     /* SCREE SCRIPT KILL */
    SCRIPT_OVER_LIMIT, /* command-time-limit */
    SCRIPT_OVER,       /* another limit of the call's budget (budget.h) */
    SCRIPT_STOPPED,    /* the server stops */
};

/* A run of a script or function; lives on the stack of its caller. */
struct script_run {
    struct script_vm *vm;
    struct call *call;
    struct halt *halt; /* its own Lua stack, on which it can wait (halt.h); NULL: the state's */
    const char *name;  /* a SHA-1 or a function's name */
    bool is_function;
    bool read_only;
    bool allow_oom; /* it declares allow-oom: its commands may exceed maxmemory */
    bool wrote;
    bool may_cross_slots;
    int32_t slot;        /* of its keys, for a client of a cluster; negative: it has used none */
    bool is_slow;        /* over busy-reply-threshold: others get BUSY */
    bool is_retried;     /* a row is on the disk, or others' replies are held (slow_call.h): the
                            script is rolled back and runs again */
    uint8_t end;         /* enum script_end */
    uint8_t resp;        /* protocol chosen by redis.setresp */
    uint8_t db;          /* of the session, when it began */
    uint64_t started_us; /* monotonic */
    uint64_t slow_us;    /* monotonic: when the run becomes slow */
    uint64_t polled_us;  /* monotonic: other sessions were last served */
    uint64_t values;     /* number of values in its reply so far */
    uint32_t messages;   /* count of messages of the partition when the run began */
};

struct script_set *script_set_new(struct partition *partition);
void script_set_free(struct script_set *set);
/* The scripts of the session's namespace; made if there are none. */
struct scripts *scripts_of(const struct session *session);
struct scripts *scripts_open(struct script_set *set, struct bytes name);
/* Frees the scripts and libraries in memory of a dropped namespace. */
void scripts_drop(struct script_set *set, struct bytes name);
/* The script that runs now, in any namespace; NULL: none. */
struct script_run *scripts_running(const struct script_set *set);
/* May the session inspect and kill the script? True if both are in the same namespace, or if the session is an
 * operator's: in no namespace, and not a proxy's. */
bool script_run_concerns(const struct script_run *run, const struct session *session);
/* Logs a line of redis.log. */
void scripts_log(struct script_set *set, enum log_level level, const char *text);
/* Logs how many lines were dropped; called about once a second. */
void scripts_log_next_second(struct script_set *set);
/* The BUSY error for commands that are refused while a script is slow. A script must be running. */
const char *scripts_busy_text(const struct script_set *set);
size_t scripts_cached(const struct scripts *scripts);
/* Bytes of the texts of these scripts. */
size_t scripts_cached_bytes(const struct scripts *scripts);
/* Bytes of all Lua states of this kind; for functions, plus the bytes of the libraries' code. */
uint64_t script_set_memory(const struct script_set *set, enum script_kind kind);

/* ---- scripts ---- */

/* Compiles the script unless it is in the cache; `sha` receives 40 digits and a zero byte. False: an error was
 * replied. */
bool script_load(struct call *call, struct bytes body, char sha[41]);
bool script_exists(struct scripts *scripts, struct bytes sha);
/* Finds the flags (enum script_flags) of a cached script; false: it is not cached. */
bool script_find(struct scripts *scripts, struct bytes sha, uint32_t *flags);
/* Writes the text of a cached script, as the client sent it; false: the script is not cached. */
bool script_source(const struct scripts *scripts, struct bytes sha, struct out *out);
void scripts_flush(struct call *call);
/* Runs a cached script; keys and arguments begin at argv[3]. */
void script_eval(struct call *call, const char sha[41], uint32_t keys, bool read_only);

/* ---- functions ---- */

struct function {
    struct function *next; /* in the list of its library, newest first */
    struct library *library;
    char *name;
    char *description; /* NULL: none */
    uint32_t flags;    /* enum script_flags */
    int ref;           /* reference of the Lua function in the registry */
};
struct library {
    struct library *next;
    char *name;
    char *code; /* with the shebang line */
    size_t code_len;
    struct function *functions;
};

/* Loads the libraries of the namespace from its rows in CF_SYSTEM, unless they are loaded. ERR_STORE: the rows cannot
 * be read. ERR_NOT_FOUND: they are not loaded, and cannot be loaded while a script runs. ERR_OVER: the running call must end; the next one
 * goes on. One library is loaded even if the call has used its time. */
int functions_load(struct partition *partition, struct bytes name);
bool functions_are_loaded(const struct scripts *scripts);
void functions_set_loaded(struct scripts *scripts, bool is_loaded);
/* Frees all libraries, after a failed batch: they are loaded again from their rows when needed. */
void functions_forget(struct script_set *set);
/* Frees the list of libraries; their rows stay. */
void libraries_forget(struct scripts *scripts);
/* Deletes the rows of the namespace. */
void functions_delete_rows(struct partition *partition, struct bytes name);
struct library *functions_first(const struct scripts *scripts);
struct library *library_find(const struct scripts *scripts, struct bytes name);
struct function *function_find(const struct scripts *scripts, struct bytes name);
enum { LIBRARY_NAME_MAX = 256 };
/* Reads the name in the first line of a library's code; false and a reason when there is none. */
bool library_name(struct bytes code, char name[LIBRARY_NAME_MAX], char *error, size_t size);
enum { LIBRARY_LOAD_MS = 500 }; /* CPU time that a new library may use */
/* Loads a library without listing it. NULL: the reason, with its error code, is in error[size]; it may be that the running call must end
 * (budget.h). */
struct library *library_load(struct scripts *scripts, struct bytes code, uint64_t limit_ms,
                             char *error, size_t size);
void library_free(struct scripts *scripts, struct library *library);
/* Adds a library to the list; `replace`: removes an old library of this name. False and a reason: names collide. */
bool library_add(struct scripts *scripts, struct library *library, bool replace, char *error,
                 size_t size);
/* Removes the library from the list and frees it. */
void library_remove(struct scripts *scripts, struct library *library);
/* Calls the function; its keys and arguments begin at argv[3]. */
void function_call(struct call *call, const struct function *function, uint32_t keys,
                   bool read_only);
