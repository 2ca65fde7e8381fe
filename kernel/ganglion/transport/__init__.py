"""SOCKETS: the only room that knows pyzmq and uvloop."""
