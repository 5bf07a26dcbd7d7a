"""LiteLLM's configuration and price lists, as what this gateway has for them."""
