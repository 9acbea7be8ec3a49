"""How programs are stored between sessions: see save_load.py, which `exir.save` is."""
