"""Where the time of compiled functions goes."""
