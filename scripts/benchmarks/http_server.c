/* The least that a server can do which does not leave copying to the kernel: http_server FILE
 *
 * Prints its port. Answers GET /LENGTH/N… with LENGTH bytes of FILE, from byte N * LENGTH on: pread into a buffer of
 * the connection, and send. One thread for each connection. Requests are not checked.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int file;

static void *serve(void *given) {
    int fd = (int)(long)given, one = 1;
    char asked[8193], head[128], *buffer = NULL;
    long room = 0;
    size_t got = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        ssize_t more = recv(fd, asked + got, 8192 - got, 0);
        if (more <= 0) break;
        asked[got += more] = 0;
        if (!strstr(asked, "\r\n\r\n")) continue;
        got = 0;
        long length, n;
        if (sscanf(asked, "GET /%ld/%ld", &length, &n) != 2) break;
        if (length > room) buffer = realloc(buffer, room = length);
        if (pread(file, buffer, length, n * length) != length) break;
        int size = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", length);
        struct iovec parts[] = {{head, size}, {buffer, length}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < size) break;
        for (long at = sent - size; at < length; at += sent)
            if ((sent = send(fd, buffer + at, length - at, MSG_NOSIGNAL)) <= 0) break;
    }
    free(buffer);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2 || (file = open(argv[1], O_RDONLY)) < 0) return 1;
    mallopt(M_ARENA_MAX, 1);  /* buffers are used again by the next connection: fresh pages are slow */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 2147483647);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 128)) return 1;
    getsockname(listener, (struct sockaddr *)&at, &size);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        pthread_t thread;
        if (fd < 0 || pthread_create(&thread, NULL, serve, (void *)(long)fd)) return 1;
        pthread_detach(thread);
    }
}
