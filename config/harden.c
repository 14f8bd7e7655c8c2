/*
 * harden.c - limits the rights of the process.
 *
 * The seccomp filter is a deny-list, not an allow-list: RocksDB, libuv and the C library use other system calls in every
 * version, and a call that is missing in an allow-list would fail in production. The filter denies (EPERM) the calls that
 * an intruder needs next and that these programs never need: to run programs, to inspect processes, to change the system.
 */
#include "config/harden.h"

#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const int denied[] = {
    /* other programs */
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    /* other processes */
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(kcmp),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(perf_event_open),
    /* the kernel */
    SCMP_SYS(bpf),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(reboot),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    /* the system */
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsmount),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(personality),
    /* keys and identities */
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setgroups),
    SCMP_SYS(capset),
};

/* 0 or negative errno. */
static int filter_load(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return -1;
    int err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    for (size_t i = 0; i < sizeof denied / sizeof *denied && !err; i++)
        err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(1), denied[i], 0);
    if (!err)
        err = seccomp_load(filter);
    seccomp_release(filter);
    return err;
}

void harden_files(void)
{
    (void)umask(S_IRWXG | S_IRWXO);
}

/* Without core files the limit is 0; with them it is as high as it may be: many systems start programs with 0. */
static void limit_core(bool core_dumps)
{
    struct rlimit limit = {0};
    if (core_dumps && getrlimit(RLIMIT_CORE, &limit) == 0)
        limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_CORE, &limit);
}

bool harden(bool core_dumps, bool seccomp, char *error, size_t size)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    limit_core(core_dumps);
    int err = seccomp ? filter_load() : 0;
    if (err)
        (void)snprintf(error, size, "seccomp: the kernel refuses the filter: %s", strerror(-err));
    return !err;
}
