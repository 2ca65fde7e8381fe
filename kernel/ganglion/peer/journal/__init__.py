"""JOURNALS: what a process records so that a successor can replay it, and compaction."""
