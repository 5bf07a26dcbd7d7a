"""Accounts as an operator manages them: made, listed, limited, enabled and disabled.

Their money moves in `actors/wallet`; their keys are `gw/keys`.
"""
