"""Events sent to the addresses that operators name: claimed, signed, tried again."""
