"""Benchmarks: task suites carried out by several planners, in worker processes or on Ray, and the report on them."""
