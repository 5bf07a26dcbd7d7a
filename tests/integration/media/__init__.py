"""Media upstreams over real sockets."""
