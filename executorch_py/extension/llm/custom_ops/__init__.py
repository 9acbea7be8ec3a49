"""The `llama::` operators: attention over a key/value cache and the updates of such caches.

Nothing is registered here: importing `custom_ops` (or `op_fallback`) does, so that torch is only
needed by who exports.
"""
