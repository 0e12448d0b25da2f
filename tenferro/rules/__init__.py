"""Rules that many ops share: sets of accepted dtypes, agreement of shapes, and normal forms of payloads."""
