"""Ready-made ways to group nodes into partitions."""
