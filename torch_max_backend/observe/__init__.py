"""Reports on the backend's own work: counters, timings, progress."""
