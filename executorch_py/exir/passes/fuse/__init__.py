"""Passes that replace several calls by one kernel: attention, batch norm, epilogues."""
