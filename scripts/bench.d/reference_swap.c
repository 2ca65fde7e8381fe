/* The reference in C: a ROUTER that swaps destination and source of every message. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

int main(int argc, char **argv) {
    void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
    int on = 1, none = 0;
    zmq_setsockopt(router, ZMQ_ROUTER_MANDATORY, &on, sizeof on);
    zmq_setsockopt(router, ZMQ_LINGER, &none, sizeof none);
    /* Without a bound: at one, a ROUTER either drops or stands still for good when the reader has gone. */
    zmq_setsockopt(router, ZMQ_SNDHWM, &none, sizeof none);
    if (argc != 2 || zmq_bind(router, argv[1])) return 1;
    puts("ready");
    fflush(stdout);
    for (;;) {
        zmq_pollitem_t items[] = {{router, 0, ZMQ_POLLIN, 0}, {NULL, 0, ZMQ_POLLIN, 0}};
        zmq_poll(items, 2, -1);
        if (items[1].revents) break; /* our input ended */
        for (int burst = 0; burst < 1000; burst++) {
            zmq_msg_t source, to, part;
            zmq_msg_init(&source);
            if (zmq_msg_recv(&source, router, ZMQ_DONTWAIT) < 0) break;
            zmq_msg_init(&to);
            zmq_msg_recv(&to, router, 0);
            int more = zmq_msg_more(&to);
            int lost = zmq_msg_send(&to, router, ZMQ_SNDMORE) < 0;
            if (lost) zmq_msg_close(&to);
            if (lost) zmq_msg_close(&source); else zmq_msg_send(&source, router, more ? ZMQ_SNDMORE : 0);
            while (more) {
                zmq_msg_init(&part);
                zmq_msg_recv(&part, router, 0);
                more = zmq_msg_more(&part);
                if (lost) zmq_msg_close(&part); else zmq_msg_send(&part, router, more ? ZMQ_SNDMORE : 0);
            }
        }
    }
    return 0;
}
