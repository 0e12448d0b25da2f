"""Files of unknown origin, by the thousand: what damaged ones do to those who read them."""
