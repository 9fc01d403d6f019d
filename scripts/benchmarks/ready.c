/* What a mount is measured against: a file of ready bytes, shown by the least that libfuse 3's low-level interface needs.

       ready FILE CHUNK COUNTS MOUNTPOINT [options of libfuse]

   shows /ready, the file, and /c, its bytes cut into files of CHUNK bytes each: /c/0/0, /c/0/1, … with COUNTS "2,3" (from the start again where
   the file ends). Bytes are read with pread, the kernel keeps names and attributes for an hour and pages from one open to the next. */

#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READY = 2, LEVELS = 8 };
static const double KEEP = 3600;

static int source, levels;
static long size, chunk, counts[LEVELS];

/* An inode of /c: its level (0 is /c itself) above its index among those of that level. */
static fuse_ino_t inode(int level, long index) { return (fuse_ino_t)(level + 1) << 48 | (fuse_ino_t)index; }

static int level_of(fuse_ino_t ino) { return (int)(ino >> 48) - 1; }

static long index_of(fuse_ino_t ino) { return (long)(ino & (((fuse_ino_t)1 << 48) - 1)); }

static struct stat attributes(fuse_ino_t ino)
{
    struct stat st = {.st_ino = ino, .st_nlink = 1, .st_uid = getuid(), .st_gid = getgid()};
    int file = ino == READY || level_of(ino) == levels;
    st.st_mode = file ? S_IFREG | 0444 : S_IFDIR | 0555;
    st.st_size = ino == READY ? size : file ? chunk : 0;
    return st;
}

static void get_attributes(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
    struct stat st = attributes(ino);
    (void)info;
    fuse_reply_attr(req, &st, KEEP);
}

static void look_up(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.attr_timeout = KEEP, .entry_timeout = KEEP};
    int level = level_of(parent);
    if (parent == FUSE_ROOT_ID) {
        entry.ino = !strcmp(name, "ready") ? READY : !strcmp(name, "c") ? inode(0, 0) : 0;
    } else if (level >= 0 && level < levels) {
        char *end;
        long n = strtol(name, &end, 10);
        if (!*end && n >= 0 && n < counts[level])
            entry.ino = inode(level + 1, index_of(parent) * counts[level] + n);
    }
    if (!entry.ino) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    entry.attr = attributes(entry.ino);
    fuse_reply_entry(req, &entry);
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t room, off_t offset, int plus)
{
    char buffer[1 << 17];
    size_t used = 0;
    int root = ino == FUSE_ROOT_ID, level = level_of(ino);
    long n = root ? 2 : counts[level];
    if (room > sizeof buffer)
        room = sizeof buffer;
    for (; offset < n; offset++) {
        struct fuse_entry_param entry = {.attr_timeout = KEEP, .entry_timeout = KEEP};
        char name[24];
        if (root)
            strcpy(name, offset ? "c" : "ready");
        else
            snprintf(name, sizeof name, "%ld", (long)offset);
        entry.ino = root ? (offset ? inode(0, 0) : READY) : inode(level + 1, index_of(ino) * n + offset);
        entry.attr = attributes(entry.ino);
        size_t more = plus ? fuse_add_direntry_plus(req, buffer + used, room - used, name, &entry, offset + 1)
                           : fuse_add_direntry(req, buffer + used, room - used, name, &entry.attr, offset + 1);
        if (more > room - used)
            break;
        used += more;
    }
    fuse_reply_buf(req, buffer, used);
}

static void read_folder(fuse_req_t req, fuse_ino_t ino, size_t room, off_t offset, struct fuse_file_info *info)
{
    (void)info;
    list(req, ino, room, offset, 0);
}

static void read_folder_plus(fuse_req_t req, fuse_ino_t ino, size_t room, off_t offset, struct fuse_file_info *info)
{
    (void)info;
    list(req, ino, room, offset, 1);
}

static void open_file(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
    (void)ino;
    info->keep_cache = 1;
    fuse_reply_open(req, info);
}

static void read_file(fuse_req_t req, fuse_ino_t ino, size_t wanted, off_t offset, struct fuse_file_info *info)
{
    static __thread char *buffer;
    static __thread size_t room;
    long end = ino == READY ? size : chunk, first = ino == READY ? 0 : index_of(ino) * chunk % (size - chunk + 1);
    (void)info;
    if (room < wanted) {
        free(buffer);
        buffer = malloc(room = wanted);
    }
    if (offset >= end)
        wanted = 0;
    else if ((long)wanted > end - offset)
        wanted = end - offset;
    ssize_t got = pread(source, buffer, wanted, first + offset);
    if (got < 0)
        fuse_reply_err(req, errno);
    else
        fuse_reply_buf(req, buffer, got);
}

int main(int argc, char **argv)
{
    struct fuse_lowlevel_ops answers = {.lookup = look_up, .getattr = get_attributes, .readdir = read_folder, .readdirplus = read_folder_plus, .open = open_file, .read = read_file};
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    struct stat st;
    if (argc < 5)
        return 2;
    source = open(argv[1], O_RDONLY);
    if (source < 0 || fstat(source, &st))
        return 2;
    size = st.st_size;
    chunk = atol(argv[2]);
    for (char *part = strtok(argv[3], ","); part && levels < LEVELS; part = strtok(NULL, ","))
        counts[levels++] = atol(part);
    const char *point = argv[4];
    argv[4] = argv[0];
    struct fuse_args args = FUSE_ARGS_INIT(argc - 4, argv + 4);
    struct fuse_session *session = fuse_session_new(&args, &answers, sizeof answers, NULL);
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, point))
        return 1;
    fuse_session_loop_mt(session, config);
    fuse_session_unmount(session);
    return 0;
}
