"""``python -m privet.curator.serving``: the gateway, started by the supervisor or by a service manager."""

import sys

from privet.curator.serving.gateway_process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
