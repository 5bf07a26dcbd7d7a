"""`GET /v1/logs/{id}`: one call as it went (spec: Call log detail)."""

from __future__ import annotations

from gw.api.logs.handler import LogsHandler
from gw.api.logs.log_detail import gateway_pairs, kind_of, request_pairs, upstream_pairs
from gw.api.logs.record import find, read_ref
from gw.api.logs.visibility import widest
from gw.errors.render import dumps
from gw.errors.table import LOG_NOT_FOUND, GatewayError


class LogDetailHandler(LogsHandler):
    """A row that the key does not see is as good as none."""

    route = "log_detail"

    async def on_get(self, name: str) -> None:
        logs = self.logs
        ref = read_ref(name)
        record = None
        if isinstance(ref, int):
            record = await find(logs.database, ref, widest(self.principal))
        if record is None:
            raise GatewayError(LOG_NOT_FOUND, "There is no call of this id that this key may see.")
        request, note = request_pairs(record)
        self.write(
            dumps(
                {
                    "id": record.id,
                    "kind": kind_of(record),
                    "request": request,
                    "upstream": upstream_pairs(record, logs.redact),
                    "gateway": gateway_pairs(record, logs.redact, logs.credits_per_usd),
                    "request_note": note,
                }
            )
        )
