"""SOCKETS: the only room that knows pyzmq and uvloop, and a twin of them in memory."""
