"""What a target runtime accepts: kernel manifests and the rules for argument values."""
