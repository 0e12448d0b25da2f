"""Files of unknown origin, by the thousand: the effect of damaged ones on their readers."""
