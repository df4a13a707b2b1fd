"""What people use to see into a compiled model, and the command line."""
