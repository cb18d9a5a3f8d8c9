"""Measuring what one thing costs on this machine, in about a minute."""
