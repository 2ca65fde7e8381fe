"""SOCKETS: the only room that imports pyzmq and uvloop."""
