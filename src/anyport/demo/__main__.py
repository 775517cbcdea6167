"""`python -m anyport.demo`."""

import sys

from anyport.demo.command import main

sys.exit(main(sys.argv[1:]))
