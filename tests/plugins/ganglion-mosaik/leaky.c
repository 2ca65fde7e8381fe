/* A leaky tank as a co-simulation unit: x' = gear * u * on - k * x. It refuses steps above `limit`, ends below -limit. */
#include <stdbool.h>
#include <stdlib.h>
enum { X, U, K, GEAR, ON, LIMIT, SEED, BOTH }; /* value references; BOTH is (x, u), of FMI 3 */
#ifdef FMI3
typedef void (*Say)(void *, int, const char *, const char *);
#define SAY(tank) tank->say(tank->place, 3, "step", "the tank is full")
#else
typedef void (*Say)(void *, const char *, int, const char *, const char *, ...);
#define SAY(tank) tank->say(tank->place, "tank", 3, "step", "the tank is full")
#endif
typedef struct { double x, u, k, limit; int gear, on, seed, ended; Say say; void *place; } Tank;

static void begin(Tank *tank) {
    Tank first = {0.5, 0.0, 0.25, 100.0, 1, 1, 0, 0, tank->say, tank->place};
    *tank = first;
}
static void *made(Say say, void *place) {
    Tank *tank = calloc(1, sizeof(Tank));
    tank->say = say, tank->place = place;
    begin(tank);
    return tank;
}
static int stepped(Tank *tank, double step_s) {
    tank->x += step_s * (tank->gear * tank->u * tank->on - tank->k * tank->x);
    tank->ended = tank->x < -tank->limit;
    if (tank->x > tank->limit) SAY(tank);
    return tank->x > tank->limit ? 3 : 0;
}
static double *real(Tank *tank, unsigned which) {
    return which == X ? &tank->x : which == U ? &tank->u : which == K ? &tank->k : which == LIMIT ? &tank->limit : 0;
}
static int *whole(Tank *tank, unsigned which) {
    return which == GEAR ? &tank->gear : which == ON ? &tank->on : which == SEED ? &tank->seed : 0;
}

#ifdef FMI3
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *path, bool visible, bool logs,
                                  bool events, bool early, const unsigned *needed, size_t count, void *place, Say say,
                                  void *intermediate) {
    return made(say, place);
}
void fmi3FreeInstance(Tank *tank) { free(tank); }
int fmi3EnterInitializationMode(Tank *tank, bool has, double tolerance, double start, bool stops, double stop) {
    return 0;
}
int fmi3ExitInitializationMode(Tank *tank) { return 0; }
int fmi3Terminate(Tank *tank) { return 0; }
int fmi3Reset(Tank *tank) { begin(tank); return 0; }
int fmi3DoStep(Tank *tank, double at, double step_s, bool last, bool *event, bool *end, bool *early, double *until) {
    int status = stepped(tank, step_s);
    *event = false, *early = false, *end = tank->ended, *until = at + step_s;
    return status;
}
int fmi3GetFloat64(Tank *tank, const unsigned *which, size_t count, double *values, size_t size) {
    for (size_t i = 0; i < count; i++) {
        if (which[i] == BOTH) *values++ = tank->x, *values++ = tank->u;
        else *values++ = *real(tank, which[i]);
    }
    return 0;
}
int fmi3SetFloat64(Tank *tank, const unsigned *which, size_t count, const double *values, size_t size) {
    for (size_t i = 0; i < count; i++) *real(tank, which[i]) = values[i];
    return 0;
}
int fmi3GetInt32(Tank *tank, const unsigned *which, size_t count, int *values, size_t size) {
    for (size_t i = 0; i < count; i++) values[i] = *whole(tank, which[i]);
    return 0;
}
int fmi3SetInt32(Tank *tank, const unsigned *which, size_t count, const int *values, size_t size) {
    for (size_t i = 0; i < count; i++) *whole(tank, which[i]) = values[i];
    return 0;
}
int fmi3GetBoolean(Tank *tank, const unsigned *which, size_t count, bool *values, size_t size) {
    for (size_t i = 0; i < count; i++) values[i] = *whole(tank, which[i]);
    return 0;
}
int fmi3SetBoolean(Tank *tank, const unsigned *which, size_t count, const bool *values, size_t size) {
    for (size_t i = 0; i < count; i++) *whole(tank, which[i]) = values[i];
    return 0;
}
#else
typedef struct { Say say; void *take, *give, *done, *place; } Callbacks;
void *fmi2Instantiate(const char *name, int kind, const char *token, const char *path, const Callbacks *callbacks,
                      int visible, int logs) {
    return made(callbacks->say, callbacks->place);
}
void fmi2FreeInstance(Tank *tank) { free(tank); }
int fmi2SetupExperiment(Tank *tank, int has, double tolerance, double start, int stops, double stop) { return 0; }
int fmi2EnterInitializationMode(Tank *tank) { return 0; }
int fmi2ExitInitializationMode(Tank *tank) { return 0; }
int fmi2Terminate(Tank *tank) { return 0; }
int fmi2Reset(Tank *tank) { begin(tank); return 0; }
int fmi2DoStep(Tank *tank, double at, double step_s, int last) {
    int status = stepped(tank, step_s);
    return tank->ended ? 2 : status;
}
int fmi2GetBooleanStatus(Tank *tank, int kind, int *value) { *value = kind == 3 && tank->ended; return 0; }
int fmi2GetReal(Tank *tank, const unsigned *which, size_t count, double *values) {
    for (size_t i = 0; i < count; i++) values[i] = *real(tank, which[i]);
    return 0;
}
int fmi2SetReal(Tank *tank, const unsigned *which, size_t count, const double *values) {
    for (size_t i = 0; i < count; i++) *real(tank, which[i]) = values[i];
    return 0;
}
int fmi2GetInteger(Tank *tank, const unsigned *which, size_t count, int *values) {
    for (size_t i = 0; i < count; i++) values[i] = *whole(tank, which[i]);
    return 0;
}
int fmi2SetInteger(Tank *tank, const unsigned *which, size_t count, const int *values) {
    for (size_t i = 0; i < count; i++) *whole(tank, which[i]) = values[i];
    return 0;
}
int fmi2GetBoolean(Tank *tank, const unsigned *which, size_t count, int *values) {
    return fmi2GetInteger(tank, which, count, values);
}
int fmi2SetBoolean(Tank *tank, const unsigned *which, size_t count, const int *values) {
    return fmi2SetInteger(tank, which, count, values);
}
#endif
