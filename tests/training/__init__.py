"""Training on MAX: whole steps beside eager's, step by step."""
