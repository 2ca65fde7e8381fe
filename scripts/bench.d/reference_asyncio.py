"""The reference: a broker on zmq.asyncio that speaks the same messages, reads the head, and swaps."""

from __future__ import annotations

import asyncio
import sys

import msgpack
import uvloop
import zmq
import zmq.asyncio


async def serve(endpoint: str) -> None:
    """Swap destination and source of every message."""
    router = zmq.asyncio.Context().socket(zmq.ROUTER)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.LINGER, 0)
    router.bind(endpoint)
    print("ready", flush=True)
    ended = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set_result, None)
    swapping = asyncio.ensure_future(_swap(router))
    await ended
    swapping.cancel()


async def _swap(router: zmq.asyncio.Socket) -> None:
    while True:
        frames = await router.recv_multipart()
        verb = msgpack.unpackb(frames[2])[0]
        if verb not in (3, 4, 5, 6):
            continue
        frames[0], frames[1] = frames[1], frames[0]
        try:
            await router.send_multipart(frames)
        except zmq.ZMQError:  # gone at the end of a round
            continue


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
