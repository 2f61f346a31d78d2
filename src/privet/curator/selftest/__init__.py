"""The crash harness of the curator, as a feature: it kills a curator on a scratch database and judges what
is left.
"""

from privet.curator.selftest.harness import SelftestReport, run_selftest
from privet.curator.selftest.postgres_server import PostgresServer, start_postgres
from privet.curator.selftest.scratch import ScratchServer

__all__ = ["PostgresServer", "ScratchServer", "SelftestReport", "run_selftest", "start_postgres"]
