"""What the backend tells about its own work: counters, timings, progress."""
