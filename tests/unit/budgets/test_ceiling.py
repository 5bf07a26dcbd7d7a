"""The header by which a call names the ceiling of its run."""

import pytest

from actors.wallet.money import NANO_PER_USD
from gw.budgets.ceiling import read_ceiling
from gw.errors import GatewayError
from tests.support.rows import cases


@cases(
    "values, expected",
    ([], None),
    (["2.5"], 5 * NANO_PER_USD // 2),
    (["0.000000001"], 1),
    (["10"], 10 * NANO_PER_USD),
)
def test_a_ceiling_is_an_amount_of_usd(values: list[str], expected: int | None) -> None:
    assert read_ceiling(values, "r") == expected


@cases(
    "values, run",
    (["1"], None),
    (["1", "1"], "r"),
    *(
        ([one], "r")
        for one in (
            "",
            "0",
            "0.0",
            "-1",
            "1e3",
            "$1",
            "1,5",
            "1, 2",
            "nan",
            "1.0000000001",
            "9" * 20,
        )
    ),
)
def test_any_other_is_400_and_is_named(values: list[str], run: str | None) -> None:
    with pytest.raises(GatewayError) as refused:
        read_ceiling(values, run)
    assert (refused.value.http_status, refused.value.kind.code) == (400, "invalid_request")
    assert "x-gateway-run-max-usd" in refused.value.message
