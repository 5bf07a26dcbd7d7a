"""The `shanjian` dialect: every response has the same envelope, everything is a task."""
