"""Upstream's module paths of operator libraries; the runtime has the operators built in."""
