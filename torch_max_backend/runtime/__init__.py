"""The call of a compiled graph. Nothing here that compiling could have done."""
