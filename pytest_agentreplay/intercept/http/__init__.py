"""HTTP clients: one module per library, and the parts of a request and a reply that they share."""
