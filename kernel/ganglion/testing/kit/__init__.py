"""The conformance kit: plays the bus against one peer and judges every clause of the protocol's paper.

Plugin authors ask the same cases from pytest, with names of `ganglion.testing`:

```python
report = judge(PluginDriver("pendulum"), Order(plugin="pendulum", curve=False))
assert report.conforms, report.lines()
```
"""
