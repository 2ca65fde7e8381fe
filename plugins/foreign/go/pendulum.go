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

const (
	hello = 1
	call  = 3
	reply = 4
	fault = 5
	beat  = 8
	bye   = 10
)

// The world: + - * / only, each line evaluated as written, so that every language gets the same bits. A conversion
// around a product keeps the compiler from fusing it with a sum, as it may on ARM.
type pendulum struct {
	x       uint64
	c, s, w float64
	steps   int
	running bool
}

func (p *pendulum) draw() float64 {
	p.x = 16807 * p.x % 2147483647
	return float64(2.0*float64(p.x))/2147483647 - 1.0
}

func (p *pendulum) begin(seed uint64) {
	p.x = 1 + seed%2147483646
	p.draw()
	t := p.draw()
	square := float64(t * t)
	q := 1.0 + square
	p.c, p.s, p.w = (square-1.0)/q, 2.0*t/q, p.draw()
	p.steps, p.running = 0, true
}

func (p *pendulum) advance(torque float64) float64 {
	u := math.Min(math.Max(torque, -2.0), 2.0)
	pull := float64(15.0*p.s) + float64(3.0*u)
	w := math.Min(math.Max(p.w+float64(pull*0.05), -8.0), 8.0)
	k := w * 0.025
	square := float64(k * k)
	q, r := 1.0+square, 1.0-square
	twice := float64(2.0 * k)
	c := (float64(r*p.c) - float64(twice*p.s)) / q
	s := (float64(r*p.s) + float64(twice*p.c)) / q
	p.c, p.s, p.w = c, s, w
	p.steps++
	p.running = p.steps < 200
	return -(float64(2.0*(1.0-c)) + float64(float64(0.1*w)*w) + float64(float64(0.001*u)*u))
}

// -- what travels -----------------------------------------------------------------------------------------------------
type object = map[string]any

type asked struct {
	Seed      *uint64      `msgpack:"seed"`
	Setpoints [][]*float64 `msgpack:"setpoints"` // an integer is as good; nil is none
	Actuators []int        `msgpack:"actuators"`
	Message   string       `msgpack:"message"`
}

func box(id string, low, high float64) object {
	return object{"id": id, "space": object{"type": "box", "dtype": "<f8", "shape": []int{}, "low": low, "high": high}}
}

func unpack(frame []byte, into any) error { // an empty frame is as good as an empty map
	if len(frame) == 0 {
		return nil
	}
	return msgpack.Unmarshal(frame, into)
}

// -- the calls: what is returned is the body of the REPLY, an error becomes an ERROR ----------------------------------
var unknown = errors.New("expected start, reset, update or shutdown of environment")

func (p *pendulum) answer(name string, frame []byte) (object, error) {
	body := asked{}
	if err := unpack(frame, &body); err != nil {
		return nil, err
	}
	rewards := [][]float64{}
	switch name {
	case "environment.start", "environment.reset":
		if body.Seed == nil {
			return nil, errors.New("seed: expected an integer from 0")
		}
		p.begin(*body.Seed)
	case "environment.update":
		if !p.running {
			return nil, errors.New("expected environment.start or .reset before it")
		}
		torque, err := torqueOf(body)
		if err != nil {
			return nil, err
		}
		rewards = append(rewards, []float64{p.advance(torque)})
	case "environment.shutdown":
		p.running = false
		return object{}, nil
	default:
		return nil, unknown
	}
	readings := [][]float64{{p.c, p.s, p.w}}
	if name != "environment.start" {
		return object{"readings": readings, "rewards": rewards, "ticks": p.steps, "truncated": !p.running}, nil
	}
	torque := box("torque", -2.0, 2.0)
	torque["value"] = 0.0
	return object{
		"sensors":   []object{box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)},
		"actuators": []object{torque},
		"rewards":   []object{box("balance", -11.0, 1.0)},
		"readings":  readings,
	}, nil
}

func torqueOf(body asked) (float64, error) {
	rows := body.Setpoints
	if len(rows) == 1 && len(rows[0]) == 0 && body.Actuators != nil && len(body.Actuators) == 0 {
		return 0.0, nil // a step may give none
	}
	if len(rows) != 1 || len(rows[0]) != 1 || rows[0][0] == nil || math.IsNaN(*rows[0][0]) {
		return 0.0, fmt.Errorf("torque: expected one number, found %d rows or something else", len(rows))
	}
	return *rows[0][0], nil
}

// -- libzmq: every return code is looked at, and what a signal interrupted is called again (Go preempts by signals) ----
const interrupted, silent = syscall.EINTR, syscall.EAGAIN

type dealer struct{ context, socket unsafe.Pointer }

func check(what string, code C.int, err error) error {
	if code < 0 {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (d dealer) set(option C.int, value unsafe.Pointer, size int) error {
	code, err := C.zmq_setsockopt(d.socket, option, value, C.size_t(size))
	return check("cannot set an option", code, err)
}

func (d dealer) send(to, head, body []byte) error {
	for i, frame := range [][]byte{to, head, body} {
		flags, data := C.int(C.ZMQ_SNDMORE), unsafe.Pointer(nil)
		if i == 2 {
			flags = 0
		}
		if len(frame) > 0 {
			data = unsafe.Pointer(&frame[0])
		}
		for {
			code, err := C.zmq_send(d.socket, data, C.size_t(len(frame)), flags)
			if err := check("cannot send", code, err); err == nil {
				break
			} else if !errors.Is(err, interrupted) {
				return err
			}
		}
	}
	return nil
}

func (d dealer) receive() (frames [][]byte, err error) {
	var message C.zmq_msg_t
	for more := true; more; {
		C.zmq_msg_init(&message)
		code, err := C.zmq_msg_recv(&message, d.socket, 0)
		if code < 0 && errors.Is(err, interrupted) {
			continue
		} else if code < 0 {
			return nil, check("cannot receive", code, err)
		}
		frames = append(frames, C.GoBytes(C.zmq_msg_data(&message), C.int(C.zmq_msg_size(&message))))
		more = C.zmq_msg_more(&message) != 0
		C.zmq_msg_close(&message)
	}
	return frames, nil
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
func pack(value any) []byte {
	packed, err := msgpack.Marshal(value)
	if err != nil {
		panic(err) // we pack nothing that could not be
	}
	return packed
}

func replyTo(p *pendulum, serial any, name string, frame []byte) (head, body []byte) {
	found, err := p.answer(name, frame)
	if err == nil {
		return pack([]any{reply, serial}), pack(found)
	}
	kind := "protocol"
	if errors.Is(err, unknown) {
		kind = "unknown_call"
	}
	return pack([]any{fault, serial}), pack(object{"kind": kind, "message": name + ": " + err.Error()})
}

func serve(d dealer, name, token string) error {
	greeting := object{"version": 1, "role": "environment", "name": name, "token": token, "language": "go"}
	if err := d.send(nil, pack([]any{hello, 1}), pack(greeting)); err != nil {
		return err
	}
	world, before, head, body := pendulum{}, []byte(nil), []byte(nil), []byte(nil)
	for {
		frames, err := d.receive()
		if err != nil {
			return err
		}
		message := []any{}
		if len(frames) < 2 || msgpack.Unmarshal(frames[1], &message) != nil || len(message) == 0 {
			return errors.New("expected a head in msgpack")
		}
		message = append(message, nil, nil)
		frames = append(frames, nil)
		name, named := message[2].(string)
		switch verb := fmt.Sprint(message[0]); {
		case verb == strconv.Itoa(call):
			if whole := pack(frames); !bytes.Equal(whole, before) { // else it comes again: the same answer, no step
				before = whole
				head, body = replyTo(&world, message[1], name, frames[2])
			}
			err = d.send(frames[0], head, body)
		case verb == strconv.Itoa(beat) && !named:
			err = d.send(nil, pack([]any{beat, message[1], "here"}), nil)
		case verb == strconv.Itoa(bye):
			return d.send(nil, pack([]any{bye, message[1]}), nil)
		case verb == strconv.Itoa(fault):
			why := asked{}
			if err = unpack(frames[2], &why); err == nil {
				err = fmt.Errorf("the kernel ends the connection: %s", why.Message)
			}
		}
		if err != nil {
			return err
		}
	}
}

func play() error {
	endpoint, name, token := os.Getenv("GANGLION_ENDPOINT"), os.Getenv("GANGLION_NAME"), os.Getenv("GANGLION_TOKEN")
	if endpoint == "" || name == "" || token == "" {
		return errors.New("expected GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN")
	}
	silence := 10000 // ms; the kernel says something every half second
	if text := os.Getenv("GANGLION_SILENCE_MS"); text != "" {
		silence, _ = strconv.Atoi(text)
	}
	context := C.zmq_ctx_new()
	d := dealer{context, C.zmq_socket(context, C.ZMQ_DEALER)}
	linger, timeout := C.int(500), C.int(silence) // ms for the last answer to leave
	options := []error{d.set(C.ZMQ_LINGER, unsafe.Pointer(&linger), 4), d.set(C.ZMQ_RCVTIMEO, unsafe.Pointer(&timeout), 4)}
	if os.Getenv("GANGLION_SERVER_KEY") != "" { // of a kernel on another machine
		for key, option := range map[string]C.int{
			"SERVER_KEY": C.ZMQ_CURVE_SERVERKEY, "PUBLIC_KEY": C.ZMQ_CURVE_PUBLICKEY, "SECRET_KEY": C.ZMQ_CURVE_SECRETKEY,
		} {
			text := C.CString(os.Getenv("GANGLION_" + key))
			options = append(options, d.set(option, unsafe.Pointer(text), 41))
			C.free(unsafe.Pointer(text))
		}
	}
	address := C.CString(endpoint)
	code, err := C.zmq_connect(d.socket, address)
	C.free(unsafe.Pointer(address))
	for _, err := range append(options, check(endpoint, code, err)) {
		if err != nil {
			return err
		}
	}
	if err := serve(d, name, token); err != nil {
		if errors.Is(err, silent) {
			return fmt.Errorf("the kernel has been silent for %d ms", silence)
		}
		return err
	}
	code, err = C.zmq_close(d.socket)
	if err := check("cannot end", code, err); err != nil {
		return err
	}
	for {
		if code, err = C.zmq_ctx_term(d.context); code == 0 || !errors.Is(err, interrupted) {
			return check("cannot end", code, err)
		}
	}
}

func main() {
	runtime.LockOSThread() // a socket belongs to one thread
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, "pendulum:", err)
		os.Exit(1)
	}
}
