"""A server that speaks S3 and checks signatures, in a process of its own, with one empty bucket."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from actors.media_store.specs import BucketSpec
from loadtests.rig.client import fetch

BUCKET = "films"
REGION = "us-east-1"
# What is asked of it before it demands keys: a user, its key, its rights, the bucket.
FREE_ACTIONS = 4
POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)
SERVER = """
import logging, sys
from loadtests.rig.client import fetch
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@dataclass(frozen=True)
class StorageServer:
    """A running one, and the keys to it."""

    spec: BucketSpec

    @contextmanager
    def without_keys(self) -> Iterator[None]:
        """While it asks for none: it does not know how to check those within a link."""
        self._demand_after(1_000_000)
        try:
            yield
        finally:
            self._demand_after(0)

    def _demand_after(self, actions: int) -> None:
        url = f"{self.spec.endpoint}/moto-api/reset-auth"
        headers = {"Content-Type": "text/plain"}
        assert fetch(url, "POST", b"%d" % actions, headers=headers).status == 200


@contextmanager
def running_storage() -> Iterator[StorageServer]:
    """Ends with whoever started it: it waits for the end of its input."""
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(FREE_ACTIONS)}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
            yield StorageServer(_prepared(endpoint))
        finally:
            process.stdin.close()
            process.wait()


def _prepared(endpoint: str) -> BucketSpec:
    """A user who may do everything, and the bucket."""
    from botocore.session import Session

    def client(service: str) -> Any:
        return Session().create_client(
            service,
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id="nobody",
            aws_secret_access_key="nothing",
        )

    iam, s3 = client("iam"), client("s3")
    iam.create_user(UserName="gateway")
    key = iam.create_access_key(UserName="gateway")["AccessKey"]
    iam.put_user_policy(UserName="gateway", PolicyName="all", PolicyDocument=POLICY)
    s3.create_bucket(Bucket=BUCKET)
    return BucketSpec(
        endpoint=endpoint,
        region=REGION,
        bucket=BUCKET,
        prefix="copies/",
        access_key=key["AccessKeyId"],
        secret_key=key["SecretAccessKey"],
    )
