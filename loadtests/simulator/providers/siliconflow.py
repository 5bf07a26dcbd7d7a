"""SiliconFlow: errors without an envelope, or a bare text; usage in every chunk."""

from __future__ import annotations

from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Provider

TRACE = {"x-siliconcloud-trace-id": "ti_sim"}


def _failure(status: int, code: int, message: str) -> Failure:
    body = {"code": code, "message": message, "data": None}
    return Failure(status=status, body=body, headers=TRACE)


FAILURES = {
    # JSON, but no object.
    "bad_key": Failure(status=401, body='"Invalid token"', headers=TRACE),
    "no_credit": _failure(403, 30001, "Sorry, your account balance is insufficient"),
    "forbidden": _failure(403, 30003, "Model disabled."),
    "unknown_model": _failure(400, 20012, "Model does not exist. Please check it carefully."),
    "bad_parameter": _failure(400, 20015, "The parameter is invalid. Please check it again."),
    "context_too_long": _failure(
        413, 20024, "length of prompt_tokens (140000) must be less than max_seq_len (131072)."
    ),
    "rate_limited": Failure(
        status=429,
        body={
            "message": "Request was rejected due to rate limiting. If you want more, please "
            "contact contact@siliconflow.cn. Details:TPM limit reached.",
            "data": None,
        },
        headers=TRACE,
    ),
    "server_error": _failure(500, 60000, "Unknown error."),
    "overloaded": _failure(503, 50505, "Model service overloaded. Please try again later."),
    "timeout": Failure(status=504, body="504 Gateway Timeout", headers=TRACE),
}
SILICONFLOW = Provider(
    name="siliconflow",
    sources={
        "errors": "https://docs.siliconflow.cn/cn/faqs/error-code",
        "texts": "https://docs.siliconflow.cn/cn/api-reference/chat-completions/chat-completions",
        "messages": "https://docs.siliconflow.cn/cn/docs/api/messages-post",
    },
    headers=TRACE,
    models=("zai-org/GLM-5", "Qwen/Qwen3-235B-A22B"),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="",
                    head={"system_fingerprint": ""},
                    every_delta={"content": None, "reasoning_content": None, "role": "assistant"},
                    usage_in="every_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["overloaded"].body),
        ),
        Face(
            path="/v1/messages",
            dialect=MessagesDialect(),
            failures={**in_messages(FAILURES), "bad_key": FAILURES["bad_key"]},
        ),
    ),
)
