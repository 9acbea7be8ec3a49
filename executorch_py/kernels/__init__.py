"""Operator libraries at upstream's module paths; the runtime has these operators built in."""
