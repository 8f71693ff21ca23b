"""Running plans: binding to a backend, variables with versions, and timing."""
