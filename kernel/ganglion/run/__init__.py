"""RUNS: the governor's phases, workers, episodes and verdicts; events in, effects out."""
