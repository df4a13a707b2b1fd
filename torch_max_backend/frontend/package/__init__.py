"""Compiled programs in one file: graphs, native code and weights, loaded without tracing."""
