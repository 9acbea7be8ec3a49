"""From an operator to its other forms; see convert.py."""
