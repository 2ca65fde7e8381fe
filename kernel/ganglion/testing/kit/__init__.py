"""The conformance kit: plays the bus against one peer and judges every clause of the protocol's paper.

Plugin authors ask the same cases from pytest: `judge(PluginDriver("pendulum"), Order(plugin="pendulum"))`.
"""
