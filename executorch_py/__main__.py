"""`python -m executorch_py`: the command line."""

from executorch_py.cli.main import main

raise SystemExit(main())
