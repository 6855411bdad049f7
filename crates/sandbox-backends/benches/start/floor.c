/* The floor: the namespaces and mounts of a box, made by the barest program, and /bin/true in it.
 *
 *   floor once  DIR          one box, from process start to process end, layers removed
 *   floor serve DIR          one box per line of standard input; answers with nanoseconds
 *   floor phases DIR         the same; answers with the nanoseconds of each phase
 *   floor spawn              runs the command of each line (fields apart by \x1f); answers the same way
 *
 * An answer is one line of numbers: nanoseconds first, and for `spawn` the exit status second.
 * No user namespace, no control groups, no seccomp filter, no init: less than any sandbox does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LAYERS, CLONED, OVERLAY, BINDS, KERNEL_MOUNTS, LOOPBACK, PIVOT, LOCKED, PHASES };

static char dir[1024];
/* Shared with the child: it is how phases inside the box become known outside. */
static uint64_t *stamps;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *doing, const char *what) {
    fprintf(stderr, "floor: could not %s `%s`: %s\n", doing, what, strerror(errno));
    _exit(125);
}

static void join(char *out, size_t size, const char *a, const char *b) {
    if ((size_t)snprintf(out, size, "%s%s", a, b) >= size) die("join", b);
}

static void mount_or_die(const char *from, const char *to, const char *type, unsigned long flags,
                         const char *data) {
    if (mount(from, to, type, flags, data) != 0) die("mount", to);
}

static void bind_read_only(const char *root, const char *folder) {
    char at[2048];
    struct stat info;
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) return;
    join(at, sizeof at, root, folder);
    mount_or_die(folder, at, NULL, MS_BIND, NULL);
    mount_or_die(NULL, at, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

static void tmpfs(const char *root, const char *folder, const char *mode) {
    char at[2048];
    join(at, sizeof at, root, folder);
    mount_or_die("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, mode);
}

static void bring_up_loopback(void) {
    struct ifreq request;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("open", "socket");
    memset(&request, 0, sizeof request);
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) die("bring up", "lo");
    close(fd);
}

static void drop_all_power(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (syscall(SYS_capset, &header, none) != 0) die("drop", "capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("set", "no_new_privs");
}

static void inside(void) {
    static const char *const folders[] = {"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                          "/lib64", "/libx32", "/etc",  "/opt"};
    static const char *const devices[] = {"/dev/full", "/dev/null",    "/dev/random",
                                          "/dev/tty",  "/dev/urandom", "/dev/zero"};
    char root[1100], at[2048], options[4096];

    join(root, sizeof root, dir, "/box/mnt");
    mount_or_die(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    snprintf(options, sizeof options, "lowerdir=%s/skeleton,upperdir=%s/box/upper,workdir=%s/box/work,volatile",
             dir, dir, dir);
    mount_or_die("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options);
    stamps[OVERLAY] = now();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) bind_read_only(root, folders[i]);
    stamps[BINDS] = now();
    join(at, sizeof at, root, "/proc");
    mount_or_die("proc", at, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    tmpfs(root, "/tmp", "mode=1777");
    tmpfs(root, "/run", "mode=1777");
    tmpfs(root, "/dev", "mode=755");
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        join(at, sizeof at, root, devices[i]);
        int fd = open(at, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0) die("make", at);
        close(fd);
        mount_or_die(devices[i], at, NULL, MS_BIND, NULL);
    }
    join(at, sizeof at, root, "/dev/pts");
    if (mkdir(at, 0755) != 0) die("make", at);
    mount_or_die("devpts", at, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    join(at, sizeof at, root, "/dev/shm");
    if (mkdir(at, 01777) != 0) die("make", at);
    tmpfs(root, "/dev/shm", "mode=1777");
    stamps[KERNEL_MOUNTS] = now();
    bring_up_loopback();
    sethostname("floor", 5);
    stamps[LOOPBACK] = now();
    if (unshare(CLONE_NEWCGROUP) != 0) die("unshare", "cgroup");
    if (chdir(root) != 0) die("enter", root);
    if (syscall(SYS_pivot_root, ".", ".") != 0) die("pivot to", root);
    if (umount2(".", MNT_DETACH) != 0) die("unmount", "old root");
    if (chdir("/") != 0) die("enter", "/");
    stamps[PIVOT] = now();
    drop_all_power();
    stamps[LOCKED] = now();
    execl("/bin/true", "true", (char *)NULL);
    die("run", "/bin/true");
}

static void layer(const char *name, int (*act)(const char *)) {
    char path[1100];
    join(path, sizeof path, dir, name);
    if (act(path) != 0) die("make or remove", path);
}

static int make(const char *path) { return mkdir(path, 0755); }

static void remove_layers(void) {
    layer("/box/work/work", rmdir);
    layer("/box/work", rmdir);
    layer("/box/upper", rmdir);
    layer("/box/mnt", rmdir);
    layer("/box", rmdir);
}

/* `volatile` leaves a marker that says so. */
static void remove_volatile_marker(void) {
    char path[1100];
    static const char *const markers[] = {"/box/work/work/incompat/volatile/dirty",
                                          "/box/work/work/incompat/volatile",
                                          "/box/work/work/incompat"};
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        join(path, sizeof path, dir, markers[i]);
        remove(path);
    }
}

static void one_box(void) {
    struct clone_args arguments;
    int status = 0;
    layer("/box", make);
    layer("/box/mnt", make);
    layer("/box/work", make);
    layer("/box/upper", make);
    stamps[LAYERS] = now();
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET;
    arguments.exit_signal = SIGCHLD;
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0) die("clone3", "namespaces");
    if (child == 0) {
        stamps[CLONED] = now();
        inside();
    }
    if (waitpid((pid_t)child, &status, 0) < 0) die("wait for", "/bin/true");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "floor: /bin/true ended with status %d\n", status);
        _exit(125);
    }
}

static void spawn_line(char *line) {
    char *fields[256];
    size_t count = 0;
    for (char *field = strtok(line, "\x1f\n"); field && count < 255; field = strtok(NULL, "\x1f\n"))
        fields[count++] = field;
    fields[count] = NULL;
    if (count == 0) die("read", "command");
    int status = 0;
    pid_t child;
    uint64_t start = now();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    /* Its output must not be taken for our answer. */
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    errno = posix_spawnp(&child, fields[0], &actions, NULL, fields, environ);
    if (errno != 0) die("start", fields[0]);
    posix_spawn_file_actions_destroy(&actions);
    if (waitpid(child, &status, 0) < 0) die("wait for", fields[0]);
    uint64_t end = now();
    printf("%llu %d\n", (unsigned long long)(end - start), WIFEXITED(status) ? WEXITSTATUS(status) : 255);
}

int main(int count, char **arguments) {
    static char line[65536];
    const char *mode = count > 1 ? arguments[1] : "";
    if (count > 2) join(dir, sizeof dir, arguments[2], "");
    stamps = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stamps == MAP_FAILED) die("map", "stamps");
    if (strcmp(mode, "once") == 0) {
        one_box();
        remove_volatile_marker();
        remove_layers();
        return 0;
    }
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(mode, "spawn") == 0) {
            spawn_line(line);
        } else {
            uint64_t start = now();
            one_box();
            uint64_t end = now();
            printf("%llu", (unsigned long long)(end - start));
            if (strcmp(mode, "phases") == 0) {
                uint64_t before = start;
                for (int phase = 0; phase < PHASES; phase++) {
                    printf(" %llu", (unsigned long long)(stamps[phase] - before));
                    before = stamps[phase];
                }
                printf(" %llu", (unsigned long long)(end - before));
            }
            printf("\n");
            remove_volatile_marker();
            remove_layers();
        }
        fflush(stdout);
    }
    return 0;
}
