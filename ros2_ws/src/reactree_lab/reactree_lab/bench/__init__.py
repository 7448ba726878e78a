"""Benchmarks: several planners carry out task suites, in worker processes or on Ray, and a report compares them."""
