"""The `llama::` operators: attention over a key/value cache, and cache updates.

Importing this package registers nothing and needs no torch. Importing its module `custom_ops` (or
`op_fallback`) registers the operators.
"""
