"""`bisect()`: the first node that is wrong on MAX."""
