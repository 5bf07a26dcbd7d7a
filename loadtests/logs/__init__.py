"""Ten million rows of one account, and what pages and summaries of them cost in the database."""
