"""Launch: the local launcher, an implementation of `sdk.Launcher`, and the supervisor's state of each process."""
