"""Rules that many ops share: sets of dtypes, agreement of shapes, normal forms of payloads."""
