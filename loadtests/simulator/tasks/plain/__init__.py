"""The plain wire, the client API of a gateway spoken by an upstream: a file for each endpoint."""
