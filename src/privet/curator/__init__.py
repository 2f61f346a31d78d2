"""The trusted curator: analysts ask, are quoted, and are answered within a durable budget."""
