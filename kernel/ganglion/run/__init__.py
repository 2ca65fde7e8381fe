"""RUNS: the governor's rules for phases, workers, episodes and verdicts; events in, effects out."""
