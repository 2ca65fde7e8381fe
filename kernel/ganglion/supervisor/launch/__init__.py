"""Launch: the local launcher, one of `sdk.Launcher`, and what the supervisor keeps of each process."""
