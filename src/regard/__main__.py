"""`python -m regard`: the same as the command `regard`."""

from regard.cli.main import main

main()
