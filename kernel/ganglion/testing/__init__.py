"""AUTHORS: the clock, bus, fakes and checks with which plugins are tested."""
