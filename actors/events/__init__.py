"""What has happened, for pulls and webhooks: written by transactions, numbered, read, purged."""
