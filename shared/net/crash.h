/*
 * crash.h - what a process writes when a signal such as SIGSEGV ends it.
 *
 *   2026-… error crashed signal=SIGSEGV code=1 address=0x8 program=scree-backend version=… commit=… build_id=… thread=partition-0 command=zadd
 *   2026-… error crash_registers rip=0x… rsp=0x…
 *   2026-… error crash_frame /usr/bin/scree-backend[0x541bfa]             one line for each function on the stack
 *   2026-… error crash_thread name=partition-1 state=S command=get        one line for each thread with a loop
 *
 * The lines go to the log and, if that is a file, to standard error too. Then the signal ends the process as without the report, with a
 * core file if the system keeps them. addr2line -e PROGRAM 0x541bfa finds the source line.
 *
 * The handler uses only functions that are safe in a signal handler, and memory that was reserved before; backtrace() is, once
 * its library is loaded, which crash_install does. Arguments of commands are not written: they are clients' data.
 */
#pragma once

/* Installs the handlers, and names the calling thread "main". The texts stay the caller's and must outlive the process. */
void crash_install(const char *program, const char *version, const char *commit);
/* The calling thread runs a loop: lists it in reports, and gives it a stack for the handler. The name is copied. */
void crash_thread_begin(const char *name);
/* The calling thread ends. */
void crash_thread_end(void);
