"""Providers as they are on the wire: a file of rows each (`*.yaml`), read by `table.py`.

A port plays one provider: `Simulator.open_port(provider="groq")`, `PUT /_sim/providers/groq`. It
accepts requests on that provider's paths alone, with the key where that provider takes it, for its
models, with the parameters it knows; answers, streams, usage, errors and headers have its forms.
Directives act as ever, and one more names a situation of the provider's own, a key of its
`failures`: `[[sim {"situation": "rate_limited"}]]`. `error_event` breaks a stream in the way of the
provider.

A key that begins with `wrong-` is refused as a wrong one, a model that is not on its list as
unknown. `sources` are where each group of facts is from; no provider was called itself.
"""
