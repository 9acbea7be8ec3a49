"""The symmetric int8 quantizer under upstream's name; see xnnpack_quantizer.py."""
