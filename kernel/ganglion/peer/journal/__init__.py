"""JOURNALS: what a process writes down so that a successor can be made, and their compaction."""
