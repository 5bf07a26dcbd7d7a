"""Signatures as Standard Webhooks 1.0 has them, by its own example."""

from base64 import b64decode

from actors.webhooks.signature import header_lines, new_secret, signature

# Of the specification's reference libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT, SECOND, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_example_of_the_specification() -> None:
    assert signature([SECRET], event_id=EVENT, timestamp=SECOND, body=BODY) == SIGNED


def test_two_secrets_sign_beside_each_other_the_first_one_first() -> None:
    other = new_secret()
    both = signature([other, SECRET], event_id=EVENT, timestamp=SECOND, body=BODY)
    alone = signature([other], event_id=EVENT, timestamp=SECOND, body=BODY)
    assert both == f"{alone} {SIGNED}"


def test_a_secret_is_32_bytes_that_nobody_guesses() -> None:
    first, second = new_secret(), new_secret()
    assert first != second
    assert first.startswith("whsec_")
    assert len(b64decode(first.removeprefix("whsec_"), validate=True)) == 32


def test_the_lines_of_a_request_name_event_second_and_signature() -> None:
    assert header_lines([SECRET], event_id=EVENT, timestamp=SECOND, body=BODY).decode() == (
        f"webhook-id: {EVENT}\r\nwebhook-timestamp: {SECOND}\r\nwebhook-signature: {SIGNED}\r\n"
    )
