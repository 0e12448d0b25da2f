"""Rules that many ops share: dtype sets, shape agreement, payload normal forms."""
