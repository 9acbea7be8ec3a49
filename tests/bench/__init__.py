"""Speed as ratios taken in one run: scripts, not tests."""
