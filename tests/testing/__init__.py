"""Runs the test models and reports on them: runner, statistics, mermaid, report."""
