"""Zhipu and Z.ai: errors with a number of their own as text, usage in the chunk that finishes."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Answer
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider

FINISHES = {"content_filter": "sensitive"}


def _failure(status: int, code: str, message: str) -> Failure:
    return Failure(status=status, body={"error": {"code": code, "message": message}})


FAILURES = {
    "no_key": _failure(401, "1001", "Header中未收到Authorization参数，无法进行身份验证。"),
    "bad_key": _failure(401, "1000", "身份验证失败。"),
    # No 402 here, and not the same as a limit of calls.
    "no_credit": _failure(429, "1113", "您的账户已欠费，请充值后重试。"),
    "forbidden": _failure(403, "1220", "您无权访问该模型。"),
    "unknown_model": _failure(400, "1211", "模型不存在，请检查模型代码。"),
    "bad_parameter": _failure(400, "1214", "temperature 参数非法。请检查文档。"),
    "context_too_long": _failure(400, "1261", "Prompt 超长"),
    "content_filter": Failure(
        status=400,
        body={
            "contentFilter": [{"level": 1, "role": "user"}],
            "error": {
                "code": "1301",
                "message": "系统检测到输入或生成内容可能包含不安全或敏感内容，"
                "请您避免输入易产生敏感内容的提示语，感谢您的配合。",
            },
        },
    ),
    "rate_limited": _failure(429, "1302", "您的账户已达到速率限制，请您控制请求频率"),
    "too_busy": _failure(429, "1305", "该模型当前访问量过大，请您稍后再试"),
    "server_error": _failure(500, "1234", "网络错误，错误id：202611221750sim，请稍后重试。"),
}


class _Chat(ProviderChat):
    def _end(self, answer: Answer) -> str:
        return FINISHES.get(found := super()._end(answer), found)


def _entry(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 1_753_632_000, "owned_by": "z-ai"}


ZHIPU = Provider(
    name="zhipu",
    sources={
        "errors": "https://docs.bigmodel.cn/cn/faq/api-code",
        "bodies": "https://github.com/yilewang/llm-for-zotero/issues/17",
        "streams": "https://docs.bigmodel.cn/cn/guide/capabilities/streaming",
        "finishes": "https://docs.z.ai/api-reference/llm/chat-completion",
        "messages": "https://docs.z.ai/devpack/tool/claude",
    },
    models=("glm-5.3", "glm-4.7"),
    listing=Listing(path="/api/paas/v4/models", entry=_entry),
    faces=(
        Face(
            path="/api/paas/v4/chat/completions",
            dialect=_Chat(
                ChatTraits(
                    id_prefix="",
                    head={"request_id": "202611221750sim"},
                    first_delta=None,
                    every_delta={"role": "assistant"},
                    has_whole_calls=True,
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(
            path="/api/anthropic/v1/messages",
            dialect=MessagesDialect(),
            keys=("x-api-key",),
            failures=in_messages(FAILURES),
        ),
    ),
)
