"""What providers' responses cost by their own price sheets: from a usage as it comes to nano-USD.

Each case is worked out by hand: what is billed, at the price of the provider's page on that day.
Two are of real invoices, as xAI states with a response what it has charged.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from actors.wallet.pricing import TokenPrice
from actors.wallet.sheets import token_price
from channels.dialects.messages.converse_response import messages_body
from channels.kinds import KINDS
from channels.prices import PriceSpec
from gw.config.faults import FaultReport
from gw.config.mappings import mapping
from gw.config.prices import PRICE
from gw.config.yaml_source import parse
from tests.support.rows import each
from tests.unit.channels.replay import new_meter

OPENAI = "https://developers.openai.com/api/docs/pricing 2026-10-03"
OPENAI_FAST = "https://openai.com/api-fast-mode/ 2026-11-22"
OPENAI_ULTRA = "https://developers.openai.com/api/docs/guides/ultrafast-mode 2026-10-06"
OPENAI_AUDIO = "https://platform.openai.com/docs/models/gpt-audio 2025-08-28"
ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing 2026-10-24"
COMPACTION = "https://platform.claude.com/docs/en/build-with-claude/compaction-threshold 2026-10-30"
BEDROCK = (
    "https://docs.aws.amazon.com/bedrock/latest/userguide/service-tiers-inference.html 2026-11"
)
NOVA = "https://aws.amazon.com/bedrock/pricing/ 2026-11"
GEMINI = "https://ai.google.dev/gemini-api/docs/pricing 2026-10-03"
GROUNDING = "https://ai.google.dev/gemini-api/docs/google-search 2026-09-17"
DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing 2026-10-27"
XAI = "https://docs.x.ai/developers/pricing 2026-11-22"
XAI_COST = "https://docs.x.ai/developers/cost-tracking 2026-11-22"
MOONSHOT = "https://platform.kimi.ai/docs/pricing/chat-k3 2026-07-18"
MINIMAX = "https://platform.minimax.io/docs/guides/pricing-paygo 2026-09-11"
GROQ = "https://console.groq.com/docs/models 2026-10-03"
MISTRAL = "https://mistral.ai/pricing/api 2026-10-03"
ZAI = "https://docs.z.ai/guides/overview/pricing 2026-08-19"

SOL = "input: 4, output: 20, cached_input: 0.4, cache_write: 5"
SOL_LONG = f"{SOL}, above_tokens: [{{above: 272000, input: 8, output: 30, cached_input: 0.8}}]"
GPT5 = "input: 1.25, output: 10, cached_input: 0.125"
SONNET = "input: 3, output: 15, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6"
OPUS = "input: 5, output: 25, cached_input: 0.5, cache_write: 6.25, cache_write_1h: 10"
HAIKU = "input: 0.1, output: 0.5, cached_input: 0.01, cache_write: 0.125, above_tokens: [{above: \
100000, input: 0.5, output: 2.5, cached_input: 0.05, cache_write: 0.625}]"
FLASH = "input: 0.3, output: 2.5, cached_input: 0.03, audio_input: 1, cached_audio_input: 0.1"
PRO = "input: 1.25, output: 10, cached_input: 0.125, above_tokens: [{above: 200000, input: 2.5, \
output: 15, cached_input: 0.25}]"
GROK = "input: 1.25, output: 2.5, cached_input: 0.2, per_web_search: 0.005"
TWO_TIERS = "service_tiers: {priority: {input: 8, output: 40, cached_input: 0.8}}"


def chat(
    prompt: int, completion: int, *, usage: Mapping[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """A chat completion; `usage` are members beside the two counts."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, **(usage or {})}
    counts.setdefault("total_tokens", prompt + completion)
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    return {"id": "c", "model": "m", "choices": [choice], "usage": counts, **top}


def cached(tokens: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": {"cached_tokens": tokens, **more}}


def messages(usage: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    return {"id": "m", "type": "message", "content": [], "model": "m", "usage": usage, **top}


def native(
    prompt: int, candidates: int, *, queries: list[str] | None = None, **usage: Any
) -> dict[str, Any]:
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, **usage}
    candidate: dict[str, Any] = {"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}
    if queries is not None:
        candidate["groundingMetadata"] = {"webSearchQueries": queries}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-3-x"}


def responses(
    taken: int, given: int, *items: Mapping[str, Any], usage: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    counts = {"input_tokens": taken, "output_tokens": given, "total_tokens": taken + given}
    body = {"id": "r", "model": "m", "status": "completed", "output": list(items)}
    return {**body, "usage": {**counts, **(usage or {})}}


def converse(usage: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    """A response of Bedrock's Converse, as the gateway reads it: in the words of messages."""
    message = {"role": "assistant", "content": [{"text": "x"}]}
    value = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, **top}
    body: dict[str, Any] = json.loads(messages_body(json.dumps(value).encode(), "nova"))
    return body


def modal(**counts: int) -> list[dict[str, Any]]:
    return [{"modality": name, "tokenCount": count} for name, count in counts.items()]


def call(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"{kind}_call", "id": "i", "status": "completed", **more}


class Case(NamedTuple):
    """`tokens` are what is billed and its price per million, `each` what is billed by the piece;
    `nano_usd` is their sum."""

    name: str
    source: str
    dialect: str
    price: str
    body: Mapping[str, Any]
    tokens: list[tuple[int, str]]
    nano_usd: int
    each: tuple[tuple[int, str], ...] = ()


RECORDED_XAI = {
    "input_tokens_details": {"cached_tokens": 3072},
    "output_tokens_details": {"reasoning_tokens": 0},
    "num_sources_used": 0,
}
# fmt: off
CASES = [
    Case("plain", OPENAI, "chat", "input: 0.1, output: 0.4", chat(16, 363),
         [(16, "0.1"), (363, "0.4")], 146_800),
    Case("cached and reasoning inside", OPENAI, "chat", GPT5,
         chat(2006, 300, usage={**cached(1920), "completion_tokens_details": {
             "reasoning_tokens": 200, "audio_tokens": 0}}),
         [(86, "1.25"), (1920, "0.125"), (300, "10")], 3_347_500),
    Case("cache written", OPENAI, "chat", SOL,
         chat(10_000, 500, usage=cached(6000, cache_write_tokens=3000)),
         [(1000, "4"), (6000, "0.4"), (3000, "5"), (500, "20")], 31_400_000),
    Case("long prompt, its cached part included", OPENAI, "chat", SOL_LONG,
         chat(300_000, 1000, usage=cached(100_000)),
         [(200_000, "8"), (100_000, "0.8"), (1000, "30")], 1_710_000_000),
    Case("not yet a long prompt", OPENAI, "chat", SOL_LONG,
         chat(272_000, 1000, usage=cached(100_000)),
         [(172_000, "4"), (100_000, "0.4"), (1000, "20")], 748_000_000),
    Case("priority served", OPENAI_FAST, "chat", f"{SOL}, {TWO_TIERS}",
         chat(1000, 100, usage=cached(400), service_tier="priority"),
         [(600, "8"), (400, "0.8"), (100, "40")], 9_120_000),
    Case("priority under its new name", OPENAI_FAST, "chat", f"{SOL}, {TWO_TIERS}",
         chat(1000, 100, service_tier="fast"), [(1000, "8"), (100, "40")], 12_000_000),
    Case("default served whatever was requested", OPENAI_FAST, "chat", f"{SOL}, {TWO_TIERS}",
         chat(1000, 100, service_tier="default"), [(1000, "4"), (100, "20")], 6_000_000),
    Case("flex", OPENAI, "chat", f"{GPT5}, service_tiers: {{flex: {{factor: 0.5}}}}",
         chat(1000, 100, service_tier="flex"), [(1000, "0.625"), (100, "5")], 1_125_000),
    Case("ultrafast", OPENAI_ULTRA, "chat",
         "input: 10, output: 50, cached_input: 1, service_tiers: {ultrafast: {factor: 6}}",
         chat(1000, 100, service_tier="ultrafast"), [(1000, "60"), (100, "300")], 90_000_000),
    Case("a model that searches before it responds", OPENAI, "chat",
         "input: 2.5, output: 10, per_web_search: 0.025",
         chat(20, 400, model="gpt-4o-search-preview-2025-03-11"),
         [(20, "2.5"), (400, "10")], 29_050_000, ((1, "0.025"),)),
    Case("audio both ways", OPENAI_AUDIO, "chat",
         "input: 2.5, output: 10, audio_input: 32, audio_output: 64",
         chat(1200, 500, usage={"prompt_tokens_details": {"audio_tokens": 1000, "text_tokens": 200},
                                "completion_tokens_details": {"audio_tokens": 400}}),
         [(200, "2.5"), (1000, "32"), (100, "10"), (400, "64")], 59_100_000),
    Case("audio read from a cache", OPENAI_AUDIO, "chat",
         "input: 4, output: 16, cached_input: 0.4, audio_input: 32, cached_audio_input: 0.4",
         chat(1000, 10, usage=cached(500, audio_tokens=700,
                                     cached_tokens_details={"audio_tokens": 450})),
         [(250, "4"), (250, "32"), (50, "0.4"), (450, "0.4"), (10, "16")], 9_360_000),
    Case("searches, not the pages opened", OPENAI, "responses", f"{GPT5}, per_web_search: 0.01",
         responses(19_681, 3773, call("web_search", action={"type": "search"}),
                   call("web_search", action={"type": "search"}),
                   call("web_search", action={"type": "open_page"}),
                   call("web_search", action={"type": "find_in_page"}),
                   usage={"input_tokens_details": {"cached_tokens": 3712}}),
         [(15_969, "1.25"), (3712, "0.125"), (3773, "10")], 78_155_250, ((2, "0.01"),)),
    Case("a search that failed", OPENAI, "responses", f"{GPT5}, per_web_search: 0.01",
         responses(100, 10, {**call("web_search"), "status": "failed"}),
         [(100, "1.25"), (10, "10")], 225_000),
    Case("search of files", OPENAI, "responses", f"{GPT5}, per_file_search: 0.0025",
         responses(1000, 100, call("file_search")), [(1000, "1.25"), (100, "10")],
         4_750_000, ((1, "0.0025"),)),
    Case("two runs of code in one container", OPENAI, "responses",
         f"{GPT5}, per_code_session: 0.03",
         responses(500, 100, call("code_interpreter", container_id="cntr_1", code="1"),
                   call("code_interpreter", container_id="cntr_1", code="2")),
         [(500, "1.25"), (100, "10")], 31_625_000, ((1, "0.03"),)),
    Case("a shell in a container beside it", OPENAI, "responses", f"{GPT5}, per_code_session: 0.03",
        responses(500, 100, call("code_interpreter", container_id="cntr_1", code="1"),
            call("shell", environment={"type": "container_reference", "container_id": "cntr_2"})),
        [(500, "1.25"), (100, "10")], 61_625_000, ((2, "0.03"),)),
    Case("a shell of the client's", OPENAI, "responses", f"{GPT5}, per_code_session: 0.03",
         responses(500, 100, call("shell")), [(500, "1.25"), (100, "10")], 1_625_000),
    Case("cache beside the input", ANTHROPIC, "messages", SONNET,
         messages({"input_tokens": 100, "cache_read_input_tokens": 10_000,
                   "cache_creation_input_tokens": 2000, "output_tokens": 300}),
         [(100, "3"), (10_000, "0.3"), (2000, "3.75"), (300, "15")], 15_300_000),
    Case("cache written for an hour", ANTHROPIC, "messages", SONNET,
        messages({"input_tokens": 10, "cache_creation_input_tokens": 5000, "output_tokens": 1,
         "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 4000}}),
        [(10, "3"), (1000, "3.75"), (4000, "6"), (1, "15")], 27_795_000),
    Case("cache written for an hour and no sum", ANTHROPIC, "messages", OPUS,
         messages({"input_tokens": 10, "output_tokens": 1,
                   "cache_creation": {"ephemeral_1h_input_tokens": 4000}}),
         [(10, "5"), (4000, "10"), (1, "25")], 40_075_000),
    Case("fast mode", ANTHROPIC, "messages", f"{OPUS}, service_tiers: {{fast: {{factor: 2}}}}",
         messages({"input_tokens": 1000, "cache_read_input_tokens": 2000, "output_tokens": 100,
                   "service_tier": "standard", "speed": "fast"}),
         [(1000, "10"), (2000, "1"), (100, "50")], 17_000_000),
    Case("a batch", ANTHROPIC, "messages", f"{SONNET}, service_tiers: {{batch: {{factor: 0.5}}}}",
         messages({"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"}),
         [(1000, "1.5"), (100, "7.5")], 2_250_000),
    Case("within the United States", ANTHROPIC, "messages", f"{OPUS}, regions: {{us: 1.1}}",
         messages({"input_tokens": 1000, "cache_read_input_tokens": 2000, "output_tokens": 100,
                   "cache_creation_input_tokens": 100, "inference_geo": "us"}),
         [(1000, "5.5"), (2000, "0.55"), (100, "6.875"), (100, "27.5")], 10_037_500),
    Case("fast within the United States", ANTHROPIC, "messages",
         f"{OPUS}, regions: {{us: 1.1}}, service_tiers: {{fast: {{factor: 2}}}}",
         messages({"input_tokens": 1000, "output_tokens": 100, "speed": "fast",
                   "inference_geo": "us"}), [(1000, "11"), (100, "55")], 16_500_000),
    Case("anywhere", ANTHROPIC, "messages", f"{OPUS}, regions: {{us: 1.1}}",
         messages({"input_tokens": 1000, "output_tokens": 100, "inference_geo": "global"}),
         [(1000, "5"), (100, "25")], 7_500_000),
    Case("searches of the provider's", ANTHROPIC, "messages", f"{SONNET}, per_web_search: 0.01",
         messages({"input_tokens": 6039, "output_tokens": 931,
                   "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 2}}),
         [(6039, "3"), (931, "15")], 62_082_000, ((3, "0.01"),)),
    Case("code in a container", ANTHROPIC, "messages", f"{SONNET}, per_code_session: 0.0042",
         messages({"input_tokens": 1000, "output_tokens": 100}, container={"id": "container_1"}),
         [(1000, "3"), (100, "15")], 8_700_000, ((1, "0.0042"),)),
    Case("code that a search runs is free", ANTHROPIC, "messages",
         f"{SONNET}, per_web_search: 0.01, per_code_session: 0.0042",
         messages({"input_tokens": 1000, "output_tokens": 100,
                   "server_tool_use": {"web_search_requests": 1}}, container={"id": "c"}),
         [(1000, "3"), (100, "15")], 14_500_000, ((1, "0.01"),)),
    Case("a summary beside the totals", COMPACTION, "messages", OPUS,
         messages({"input_tokens": 23_000, "output_tokens": 1000, "iterations": [
             {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
             {"type": "message", "input_tokens": 23_000, "output_tokens": 1000}]}),
         [(203_000, "5"), (4500, "25")], 1_127_500_000),
    Case("a summary within the totals", COMPACTION, "messages", OPUS,
         messages({"input_tokens": 203_000, "output_tokens": 4500, "iterations": [
             {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
             {"type": "message", "input_tokens": 23_000, "output_tokens": 1000}]}),
         [(203_000, "5"), (4500, "25")], 1_127_500_000),
    Case("a long prompt that was mostly cached", ANTHROPIC, "messages", HAIKU,
         messages({"input_tokens": 1001, "cache_read_input_tokens": 99_000, "output_tokens": 10}),
         [(1001, "0.5"), (99_000, "0.05"), (10, "2.5")], 5_475_500),
    Case("Nova over Converse", NOVA, "messages", "input: 0.8, output: 3.2",
         converse({"inputTokens": 1000, "outputTokens": 200, "totalTokens": 1200}),
         [(1000, "0.8"), (200, "3.2")], 1_440_000),
    Case("an hour's cache on Bedrock", BEDROCK, "messages", SONNET,
        converse({"inputTokens": 10, "outputTokens": 1, "cacheReadInputTokens": 100,
         "cacheWriteInputTokens": 50,
         "cacheDetails": [{"ttl": "1h", "inputTokens": 30}, {"ttl": "5m", "inputTokens": 20}]}),
        [(10, "3"), (100, "0.3"), (20, "3.75"), (30, "6"), (1, "15")], 330_000),
    Case("priority on Bedrock", BEDROCK, "messages",
         "input: 0.8, output: 3.2, service_tiers: {priority: {factor: 1.75}}",
         converse({"inputTokens": 1000, "outputTokens": 200}, serviceTier={"type": "priority"}),
         [(1000, "1.4"), (200, "5.6")], 2_520_000),
    Case("audio in, thoughts beside the output", GEMINI, "native", FLASH,
         native(1000, 100, thoughtsTokenCount=50, totalTokenCount=1150,
                promptTokensDetails=modal(TEXT=200, AUDIO=800)),
         [(200, "0.3"), (800, "1"), (150, "2.5")], 1_235_000),
    Case("cached audio", GEMINI, "native", FLASH,
         native(1000, 10, totalTokenCount=1010, cachedContentTokenCount=500,
                promptTokensDetails=modal(TEXT=200, AUDIO=800),
                cacheTokensDetails=modal(TEXT=100, AUDIO=400)),
         [(100, "0.3"), (400, "1"), (100, "0.03"), (400, "0.1"), (10, "2.5")], 498_000),
    Case("over 200k", GEMINI, "native", PRO,
         native(250_000, 1000, totalTokenCount=251_000, cachedContentTokenCount=50_000),
         [(200_000, "2.5"), (50_000, "0.25"), (1000, "15")], 527_500_000),
    Case("what tools fed back is input", GEMINI, "native", "input: 2, output: 12",
         native(21, 116, toolUsePromptTokenCount=160, thoughtsTokenCount=24, totalTokenCount=321),
         [(181, "2"), (140, "12")], 2_042_000),
    Case("grounding by the query, each once", GROUNDING, "native",
         "input: 0.5, output: 3, per_web_search: 0.014",
         native(100, 10, queries=["", "a", "b", "a", " "], totalTokenCount=110),
         [(100, "0.5"), (10, "3")], 28_080_000, ((2, "0.014"),)),
    Case("grounding by the prompt", GROUNDING, "native",
         "input: 0.3, output: 2.5, per_web_search: 0.035",
         {**native(100, 10, queries=["a", "b", "c"]), "modelVersion": "gemini-2.5-flash"},
         [(100, "0.3"), (10, "2.5")], 35_055_000, ((1, "0.035"),)),
    Case("grounded on nothing", GROUNDING, "native", "input: 0.3, output: 2.5, per_web_search: 1",
         native(100, 10, queries=[""]), [(100, "0.3"), (10, "2.5")], 55_000),
    Case("flex on Vertex AI", GEMINI, "native",
         f"{FLASH}, service_tiers: {{flex: {{factor: 0.5}}}}",
         native(1000, 100, trafficType="ON_DEMAND_FLEX"), [(1000, "0.15"), (100, "1.25")], 275_000),
    Case("an image that is drawn", GEMINI, "native", "input: 0.3, output: 2.5, image_output: 30",
         native(16, 1290, totalTokenCount=1306, candidatesTokensDetails=modal(IMAGE=1290)),
         [(16, "0.3"), (1290, "30")], 38_704_800),
    Case("hits of the cache", DEEPSEEK, "chat", "input: 1.32, output: 3.96, cached_input: 0.044",
         chat(2000, 100, usage={"prompt_cache_hit_tokens": 1536, "prompt_cache_miss_tokens": 464}),
         [(464, "1.32"), (1536, "0.044"), (100, "3.96")], 1_076_064),
    Case("usage in a choice", MOONSHOT, "chat", "input: 3, output: 15, cached_input: 0.3",
         {**chat(0, 0), "usage": None, "choices": [{"message": {"content": "x"}, "usage": {
             "prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 64}}]},
         [(36, "3"), (64, "0.3"), (10, "15")], 277_200),
    Case("reasoning beside the completion", XAI, "chat", GROK,
         chat(100, 20, usage={"total_tokens": 420,
                              "completion_tokens_details": {"reasoning_tokens": 300}}),
         [(100, "1.25"), (320, "2.5")], 925_000),
    Case("invoiced: three searches of X", XAI_COST, "responses", GROK,
         responses(7583, 3192, usage={**RECORDED_XAI, "server_side_tool_usage_details": {
             "web_search_calls": 0, "x_search_calls": 3, "code_interpreter_calls": 0}}),
         [(4511, "1.25"), (3072, "0.2"), (3192, "2.5")], 29_233_150, ((3, "0.005"),)),
    Case("invoiced: five searches of X", XAI_COST, "responses", GROK,
         responses(12_190, 4801, call("web_search"), usage={
             **RECORDED_XAI, "server_side_tool_usage_details": {"x_search_calls": 5}}),
         [(9118, "1.25"), (3072, "0.2"), (4801, "2.5")], 49_014_400, ((5, "0.005"),)),
    Case("sources of a live search", XAI, "chat", "input: 3, output: 15, per_web_search: 0.025",
        chat(100, 10, usage={"num_sources_used": 4}), [(100, "3"), (10, "15")], 100_450_000,
        ((4, "0.025"),)),
    Case("usage of Groq's own", GROQ, "chat", "input: 0.15, output: 0.6",
         {**chat(0, 0), "usage": None, "x_groq": {"usage": {"prompt_tokens": 100,
                                                            "completion_tokens": 50}}},
         [(100, "0.15"), (50, "0.6")], 45_000),
    Case("cached at Mistral", MISTRAL, "chat", "input: 0.5, output: 1.5, cached_input: 0.05",
         chat(1000, 100, usage=cached(640)), [(360, "0.5"), (640, "0.05"), (100, "1.5")], 362_000),
    Case("cached at Z.ai", ZAI, "chat", "input: 1.4, output: 4.4, cached_input: 0.26",
        chat(1000, 100, usage=cached(500)), [(500, "1.4"), (500, "0.26"), (100, "4.4")], 1_270_000),
    Case("over 512k at MiniMax", MINIMAX, "chat",
         "input: 0.3, output: 1.2, cached_input: 0.06, above_tokens: [{above: 512000, input: 0.6, "
         "output: 2.4, cached_input: 0.12}]",
         chat(600_000, 1000), [(600_000, "0.6"), (1000, "2.4")], 362_400_000),
]
# fmt: on


def spec_of(price: str) -> PriceSpec:
    """The price as a configuration states it."""
    report = FaultReport("a price")
    root = parse(f"{{{price}}}", {}, report)
    found = mapping(PRICE)(root, report.top())
    report.raise_if_any()
    return PriceSpec(**found.values)


def compiled(price: str) -> TokenPrice:
    return token_price(spec_of(price), Decimal(1))


@each("case", CASES)
def test_response_costs_what_the_providers_sheet_makes_of_it(case: Case) -> None:
    million, nano = Decimal(10**6), Decimal(10**9)
    by_hand = sum((count * Decimal(usd) / million for count, usd in case.tokens), Decimal(0))
    by_hand += sum((count * Decimal(usd) for count, usd in case.each), Decimal(0))
    assert by_hand * nano == case.nano_usd
    meter = new_meter(case.dialect)
    meter.take_body(json.dumps(case.body).encode())
    usage = meter.usage
    assert usage is not None
    assert usage.input_tokens + usage.output_tokens == sum(count for count, _ in case.tokens)
    assert compiled(case.price).cost_nano_usd(usage) == case.nano_usd


def test_table_of_the_documents_has_every_kind_and_cases_that_there_are() -> None:
    page = Path(__file__).parents[3] / "ops" / "reference" / "money.md"
    _, _, section = page.read_text(encoding="utf-8").partition("\n## 5.7 ")
    section, _, _ = section.partition("\n## ")
    lines = [line for line in section.splitlines() if line[:3] == "| `"]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    kinds = [kind for row in cells for kind in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(kinds) == sorted(KINDS)
    names = {case.name for case in CASES}
    shown = {name for row in cells for name in re.findall(r"`([^`]+)`", row[-1])}
    assert shown <= names
    assert all(len(row) == 7 and "`" in row[-1] for row in cells)
