/* Asks an HTTP server for many things and throws the answers away: the client of serve_bench.py.
 *
 * http_client PORT CONNECTIONS COUNT STATUS LENGTH < requests
 *
 * Sends COUNT requests to 127.0.0.1: those on standard input, each ended by a zero byte, one after the
 * other and from the first again. Every connection has one request under way. An answer must have
 * this status and a body of LENGTH bytes. Prints: seconds from the first request to the last byte, seconds
 * to the first byte of an answer (the median).
 *
 * One thread and one buffer, which bodies are copied to: the least that a client can do with them.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD 8192
#define BUFFER (256 << 10)

struct connection {
    int fd;
    int in_body;
    size_t got;         /* of the head */
    long long left;     /* of the body */
    double asked;
    char head[HEAD + 1];
};

static char **requests;
static size_t *lengths, how_many, next_one;
static long todo, under_way;
static double *firsts;
static long n_firsts;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    fprintf(stderr, "http_client: %s\n", what);
    exit(1);
}

static void read_requests(void) {
    size_t room = 1 << 20, size = 0, got;
    char *all = malloc(room);
    while ((got = fread(all + size, 1, room - size, stdin)) > 0) {
        size += got;
        if (size == room) all = realloc(all, room *= 2);
    }
    for (size_t k = 0; k < size; k++) how_many += !all[k];
    requests = malloc(how_many * sizeof *requests);
    lengths = malloc(how_many * sizeof *lengths);
    char *at = all;
    for (size_t k = 0; k < how_many; k++) {
        requests[k] = at;
        lengths[k] = strlen(at);
        at += lengths[k] + 1;
    }
    if (!how_many) die("no requests");
}

static void ask(struct connection *c) {
    if (!todo) return;
    todo--;
    under_way++;
    c->in_body = 0;
    c->got = 0;
    c->asked = now();
    if (send(c->fd, requests[next_one], lengths[next_one], MSG_NOSIGNAL) != (ssize_t)lengths[next_one]) die("cannot send");
    next_one = (next_one + 1) % how_many;
}

static void answered(struct connection *c) {
    under_way--;
    ask(c);
}

/* Parses a head, if it is there. */
static void head(struct connection *c, int status, long long length) {
    c->head[c->got] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) {
        if (c->got == HEAD) die("a head is too long");
        return;
    }
    size_t body = c->got - (end + 4 - c->head);
    *end = 0;
    if (atoi(c->head + 9) != status) die(c->head);
    char *said = strcasestr(c->head, "\r\ncontent-length:");
    if (status != 304 && (!said || atoll(said + 17) != length)) die(c->head);
    c->in_body = 1;
    c->left = length - body;
    if (c->left < 0) die("a body is too long");
    if (!c->left) answered(c);
}

static int ascending(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv) {
    if (argc != 6) die("PORT CONNECTIONS COUNT STATUS LENGTH");
    int port = atoi(argv[1]), many = atoi(argv[2]), status = atoi(argv[4]);
    long long length = atoll(argv[5]);
    todo = atol(argv[3]);
    firsts = malloc(todo * sizeof *firsts);
    read_requests();
    char *buffer = malloc(BUFFER);
    memset(buffer, 1, BUFFER);
    struct connection *all = calloc(many, sizeof *all);
    int poll = epoll_create1(0), one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int k = 0; k < many; k++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[k]};
        all[k].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[k].fd, (struct sockaddr *)&to, sizeof to)) die("cannot connect");
        setsockopt(all[k].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_ctl(poll, EPOLL_CTL_ADD, all[k].fd, &event);
    }
    double began = now();
    for (int k = 0; k < many; k++) ask(&all[k]);
    while (under_way) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 20000);
        if (ready <= 0 && errno != EINTR) die("nothing comes any more");
        for (int k = 0; k < ready; k++) {
            struct connection *c = events[k].data.ptr;
            ssize_t got = c->in_body ? recv(c->fd, buffer, c->left < BUFFER ? c->left : BUFFER, MSG_DONTWAIT)
                                     : recv(c->fd, c->head + c->got, HEAD - c->got, MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) continue;
            if (got <= 0) die("a connection was closed");
            if (c->in_body) {
                c->left -= got;
                if (!c->left) answered(c);
            } else {
                if (!c->got) firsts[n_firsts++] = now() - c->asked;
                c->got += got;
                head(c, status, length);
            }
        }
    }
    double took = now() - began;
    qsort(firsts, n_firsts, sizeof *firsts, ascending);
    printf("%.9f %.9f\n", took, firsts[n_firsts / 2]);
    return 0;
}
