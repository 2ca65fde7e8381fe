/* Be an environment of Ganglion from any language that calls C: numbers in, numbers out, one thread.
 *
 * Open, declare sensors, actuators and rewards (scalar Boxes of doubles), then ask for one call after the other and
 * answer each. What the kernel sends by itself (heartbeats, repeats of a call) is dealt with inside.
 *
 *     gcc -O2 -fPIC -shared ganglion_peer.c -o libganglion_peer.so -lzmq -lmsgpackc
 */
#ifndef GANGLION_PEER_H
#define GANGLION_PEER_H
#include <stdint.h>

typedef struct ganglion_peer ganglion_peer;
enum { GANGLION_LOST = -1, GANGLION_LEFT = 0, GANGLION_START, GANGLION_RESET, GANGLION_UPDATE, GANGLION_SHUTDOWN };

/* Connect as the variables GANGLION_ENDPOINT, _NAME, _TOKEN (and the keys) say, and ask to join. NULL: see stderr. */
ganglion_peer *ganglion_open(const char *language);
/* Declare, before the first ganglion_next; an actuator's value is its no-op. 0, or -1 where there are too many. */
int ganglion_sensor(ganglion_peer *peer, const char *id, double low, double high);
int ganglion_actuator(ganglion_peer *peer, const char *id, double low, double high, double value);
int ganglion_reward(ganglion_peer *peer, const char *id, double low, double high);
/* Wait for the next call and return which it is; LEFT: leave now; LOST: see ganglion_reason. */
int ganglion_next(ganglion_peer *peer);
/* Of START and RESET: the seed of the object or the episode, at least 0. */
int64_t ganglion_seed(const ganglion_peer *peer);
/* Of UPDATE: copy the setpoints, in declared order, where there are any; what is not given stays. Their number. */
int ganglion_setpoints(const ganglion_peer *peer, double *into);
/* Answer: readings and rewards in declared order. START and RESET have no rewards, SHUTDOWN looks at nothing. */
int ganglion_answer(ganglion_peer *peer, const double *readings, const double *rewards, int64_t ticks, int terminated,
                    int truncated);
/* Answer that it cannot be done, and why. */
int ganglion_fail(ganglion_peer *peer, const char *message);
/* Say why the last function failed. */
const char *ganglion_reason(const ganglion_peer *peer);
/* Close the connection, whatever has happened. */
int ganglion_close(ganglion_peer *peer);
#endif
