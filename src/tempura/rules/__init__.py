"""The rules, one file a method, and the language they are written in."""
