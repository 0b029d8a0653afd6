"""The data source ``hflush``: what Spark asks for when a DataFrame is written to it."""

from __future__ import annotations

from io import UnsupportedOperation
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["HflushDataSource"]


class HflushDataSource(DataSource):
    """``df.write.format("hflush")``: see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "hflush"

    def schema(self) -> StructType:
        """Refuse to read, which Spark's own formats do: it is what Spark asks for first.

        Raises
        ------
        io.UnsupportedOperation
            Always.
        """
        raise UnsupportedOperation(
            "format('hflush') only writes: read its files with the format that they have, as by "
            "spark.read.parquet(path)"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of one job.

        Raises
        ------
        TypeError, ValueError
            A column or an option that is not supported. Nothing was written.
        ImportError
            pyarrow is missing.
        """
        from .settings import WriteSettings
        from .writer import BatchWriter

        return BatchWriter(WriteSettings.of(dict(self.options), overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query.

        Raises
        ------
        TypeError, ValueError
            A column or an option that is not supported, or an output mode other than append.
        ImportError
            pyarrow is missing.
        """
        from .settings import WriteSettings
        from .stream import StreamWriter

        if overwrite:
            raise ValueError(
                "outputMode('complete') is not for this format, whose log only adds files: use "
                "foreachBatch, and in it batch.write.format('hflush').mode('overwrite') with a "
                "commitId (docs/spark.md, Recipes)"
            )
        return StreamWriter(WriteSettings.of_stream(dict(self.options)), schema)
