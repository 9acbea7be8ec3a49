"""The portable operators. They are always there: importing this changes nothing."""
