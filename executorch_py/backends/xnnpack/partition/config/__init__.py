"""Settings of the partitioners; see xnnpack_config.py."""
