"""Choosing on an abstract graph: the search, the sharing of states, and exact optima to compare them with."""
