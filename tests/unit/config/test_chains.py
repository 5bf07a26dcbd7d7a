"""Chains of models in the file: what they become, and where a fault of one stands."""

from tests.support.rows import cases
from tests.unit.config.reading import fault_of, read

CHANNELS = """\
channels:
  - {id: a, base_url: "https://a.example", api_key: key, protocols: [chat]}
  - {id: b, base_url: "https://b.example", api_key: key, protocols: [messages, images]}
models:
  - {id: gpt, channels: [a], price: {input: 1, output: 2}, context_size: 1000,
     capabilities: [tools, json], aliases: [gpt-latest]}
  - {id: claude, channels: [{id: b, as: up}], price: {input: 3, output: 4}, context_size: 500,
     max_output_tokens: 50, capabilities: [tools, vision]}
  - {id: painter, endpoint_type: images_generations, channels: [b], price: {per_image: 1}}
  - {id: later, callable: false}
  - {id: bare, price: {input: 1, output: 2}}
  - {id: other, chain: [gpt]}
"""


def test_chain_has_its_models_and_what_holds_of_all_of_them() -> None:
    config = read(CHANNELS + "  - {id: best, chain: [gpt-latest, claude], protocols: [chat]}\n")
    best = config.registry.resolve("best")
    assert best is not None
    assert [one.id for one in best.chain] == ["gpt", "claude"]
    assert best.chain[0] is config.registry.models["gpt"]
    assert [(one.channel_id, one.upstream_model) for one in best.bindings] == [
        ("a", "gpt"),
        ("b", "up"),
    ]
    assert (best.context_size, best.max_output_tokens) == (500, 50)
    assert best.capabilities == {"tools"}
    assert best.protocols == frozenset({"chat"})
    assert [best.is_served_on(one) for one in ("chat", "messages", "images")] == [
        True,
        False,
        False,
    ]
    assert config.registry.models["gpt"].chain == ()
    other = config.registry.models["other"]
    assert (other.protocols, other.is_served_on("messages")) == (None, True)


@cases(
    "keys, path, found",
    ("chain: []", "chain", "an empty chain"),
    ("chain:", "chain", "an empty chain"),
    (f"chain: [{', '.join(['gpt'] * 9)}]", "chain", "9 models"),
    ("chain: [gpt, claud]", "chain[1]", 'the unknown model "claud"'),
    ("chain: [gpt, other]", "chain[1]", '"other", which is a chain'),
    ("chain: [best]", "chain[0]", '"best", which is the chain itself'),
    ("chain: [finest], aliases: [finest]", "chain[0]", "which is the chain itself"),
    ("chain: [painter]", "chain[0]", "which is a model of images_generations"),
    ("chain: [later]", "chain[0]", "which cannot be called"),
    ("chain: [bare]", "chain[0]", "which has no channels"),
    ("chain: [gpt, gpt-latest]", "chain[1]", 'the model "gpt-latest" again'),
    ("chain: [gpt], channels: [a]", "channels", "channels beside a chain"),
    ("chain: [gpt], price: {input: 1}", "price", "price beside a chain"),
    ("chain: [gpt], context_size: 9", "context_size", "context_size beside a chain"),
    ("chain: [gpt], protocols: [chat, native]", "protocols[1]", "native, which no model"),
    ("chain: [gpt], protocols: [chats]", "protocols[0]", '"chats"'),
    ("protocols: [chat]", "protocols", "protocols without a chain"),
    ("chain: gpt", "chain", '"gpt"'),
    ("chains: [gpt]", "chains", 'the unknown key "chains"'),
)
def test_fault_of_a_chain_stands_at_its_place(keys: str, path: str, found: str) -> None:
    text = CHANNELS + f"  - {{id: best, {keys}}}\n"
    if path == "chain" and keys.startswith("chain: [gpt, gpt"):
        # Each of the others is one more fault.
        text = text.replace(
            "gpt, gpt, gpt, gpt, gpt, gpt, gpt, gpt, gpt", "n0, n1, n2, n3, n4, n5, n6, n7, n8"
        )
        more = "".join(
            f"  - {{id: n{n}, channels: [a], price: {{input: 1, output: 2}}}}\n" for n in range(9)
        )
        text += more
    fault = fault_of(text)
    assert fault.path == f"models[6].{path}"
    assert found in fault.found


def test_two_chains_of_each_other_are_faults_at_both() -> None:
    fault = fault_of(CHANNELS + "  - {id: best, chain: [round]}\n  - {id: round, chain: [gpt]}\n")
    assert fault.path == "models[6].chain[0]"


def test_translation_makes_a_protocol_servable() -> None:
    text = CHANNELS + "  - {id: best, chain: [claude], protocols: [chat]}\n"
    assert read(text).registry.models["best"].protocols == frozenset({"chat"})
    refused = fault_of("translations: []\n" + text)
    assert (refused.path, "messages" in refused.hint) == ("models[6].protocols[0]", True)
