"""SQL in and out: the binder reads a query into the algebra, the lowering prints a plan's steps."""
