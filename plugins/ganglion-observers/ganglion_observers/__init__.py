"""OBSERVERS: what runs tell, handed to the tools that people have already."""
