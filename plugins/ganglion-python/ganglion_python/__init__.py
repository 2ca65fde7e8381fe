"""What `import ganglion` gives: `run`, `check`, `results`, `connect`, and the asyncio twins `arun`, `aconnect`."""
