"""Tools around exported programs: inspection and debugging. Needs torch where it reads graphs."""
