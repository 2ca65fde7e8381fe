"""What reads bytes from elsewhere, as functions that a fuzzer calls, and a small fuzzer of our own."""
