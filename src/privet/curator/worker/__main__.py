"""``python -m privet.curator.worker``: started by the gateway, or by a service manager as a user of its
own."""

import sys

from privet.curator.worker.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
