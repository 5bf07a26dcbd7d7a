"""What the workers of one `gw serve` share through their parent: both ends of the socket."""
