"""An upstream that speaks four chat protocols, images and tasks, and fails on request.

Used by `gw demo`, by the tests and as the upstream of benchmarks; it imports nothing of the
gateway. Run `python -m loadtests.simulator --host 127.0.0.1 --port 0 --seed 7`, which prints
`ready listen=http://HOST:PORT` on stderr, or use it in a test:

    async with Simulator(seed=7) as simulator:        # loadtests.simulator.server
        simulator.put_faults({"status": 503, "times": 2}, api_key="upstream-a")
        ...                                           # a channel at simulator.base_url
        await simulator.wait(cancelled=1)
        simulator.requests()[-1].body

Endpoints: `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages`,
`/v1beta/models/M:generateContent`, `:streamGenerateContent`, `:embedContent`,
`:batchEmbedContents`, `/v1/embeddings`, `/v1/decisions`, `/v1/images/generations`,
`/v1/images/edits`, `/v1/audio/transcriptions`, `/v1/rerank`, those of providers with paths of their
own (`engine.py`) and those of tasks (below). Any key that is not empty will do, in the header of
the protocol; without one it is a 401.

What an answer is: without a directive it echoes the beginning of the last user message; with
function tools in the request (and `tool_choice` not `none`) it calls one, or two in parallel when
two are offered; after a tool's result it is text again. On the responses wire the built-in tools
`web_search` and `image_generation` run first: a search whose source the text cites, a picture. The
same request and seed give the same bytes, ids and `created` included. Five characters are a token,
so a length is easily foreseen and differs from the gateway's own estimate of four; `max_tokens`
cuts the echo and finishes with the dialect's word for length. A request that names a cache
(`prompt_cache_key`, `cachedContent`, `cache_control`) reads half of its input from it;
`cache_control` also writes a quarter.

Directives
----------
A JSON object: as the top-level member `sim` of a request, as `[[sim {...}]]` in its last user
message, or standing: `PUT /_sim/faults/KEY` for an upstream key, `/_sim/faults` for everybody
(`DELETE` takes it away). They are merged member by member; the request's own beat those of the key
and everybody, in this order (`sim` beats the text). A member given as null is back at its default.
An unknown member, a wrong type or a value out of bounds is a 400 that names it.

The members are those of `Directive` in `directives.py`.

Tasks
-----
Films, songs, speech, avatars, voices and transcripts come over the plain wire, which is this
gateway's own client API (`tasks/plain/` has the endpoints): a submit gives an id, polls tell
`queued`, then `running` with its progress, and at the end links to real files, an mp4, an mp3, a
PNG, signed and good for a while, whole or by `Range`. A task takes `--task-seconds` (1 when not
given) and needs no worker: its state is worked out when it is asked for. A submit with the
`Idempotency-Key` of an earlier one gets that one's answer again. All values are predictable: a
film is as long as its `duration` (5 s without one, a clip 30), `dh-avatar` speaks 5 characters a
second, speech 15.

The same tasks over the dialects of five providers, with the errors, states and ends of links of
each, as their files in `tasks/` state:

| Dialect    | Begins at |
|------------|-------------------------------------------------------------|
| `ark`      | `/api/v3/contents/generations/tasks` |
| `openai`   | `/v1/videos`, the film at `/v1/videos/ID/content` |
| `suno`     | `/suno/submit/music` |
| `minimax`  | `/v1/t2a_v2`, `/v1/t2a_async_v2` |
| `shanjian` | `/v1/virtualman/…`, `/v1/clip/…`, `/v1/voice/train`; `/v1/task/info` |

What stands at the top of a directive concerns the submit, its members for tasks the whole task.
So `[[sim {"poll": {"status": 503, "times": 2}}]]` in a prompt makes the first two polls of that
task fail, and the same as a standing directive the next two of any key.

Looking inside
--------------
| Request                                | Answer |
|----------------------------------------|----------------------------------------------|
| `GET /_sim/stats`                      | counters, also per protocol and per key |
| `GET /_sim/requests?last=N`            | the most recent requests as they came, oldest first |
| `GET /_sim/wait?cancelled=1&timeout=5` | 200 once the counters are there, else 408; |
|                                        | `key=K` looks at one key; the gauges (`active`, |
|                                        | `held_back`, `paused`, `connections_open`) |
|                                        | must be equal, the rest at least so many |
| `POST /_sim/finish`                    | lets every task end now as planned |
| `GET /_sim/google-key`                 | the key file of the service account of Vertex AI |
| `POST /_sim/token-seconds/N`           | how long the next tokens are good |
| `PUT /_sim/providers/NAME`             | opens a port that plays this provider: `base_url` |
| `POST /_sim/resume`                    | lets everything that is paused go on |
| `POST /_sim/reset`                     | forgets faults, tasks, requests and counters |

`held_back` counts the connections whose client reads too slowly to take more at this moment.
A request ends as `completed`, as `cut` (by a directive) or as `cancelled_by_client`.

Where things are: `http.py` (a connection) -> `engine.py` (request to script) -> `dialects/`
(wires), `completions.py` (content), `script.py` (delivery); beside them `directives.py`,
`exchange.py` (requests and counters), `server.py` (ports, `/_sim`). Work that takes time is in
`tasks/`, the files it makes are in `files.py`; upstreams that are signed for or want tokens are in
`cloud/`, single providers, each with paths, keys, errors and habits of its own, in `providers/`.
"""
