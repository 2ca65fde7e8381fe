// Play the reference pendulum with libzmq by cgo, and msgpack v5: join, declare, reset, update, leave.
package main

/*
#cgo LDFLAGS: -lzmq
#include <errno.h>
#include <stdlib.h>
#include <zmq.h>
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
)

const hello, call, reply, fault, beat, bye = 1, 3, 4, 5, 8, 10

// The world: + - * / only, each line evaluated as written, so that every language gets the same bits. A conversion
// around a product keeps the compiler from fusing it with a sum, as it may on ARM.
var (
	x       uint64
	c, s, w float64
	steps   = -1 // no episode was begun
)

func draw() float64 {
	x = 16807 * x % 2147483647
	return float64(2.0*float64(x))/2147483647 - 1.0
}

func begin(seed uint64) {
	x = 1 + seed%2147483646
	draw()
	t := draw()
	square := float64(t * t)
	q := 1.0 + square
	c, s, w, steps = (square-1.0)/q, 2.0*t/q, draw(), 0
}

func advance(torque float64) []float64 {
	u := math.Min(math.Max(torque, -2.0), 2.0)
	pull := float64(15.0*s) + float64(3.0*u)
	w = math.Min(math.Max(w+float64(pull*0.05), -8.0), 8.0)
	k := w * 0.025
	square := float64(k * k)
	q, r, twice := 1.0+square, 1.0-square, float64(2.0*k)
	c, s, steps = (float64(r*c)-float64(twice*s))/q, (float64(r*s)+float64(twice*c))/q, steps+1
	return []float64{-(float64(2.0*(1.0-c)) + float64(float64(0.1*w)*w) + float64(float64(0.001*u)*u))}
}

// -- the calls: what is returned is the body of the REPLY, an error becomes an ERROR ----------------------------------
type object = map[string]any

type asked struct {
	Seed      uint64      `msgpack:"seed"`
	Setpoints [][]float64 `msgpack:"setpoints"` // an integer is as good
	Message   string      `msgpack:"message"`
}

func answer(name string, frame []byte) (object, error) {
	body, rewards := asked{}, [][]float64{}
	if err := msgpack.Unmarshal(frame, &body); err != nil && len(frame) > 0 { // an empty frame is an empty map
		return nil, err
	}
	switch {
	case name == "environment.start" || name == "environment.reset":
		begin(body.Seed)
	case name == "environment.update" && steps >= 0 && len(body.Setpoints) == 1:
		rewards = append(rewards, advance(body.Setpoints[0][0]))
	case name == "environment.shutdown":
		return object{}, nil
	default:
		return nil, errors.New("a call that is unknown, or not to be expected")
	}
	state := object{"readings": [][]float64{{c, s, w}}, "rewards": rewards, "ticks": steps, "truncated": steps == 200}
	if name == "environment.start" {
		state["sensors"] = []string{"cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"}
		state["actuators"], state["rewards"] = []string{"torque: Box(-2, 2)"}, []string{"balance: Box(-11, 1)"}
	}
	return state, nil
}

// -- libzmq: every return code is looked at, and what a signal interrupted is called again (Go preempts by signals) ----
var dealer unsafe.Pointer

func must(code C.int, err error) { // the socket is not to be used any more where something fails
	if code < 0 {
		fail(err)
	}
}

func fail(err error) {
	if errors.Is(err, syscall.EAGAIN) {
		err = errors.New("the kernel has been silent for too long")
	}
	fmt.Fprintln(os.Stderr, "pendulum:", err)
	os.Exit(1)
}

func set(option C.int, value unsafe.Pointer, size int) {
	code, err := C.zmq_setsockopt(dealer, option, value, C.size_t(size))
	must(code, err)
}

func send(frames ...[]byte) {
	for i, frame := range frames {
		flags, code, err := C.int(C.ZMQ_SNDMORE), C.int(-1), error(syscall.EINTR)
		if i == len(frames)-1 {
			flags = 0
		}
		data := append([]byte{}, append(frame, 0)...) // there is a first byte, also of an empty frame
		for code < 0 && errors.Is(err, syscall.EINTR) {
			code, err = C.zmq_send(dealer, unsafe.Pointer(&data[0]), C.size_t(len(frame)), flags)
		}
		must(code, err)
	}
}

func receive() (frames [][]byte) {
	var message C.zmq_msg_t
	for more := true; more; {
		C.zmq_msg_init(&message)
		code, err := C.zmq_msg_recv(&message, dealer, 0)
		if code < 0 && errors.Is(err, syscall.EINTR) {
			continue
		}
		must(code, err)
		frames = append(frames, C.GoBytes(C.zmq_msg_data(&message), C.int(C.zmq_msg_size(&message))))
		more = C.zmq_msg_more(&message) != 0
		C.zmq_msg_close(&message)
	}
	return append(frames, nil) // a message without a body has an empty one
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
func pack(value any) []byte {
	packed, err := msgpack.Marshal(value)
	if err != nil {
		fail(err)
	}
	return packed
}

func connect() {
	silence, err := strconv.Atoi(os.Getenv("GANGLION_SILENCE_MS"))
	if err != nil {
		silence = 10000 // ms; the kernel says something every half second
	}
	linger, timeout := C.int(500), C.int(silence) // ms for the last answer to leave
	set(C.ZMQ_LINGER, unsafe.Pointer(&linger), 4)
	set(C.ZMQ_RCVTIMEO, unsafe.Pointer(&timeout), 4)
	curve := map[string]C.int{"SERVER": C.ZMQ_CURVE_SERVERKEY, "PUBLIC": C.ZMQ_CURVE_PUBLICKEY, "SECRET": C.ZMQ_CURVE_SECRETKEY}
	for key, option := range curve { // of a kernel on another machine
		if text := os.Getenv("GANGLION_" + key + "_KEY"); text != "" {
			set(option, unsafe.Pointer(C.CString(text)), 41)
		}
	}
	code, err := C.zmq_connect(dealer, C.CString(os.Getenv("GANGLION_ENDPOINT")))
	must(code, err)
}

func main() {
	runtime.LockOSThread() // a socket belongs to one thread
	context := C.zmq_ctx_new()
	dealer = C.zmq_socket(context, C.ZMQ_DEALER)
	connect()
	who := object{"name": os.Getenv("GANGLION_NAME"), "token": os.Getenv("GANGLION_TOKEN"), "language": "go"}
	who["version"], who["role"] = 1, "environment"
	send(nil, pack([]any{hello, 1}), pack(who))
	verb, before, kept := 0, []byte(nil), [][]byte(nil)
	for verb != bye {
		frames, message := receive(), []any{}
		if err := msgpack.Unmarshal(frames[1], &message); err != nil {
			fail(err)
		}
		verb, _ = strconv.Atoi(fmt.Sprint(message[0])) // of whatever integer type it was decoded to
		body := asked{}
		if verb == fault && msgpack.Unmarshal(frames[2], &body) == nil {
			fail(fmt.Errorf("the kernel ends the connection: %s", body.Message))
		}
		if whole := pack(frames); verb == call && !bytes.Equal(whole, before) { // else it comes again: the same answer
			head, name := []any{reply, message[1]}, fmt.Sprint(message[2])
			found, err := answer(name, frames[2])
			if err != nil {
				head[0], found = fault, object{"kind": "protocol", "message": name + ": " + err.Error()}
			}
			before, kept = whole, [][]byte{frames[0], pack(head), pack(found)}
		}
		if verb == call {
			send(kept...)
		} else if verb == beat || verb == bye {
			send(frames[:3]...)
		}
	}
	C.zmq_close(dealer)
	C.zmq_ctx_term(context)
}
