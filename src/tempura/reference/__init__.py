"""The reference interpreter: bags with signed weights and SQL's NULLs, evaluated as their definitions say. The oracle for rules and for lowering."""

from tempura.reference.interpreter import EVALUATORS, Bag, apply, bag, bag_of_rows, evaluate, rows_of

__all__ = ["EVALUATORS", "Bag", "apply", "bag", "bag_of_rows", "evaluate", "rows_of"]
