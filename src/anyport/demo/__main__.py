"""`python -m anyport.demo`: the demonstration server as a program of its own."""

import sys

from anyport.demo.server import main

sys.exit(main(sys.argv[1:]))
