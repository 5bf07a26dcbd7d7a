"""new-api's database, as what this gateway has for it."""
