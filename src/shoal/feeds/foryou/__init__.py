"""For you: a feed ranked by interest, which says of every post why it is there."""
