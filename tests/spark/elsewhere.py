"""A whole job in a session that is not local: on a cluster (`spark://…`) or through Spark Connect (`local[2]` as remote).

    python -m tests.spark.elsewhere MASTER FOLDER

It prints what the runs tell, line by line, so that somebody else can kill a worker in between; and `same` at the end if all results are right.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tempura.spark.java import java_environment
from tempura.spark.run import run
from tempura.spark.session import settings
from tempura.spark.verify import verify
from tests.spark.runjobs import SALES, arrive, put, shop

ROWS = 20_000


def started(master: str, folder: Path) -> SparkSession:
    """A session on a cluster, with the settings of a local one as far as they apply; or a client of Spark Connect."""
    with java_environment():
        if not master.startswith("spark://"):
            return SparkSession.builder.remote(master).config("spark.sql.shuffle.partitions", "2").getOrCreate()
        builder = SparkSession.builder.appName("tempura")
        own = {"spark.master": master, "spark.executor.memory": "600m", "spark.executor.cores": "1"}
        for name, value in {**settings(folder / "session"), **own, "spark.sql.shuffle.partitions": "4"}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def main(master: str, folder: Path) -> None:
    spark = started(master, folder)
    print("session", spark.version, flush=True)
    job = shop(folder)
    for at in (1, 2):
        arrive(folder, at, 6, [f"o{at - 1}-1", f"x{at}-5"] if at > 1 else [])
        put(folder / f"sales/{at:03}b.parquet", SALES, [(f"x{at}-{i}", f"c{i % 7}", None, at) for i in range(ROWS)])
        done = run(job, f"t{at}", spark=spark, told=lambda line, at=at: print(f"t{at}", line, flush=True))
        print(f"t{at}", done.status, len(done.steps), flush=True)
    reports = verify(job, spark=spark).results
    print("same" if reports and all(r.same for r in reports) else f"different {reports}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
