"""Pages, operated through their visible texts. `browser.py` has a browser without scripts, `chromium/` real ones."""
