"""Streams rows with vectors into a Hudi table and has each commit called back by Kafka. docker-compose.yml and `make stack` run this.

BROKER      Kafka's address
TABLE       where the table is, by default in the store of docker-compose.yml
CHECKPOINT  where Spark keeps how far it is
STORE       the endpoint of an S3-compatible store, where the table is in one
CALLBACK    the class of the callback: by default Hudi's, which is in hudi-utilities
INTERVAL    seconds from one batch to the next, 10
BATCHES     how many to write; all that come, without it
"""
import os
import random
import threading

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, LongType, StringType, StructField, StructType

DIM = 16
PATH = os.environ.get('TABLE', 's3a://lake/items')
CHECKPOINT = os.environ.get('CHECKPOINT', 's3a://lake/checkpoint')
SCHEMA = StructType([
    StructField('id', StringType(), False), StructField('region', StringType()), StructField('title', StringType()), StructField('ts', LongType()),
    StructField('embedding', ArrayType(FloatType(), False), True, {'hudi_type': f'VECTOR({DIM})'})])
OPTIONS = {
    'hoodie.table.name': 'items',
    'hoodie.datasource.write.table.type': 'MERGE_ON_READ',
    'hoodie.datasource.write.recordkey.field': 'id',
    'hoodie.datasource.write.partitionpath.field': 'region',
    'hoodie.table.ordering.fields': 'ts',
    'hoodie.table.timeline.timezone': 'UTC',
    'hoodie.datasource.write.operation': 'upsert',
    'hoodie.metadata.enable': 'true',
    'hoodie.metadata.global.record.level.index.enable': 'true',
    'hoodie.metadata.compact.max.delta.commits': '20',  # our commits count, too
    'hoodie.write.commit.callback.on': 'true',
    'hoodie.write.commit.callback.class': os.environ.get('CALLBACK', 'org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback'),
    'hoodie.write.commit.callback.kafka.bootstrap.servers': os.environ['BROKER'],
    'hoodie.write.commit.callback.kafka.topic': 'hudi-commits',
    'hoodie.write.commit.callback.kafka.acks': 'all',  # without these two Hudi sends nothing
    'hoodie.write.commit.callback.kafka.retries': '3',
}
BATCHES = int(os.environ.get('BATCHES', '0'))
done, ended = [], threading.Event()

builder = (SparkSession.builder.appName('items').master('local[2]')
           .config('spark.serializer', 'org.apache.spark.serializer.KryoSerializer')
           .config('spark.sql.extensions', 'org.apache.spark.sql.hudi.HoodieSparkSessionExtension')
           .config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.hudi.catalog.HoodieCatalog'))
if 'STORE' in os.environ:
    builder = (builder.config('spark.hadoop.fs.s3a.endpoint', os.environ['STORE'])
               .config('spark.hadoop.fs.s3a.path.style.access', 'true')
               .config('spark.hadoop.fs.s3a.connection.ssl.enabled', 'false')
               # Each write of Hudi 1.2.0 leaves some streams open, and with them connections: of the 96 that s3a has by default none is left after a few commits.
               .config('spark.hadoop.fs.s3a.connection.maximum', '10000'))
spark = builder.getOrCreate()


def batch(frame, number):
    """Some rows are new, some get another vector, some only another title."""
    if BATCHES and len(done) == BATCHES:
        ended.set()  # nothing is being written while the query is stopped
        return
    rng = random.Random(number)
    rows = []
    for i in {rng.randrange(5_000) for _ in range(frame.count())}:
        seed = random.Random(i if rng.random() < 0.5 else (i, number).__hash__())
        rows.append((f'item-{i}', 'eu' if i % 2 else 'us', f'title {i} of batch {number}', number, [seed.gauss(0, 1) for _ in range(DIM)]))
    if rows:
        spark.createDataFrame(rows, SCHEMA).write.format('hudi').options(**OPTIONS).mode('append').save(PATH)
        done.append(number)
        print(f'batch {number}: {len(rows)} rows, {len(done)} commits', flush=True)


query = (spark.readStream.format('rate').option('rowsPerSecond', 20).load().writeStream.foreachBatch(batch)
         .trigger(processingTime=f'{os.environ.get("INTERVAL", "10")} seconds').option('checkpointLocation', CHECKPOINT).start())
while not ended.is_set() and not query.awaitTermination(1):
    pass
query.stop()
