"""What a user would pick instead: the views that are compared, and a runner for each system."""
